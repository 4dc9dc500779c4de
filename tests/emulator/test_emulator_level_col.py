"""Li's columns, one launch a level, on the emulator."""

from __future__ import annotations

import pytest
import solving
from emulated import needs_compiler
from instantiations import INSTANTIATIONS, PAIRS

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv.level_col import LevelColumns

pytestmark = needs_compiler


@pytest.mark.parametrize("part", range(2))
def test_solves_are_right_under_50_seeds(part):
    solving.check_under_seeds(LevelColumns, range(25 * part, 25 * part + 25))


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = solving.check_every_width(LevelColumns, factors, vector, unit)
    begin = f"level_columns<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    solves = {k for k in launched if not k.startswith("column_values")}
    assert solves == {k for k in INSTANTIATIONS["level_col"] if k.startswith(begin)}


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    solving.check_odd_values(LevelColumns, name, factors, vector)


def test_every_solve_of_one_plan_is_right():
    solving.check_repeats(LevelColumns)


def test_a_solve_out_of_place_leaves_b_as_it_is():
    solving.check_out_of_place(LevelColumns)
