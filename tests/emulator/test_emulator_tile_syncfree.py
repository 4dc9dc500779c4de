"""The self-scheduled rows of tiles on the emulator."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import reference
import solving
from cases import as_triangle, layered
from cases import triangle as cases_triangle
from emulated import Device, needs_compiler, sources, unit
from emulator import DeadlockError, RaceError
from emulator_systems import dense_triangle, triangle, values
from instantiations import INSTANTIATIONS, PAIRS, columns_at_once
from tile_systems import FORMATS, formats_of, tiled_triangle

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.errors import SolveStalledError
from gpuilu.trsv.serial import Serial
from gpuilu.trsv.tile_syncfree import TileSyncfree
from gpuilu.trsv.tiles import lay_out

pytestmark = needs_compiler

NAMES = solving.NAMES


solve = functools.partial(solving.solve, TileSyncfree)
check = functools.partial(solving.check, TileSyncfree)


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], seed % 16 < 8, unit=seed % 3 == 0, seed=seed)
        check(T, values(T.n, "d", np.random.default_rng(seed)), seed=seed, resident=1 + seed % 3)


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves_tiles_of_every_format(factors, vector):
    launched = set()
    for seed, lower in enumerate((True, False)):
        T = tiled_triangle(lower, unit=not lower, dtype=factors)
        assert formats_of(T) == set(FORMATS)
        for columns in (1, columns_at_once(vector)):
            shape = (T.n,) if columns == 1 else (T.n, columns + 1)
            b = values(np.prod(shape), vector, np.random.default_rng(seed)).reshape(shape)
            launched.update(check(T, b, seed=seed))
    begin = f"solve_tile_rows<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    expected = {k for k in INSTANTIATIONS["tile_syncfree"] if k.startswith(begin)}
    assert {k for k in launched if k.startswith("solve")} == expected


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal", "tiles"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    T = tiled_triangle(dtype=factors) if name == "tiles" else triangle(name, dtype=factors)
    solving.check_odd_values_of(TileSyncfree, T, vector)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_a_tile_does_not_store_is_not_multiplied(special):
    T = tiled_triangle()
    for j in range(T.n - 16):
        b = values(T.n, "d", np.random.default_rng(j))
        b[j] = special
        expected = b.copy()
        with np.errstate(all="ignore"):
            Serial(T).solve(expected)
        x, _ = solve(T, b, options={"races": False, "stale": False})
        assert np.array_equal(np.isfinite(x), np.isfinite(expected)), j


def test_columns_of_a_block_have_the_bits_of_columns_alone_under_every_schedule():
    T = tiled_triangle()
    B = values(T.n * 5, "d", np.random.default_rng(0)).reshape(T.n, 5)
    X, _ = solve(T, B)
    for k in range(5):
        alone, _ = solve(T, B[:, k].copy(), seed=k, resident=3)
        assert np.array_equal(alone, X[:, k])


def test_two_solves_and_a_refresh_of_one_plan_are_right():
    T = triangle("grid")
    with Device(seed=5):
        plan = TileSyncfree(T)
        for k in range(3):
            b = values(T.n, "d", np.random.default_rng(k))
            x = np.full(T.n, np.nan)
            plan.solve(x, b)
            assert reference.backward_error(dense_triangle(T), x, b) <= solving.BOUND
            T.data[...] *= values(len(T.data), "d", np.random.default_rng(k))
            T.diag[...] *= values(T.n, "d", np.random.default_rng(k))
            plan.refresh()


def cyclic_plan(T):
    """A plan in which the last tile row but one waits for the last."""
    plan = TileSyncfree(T)
    tiles = plan._tiles.tiles
    last = tiles.n_tile_rows - 1
    off = tiles.tile_ptr[last]  # the first tile of the last tile row: the one after a diagonal one
    before = off - 1
    assert (tiles.tile[before] & 0x1FFFFF) == last - 2
    tiles.tile[before] += 2
    return plan


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    solving.check_deadlock(cyclic_plan, "y at byte")


def test_an_abandoned_solve_drains_with_nan_and_the_next_one_is_right():
    T = triangle("chain")
    b = np.ones(T.n)
    with Device(patience_ns=1000, options={"spin_limit": 10**12}):
        plan = cyclic_plan(T)
        x = b.copy()
        plan.solve(x)
        with pytest.raises(SolveStalledError):
            plan.check()
        expected = b.copy()
        Serial(T).solve(expected)
        assert np.isnan(x[64:]).all()
        np.testing.assert_allclose(x[:48], expected[:48], rtol=1e-14)
    check(T, b)


@pytest.mark.parametrize("lower", [True, False])
def test_rows_that_are_cut_are_solved_through_their_segments(lower):
    T = tiled_triangle(lower)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuilu.trsv.tiles.SEGMENT", 5)
        patch.setattr("gpuilu.trsv.tiles.LONG", 0)
        with Device(seed=2):
            assert len(TileSyncfree(T)._tiles.tiles.row) > T.n + 16
        check(T, values(T.n, "d", np.random.default_rng(1)), seed=2)


def test_tile_columns_that_leave_no_room_for_the_extent_have_it_apart():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuilu.trsv.tiles.PACKED", 0)
        for T in (tiled_triangle(), triangle("grid"), triangle("dense")):
            assert lay_out(T)[0].extent is not None
            check(T, values(T.n, "d", np.random.default_rng(1)))


# ---- faults planted in the kernel ----------------------------------------------------------------


def faulty(right, wrong):
    """A device with one change in the kernel's source."""
    texts = sources()
    assert texts["tile_syncfree.cu"].count(right) == 1
    texts["tile_syncfree.cu"] = texts["tile_syncfree.cu"].replace(right, wrong)
    kernels = ("solve_tile_rows<double,double,1>",)
    return {"units": {"tile_syncfree": unit("tile_syncfree", kernels, texts)}}


def solve_often(T, **device):
    for seed in range(24):
        solve(T, np.ones(T.n), seed=seed, **device)


def test_a_plain_read_of_what_others_publish_is_found():
    wrong = faulty(
        "await(slot, wanted, value, launch, patience, lane);",
        "for (int c = 0; c < C; ++c) value[c] = wanted >> c & 1u ? *slot[c] : V(0);",
    )
    with pytest.raises(RaceError):
        solve_often(triangle("grid"), **wrong)


def test_padding_that_is_not_published_is_found():
    wrong = faulty("if (lane >= TILE ||", "if (mine.row < 0 || lane >= TILE ||")
    T = as_triangle(cases_triangle(layered(4, 40)))  # 40 rows a level, 48 positions
    check(T, np.ones(T.n))
    with pytest.raises(DeadlockError):
        solve(T, np.ones(T.n), **wrong)


def test_an_order_of_tickets_that_is_not_topological_is_found():
    right = "const int position = int(task) * TILE"
    wrong = faulty(right, "task = T.n_tile_rows - 1 - task; " + right)
    T = triangle("chain")
    with pytest.raises(DeadlockError):
        solve(T, np.ones(T.n), blocks=1, **wrong)
