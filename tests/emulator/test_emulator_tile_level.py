"""The levels of rows of tiles on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import reference
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, dense_triangle, odd_values, triangle, values
from instantiations import INSTANTIATIONS, PAIRS, columns_at_once
from tile_systems import FORMATS, formats_of, tiled_triangle

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv import tile_level
from gpuilu.trsv.serial import Serial
from gpuilu.trsv.tile_syncfree import TileSyncfree

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)
BOUND = 4
MANY, FEW = 10**9, 0  # cores: the warp-level solve, the thread-level solve


def solve(T, b, cores=MANY, narrow=2, **device):
    """x and what was launched: levels of more than `narrow` tile rows one by one."""
    threads = 32 * narrow
    with (
        mock.patch.multiple(tile_level, _cores=lambda: cores, THREADS=threads, WARPS=narrow),
        Device(**device) as used,
    ):
        plan = tile_level.TileLevel(T)
        assert plan.by_threads == (cores == FEW)
        x = b.copy()
        plan.solve(x)
    return x, used.launched


def check(T, b, **keywords):
    x, launched = solve(T, b, **keywords)
    assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
    return launched


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], seed % 16 < 8, unit=seed % 3 == 0, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        cores = MANY if seed % 5 < 3 else FEW
        check(T, b, cores=cores, narrow=1 + seed % 3, seed=seed, resident=1 + seed % 3)


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves_tiles_of_every_format(factors, vector):
    launched = set()
    for seed, lower in enumerate((True, False)):
        T = tiled_triangle(lower, unit=not lower, dtype=factors)
        assert formats_of(T) == set(FORMATS)
        for columns in (1, columns_at_once(vector)):
            shape = (T.n,) if columns == 1 else (T.n, columns + 1)
            b = values(np.prod(shape), vector, np.random.default_rng(seed)).reshape(shape)
            for cores in (MANY, FEW):
                launched.update(check(T, b, cores=cores, seed=seed))
    pair = f"<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]}"
    expected = {
        *(k for k in INSTANTIATIONS["tile_level"] if k.startswith(f"solve_levels{pair},")),
        *(k for k in INSTANTIATIONS["tile_level"] if k.startswith(f"solve_diagonals{pair}>")),
        f"fill_tiles<{VALUE_TYPES[factors]}>",
    }
    assert {k for k in launched if not k.startswith("reciprocals")} == expected


@pytest.mark.parametrize("name", NAMES)
def test_threads_warps_and_waiting_warps_give_the_same_bits(name):
    T = triangle(name)
    b = values(T.n * 3, "d", np.random.default_rng(0)).reshape(T.n, 3)
    x, launched = solve(T, b)
    assert not any(k.startswith("solve_diagonals") for k in launched)
    by_threads, launched = solve(T, b, cores=FEW)
    assert any(k.startswith("solve_diagonals") for k in launched)
    assert np.array_equal(x, by_threads)
    with Device():
        waiting = b.copy()
        TileSyncfree(T).solve(waiting)
    assert np.array_equal(x, waiting)


def test_a_run_of_narrow_levels_is_one_launch():
    T = triangle("chain")
    _, launched = solve(T, np.ones(T.n), narrow=1)
    assert sum(k.startswith("solve_levels") for k in launched) == 1
    _, launched = solve(T, np.ones(T.n), cores=FEW)
    assert sum(k.startswith("solve_levels") for k in launched) == 5
    assert sum(k.startswith("solve_diagonals") for k in launched) == 5


@pytest.mark.parametrize("cores", [MANY, FEW])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal", "tiles"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector, cores):
    T = tiled_triangle(dtype=factors) if name == "tiles" else triangle(name, dtype=factors)
    b = odd_values(T.n, vector)
    expected = b.copy()
    with np.errstate(all="ignore"):
        Serial(T.astype(b.dtype)).solve(expected)
    x, _ = solve(T, b, cores=cores)
    assert np.array_equal(np.isfinite(x), np.isfinite(expected))
    if np.dtype(vector).kind == "f":
        assert np.array_equal(np.isnan(x), np.isnan(expected))


@pytest.mark.parametrize("cores", [MANY, FEW])
def test_two_solves_out_of_place_and_a_refresh_of_one_plan_are_right(cores):
    T = triangle("grid")
    with mock.patch.object(tile_level, "_cores", return_value=cores), Device(seed=5):
        plan = tile_level.TileLevel(T)
        for k in range(3):
            b = values(T.n, "d", np.random.default_rng(k))
            x, kept = np.full(T.n, np.nan), b.copy()
            plan.solve(x, b)
            assert np.array_equal(b, kept)
            assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
            T.data[...] *= values(len(T.data), "d", np.random.default_rng(k))
            T.diag[...] *= values(T.n, "d", np.random.default_rng(k))
            plan.refresh()
