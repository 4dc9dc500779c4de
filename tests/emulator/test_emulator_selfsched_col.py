"""Li's self-scheduled columns on the emulator."""

from __future__ import annotations

import pytest
import solving
from emulated import needs_compiler
from instantiations import INSTANTIATIONS, PAIRS

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv.selfsched_col import SelfScheduledColumns

pytestmark = needs_compiler


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_100_seeds(part):
    solving.check_under_seeds(SelfScheduledColumns, range(25 * part, 25 * part + 25))


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = solving.check_every_width(SelfScheduledColumns, factors, vector, unit)
    begin = f"selfsched_columns<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    solves = {k for k in launched if not k.startswith("column_values")}
    assert solves == {k for k in INSTANTIATIONS["selfsched_col"] if k.startswith(begin)}


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    solving.check_odd_values(SelfScheduledColumns, name, factors, vector)


def test_every_solve_of_one_plan_is_right():
    solving.check_repeats(SelfScheduledColumns)


def test_a_solve_out_of_place_leaves_b_as_it_is():
    solving.check_out_of_place(SelfScheduledColumns)


def stuck(T):
    """A plan in which the last row but one waits for one term too many."""
    plan = SelfScheduledColumns(T)
    plan._in_degree[list(plan._order).index(T.n - 2)] += 1
    return plan


def test_a_count_that_never_comes_is_a_deadlock():
    solving.check_deadlock(stuck, "counts")


def test_an_abandoned_solve_drains_with_nan():
    solving.check_drained(stuck)
