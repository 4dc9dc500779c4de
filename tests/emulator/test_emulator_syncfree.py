"""Liu's synchronisation-free columns on the emulator, in natural and in level order."""

from __future__ import annotations

import functools

import pytest
import solving
from emulated import needs_compiler
from instantiations import INSTANTIATIONS, PAIRS

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv.syncfree import SyncFree, SyncFreeByLevel

pytestmark = needs_compiler

both = pytest.mark.parametrize("plan", [SyncFree, SyncFreeByLevel], ids=lambda plan: plan.name)


@both
@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_100_seeds(plan, part):
    solving.check_under_seeds(plan, range(25 * part, 25 * part + 25))


@both
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(plan, factors, vector, unit):
    launched = solving.check_every_width(plan, factors, vector, unit)
    begin = f"syncfree_solve<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    solves = {k for k in launched if not k.startswith("column_values")}
    assert solves == {k for k in INSTANTIATIONS["syncfree"] if k.startswith(begin)}


@both
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(plan, name, factors, vector):
    solving.check_odd_values(plan, name, factors, vector)


@both
def test_every_solve_of_one_plan_is_right(plan):
    solving.check_repeats(plan)


@both
def test_a_solve_out_of_place_leaves_b_as_it_is(plan):
    solving.check_out_of_place(plan)


def stuck(plan, T):
    """A plan in which nobody tells the last row but one."""
    made = plan(T)
    made._columns.indices[made._columns.indptr[T.n - 3]] = 0
    return made


@both
def test_a_count_that_never_comes_is_a_deadlock(plan):
    solving.check_deadlock(functools.partial(stuck, plan), "")


@both
def test_an_abandoned_solve_drains_with_nan(plan):
    solving.check_drained(functools.partial(stuck, plan))
