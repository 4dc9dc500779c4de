"""Li's self-scheduled rows on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
import solving
from emulated import Device, needs_compiler
from emulator_systems import triangle, values
from instantiations import INSTANTIATIONS, PAIRS

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv.selfsched_row import SelfScheduledRows

pytestmark = needs_compiler


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_100_seeds(part):
    solving.check_under_seeds(SelfScheduledRows, range(25 * part, 25 * part + 25))


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = solving.check_every_width(SelfScheduledRows, factors, vector, unit)
    begin = f"selfsched_rows<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    assert launched == {k for k in INSTANTIATIONS["selfsched_row"] if k.startswith(begin)}


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    solving.check_odd_values(SelfScheduledRows, name, factors, vector)


def test_every_solve_of_one_plan_is_right():
    solving.check_repeats(SelfScheduledRows)


def test_a_solve_out_of_place_leaves_b_as_it_is():
    solving.check_out_of_place(SelfScheduledRows)


def test_a_column_of_a_block_has_the_bits_of_that_column_alone():
    T = triangle("random")
    B = values(5 * T.n, "d", np.random.default_rng(1)).reshape(T.n, 5)
    X = B.copy()
    with Device():
        plan = SelfScheduledRows(T)
        plan.solve(X)
        for c in range(5):
            x = B[:, c].copy()
            plan.solve(x)
            assert np.array_equal(x, X[:, c])


def stuck(T):
    """A plan in which nobody tells the last row but one."""
    plan = SelfScheduledRows(T)
    plan._t_indices[plan._t_indptr[T.n - 3]] = 0
    return plan


def test_a_count_that_never_comes_is_a_deadlock():
    solving.check_deadlock(stuck, "counts")


def test_an_abandoned_solve_drains_with_nan():
    solving.check_drained(stuck)
