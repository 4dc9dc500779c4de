"""Panels of dense tiles on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from cases import as_triangle, band, dense
from cases import triangle as cases_triangle
from emulated import Device, needs_compiler, sources, unit
from emulator import AddressError, DeadlockError, RaceError
from emulator_systems import PATTERNS, dense_triangle, odd_values, triangle, values
from instantiations import INSTANTIATIONS, PAIRS, columns_at_once

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.errors import SolveStalledError
from gpuilu.trsv.dense_block import PANELS, DenseBlock, shared_bytes
from gpuilu.trsv.serial import Serial

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)
BOUND = 4
FILL = "fill_dense_tiles<double>"


def room_for(rows, vector):
    """Bytes of shared memory for which a plan takes panels of that many tile rows."""
    return shared_bytes(np.dtype(vector), rows, columns_at_once(vector)) + 2048


def solve(T, b, rows=2, **device):
    with Device(shared_bytes=room_for(rows, b.dtype.char), **device) as used:
        plan = DenseBlock(T)
        x = b.copy()
        plan.solve(x)
        plan.check()
    return x, used.launched


def check(T, b, rows=2, **device):
    x, launched = solve(T, b, rows, **device)
    assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
    return launched


def banded(n=330, width=64, lower=True, unit_diagonal=False, dtype="d"):
    T = cases_triangle(band(n, width), dtype, lower)
    return as_triangle(T, lower, unit_diagonal)


def full(n=330, lower=True, unit_diagonal=False, dtype="d"):
    return as_triangle(cases_triangle(dense(n), dtype, lower), lower, unit_diagonal)


def block_of(T, columns, dtype="d", seed=0):
    return values(T.n * columns, dtype, np.random.default_rng(seed)).reshape(T.n, columns)


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], seed % 16 < 8, unit=seed % 3 == 0, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        check(T, b, PANELS[seed % 2], seed=seed, resident=1 + seed % 3)


@pytest.mark.parametrize("rows", PANELS)
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves_bands_and_dense_triangles(factors, vector, rows):
    launched = set()
    for seed, make in enumerate((banded, full)):
        for columns in (1, columns_at_once(vector) + 1):
            T = make(lower=seed == 0, unit_diagonal=columns > 1, dtype=factors)
            b = block_of(T, columns, vector)
            b = b[:, 0].copy() if columns == 1 else b
            launched.update(check(T, b, rows, seed=seed))
    begin = f"solve_panels<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},{rows},"
    expected = {k for k in INSTANTIATIONS["dense_block"] if k.startswith(begin)}
    assert {k for k in launched if k.startswith("solve")} == expected


@pytest.mark.parametrize("rows", PANELS)
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal", "band"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector, rows):
    T = banded(150, 5, dtype=factors) if name == "band" else triangle(name, dtype=factors)
    b = odd_values(T.n, vector)
    expected = b.copy()
    with np.errstate(all="ignore"):
        Serial(T.astype(b.dtype)).solve(expected)
    for seed in range(2):
        x, _ = solve(T, b, rows, seed=seed)
        assert np.array_equal(np.isfinite(x), np.isfinite(expected))
        if np.dtype(vector).kind == "f":
            assert np.array_equal(np.isnan(x), np.isnan(expected))


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("lower", [True, False])
def test_what_the_triangle_does_not_store_is_not_multiplied(special, lower):
    T = as_triangle(cases_triangle(band(170, 1), lower=lower), lower)
    T.data[::7] = 0  # stored: a product with infinity is NaN
    clean = values(T.n, "d", np.random.default_rng(0))
    for j in range(0, T.n, 3):
        b = clean.copy()
        b[j] = special
        expected = b.copy()
        with np.errstate(all="ignore"):
            Serial(T).solve(expected)
        x, _ = solve(T, b, PANELS[j % 2], options={"races": False, "stale": False})
        np.testing.assert_allclose(x, expected, rtol=1e-13)


@pytest.mark.parametrize("rows", PANELS)
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_diagonals_near_the_ends_of_the_range_divide(dtype, rows):
    """Rows scaled so far that column / diagonal leaves the range, though no product with x does."""
    T = banded(140, 70, dtype=dtype)
    far = 1e-37 if dtype in "fF" else 1e-305
    b = values(T.n, dtype, np.random.default_rng(1))
    data, diag = T.data.copy(), T.diag.copy()
    for k, factor in ((3, far), (40, 1 / far), (100, far)):
        scaled, row = b.copy(), slice(T.indptr[k], T.indptr[k + 1])
        T.data[...], T.diag[...] = data, diag
        for part in (T.data[row], T.diag[k : k + 1], scaled[k : k + 1]):
            part *= T.dtype.type(factor)
        check(T, scaled, rows)


def test_entries_that_scaling_would_flush_keep_their_digits():
    T = banded(70, 1)
    T.data[...] = 1e-200
    T.diag[:64] = 1e150
    b = np.zeros(70)
    b[0] = 1e300  # x = 1e150, and then 1e-200 of it
    x, _ = solve(T, b)
    expected = b.copy()
    Serial(T).solve(expected)
    assert expected[1] != 0
    np.testing.assert_allclose(x, expected, rtol=1e-14)


def test_a_column_that_overflows_leaves_its_neighbours_their_bits():
    T = banded(200, 40)
    B = block_of(T, 6)
    B[:, 1] *= 10
    B[10, 1], B[100, 3], B[199, 4] = 1.7e308, np.nan, np.inf
    T.data[T.indptr[11] : T.indptr[12]] = 3.0  # row 11 overflows
    X, _ = solve(T, B, 4)
    assert list(np.isfinite(X).all(axis=0)) == [True, False, True, False, False, True]
    for k in range(6):
        alone, _ = solve(T, B[:, k].copy(), 4, seed=k, resident=3)
        np.testing.assert_array_equal(alone, X[:, k])


@pytest.mark.parametrize("rows", PANELS)
def test_columns_of_a_block_have_the_bits_of_columns_alone_under_every_schedule(rows):
    for T in (full(), triangle("random")):
        B = block_of(T, 5)
        X, _ = solve(T, B, rows)
        for k in range(5):
            alone, _ = solve(T, B[:, k].copy(), rows, seed=k, resident=3)
            assert np.array_equal(alone, X[:, k])


def test_two_solves_and_a_refresh_of_one_plan_are_right():
    T = banded()
    with Device(seed=5):
        plan = DenseBlock(T)
        for k in range(3):
            b = values(T.n, "d", np.random.default_rng(k))
            x, kept = np.full(T.n, np.nan), b.copy()
            plan.solve(x, b)
            assert np.array_equal(b, kept)
            assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
            T.data[...] *= values(len(T.data), "d", np.random.default_rng(k))
            T.diag[...] *= values(T.n, "d", np.random.default_rng(k))
            plan.refresh()


# ---- what goes wrong is found --------------------------------------------------------------------


def cyclic_plan(T):
    """A plan of panels of two in which the second panel waits for the third."""
    plan = DenseBlock(T)
    first = plan._tile_ptr[2]
    assert list(plan._tile_column[first : first + 3]) == [0, 1, 2]
    plan._tile_column[first] = 4
    return plan


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    T = banded()
    with Device(shared_bytes=room_for(2, "d")), pytest.raises(DeadlockError) as caught:
        cyclic_plan(T).solve(np.ones(T.n))
    assert "polls y at byte" in str(caught.value)


def test_an_abandoned_solve_drains_with_nan_and_the_next_one_is_right():
    T = banded()
    b = np.ones(T.n)
    options = {"spin_limit": 10**12}
    with Device(patience_ns=1000, options=options, shared_bytes=room_for(2, "d")):
        plan = cyclic_plan(T)
        x = b.copy()
        plan.solve(x)
        with pytest.raises(SolveStalledError):
            plan.check()
        expected = b.copy()
        Serial(T).solve(expected)
        np.testing.assert_allclose(x[:64], expected[:64], rtol=1e-13)
        assert np.isnan(x[64:]).any()
    check(T, b)


def faulty(right, wrong):
    """A device with one change in the kernel or its header."""
    texts = sources()
    (file,) = (name for name in ("dense_block.cu", "dense_tiles.cuh") if right in texts[name])
    assert texts[file].count(right) == 1
    texts[file] = texts[file].replace(right, wrong)
    kernels = ("solve_panels<double,double,2,1>", FILL)
    return {"units": {"dense_block": unit("dense_block", kernels, texts)}}


def solve_often(T, **device):
    for seed in range(12):
        solve(T, np.ones(T.n), seed=seed, **device)


def test_a_plain_read_of_what_others_publish_is_found():
    wrong = faulty(
        "if (c0 + c < nrhs) wanted |= 1u << c;\n    }\n    await(slot, wanted, value",
        "}\n    value[0] = *slot[0];\n    await(slot, wanted, value",
    )
    with pytest.raises(RaceError):
        solve_often(banded(), **wrong)


def test_a_missing_barrier_before_the_panels_warp_adds_up_is_found():
    wrong = faulty("__syncthreads(); // all parts are there", "")
    with pytest.raises((RaceError, AddressError)):  # too early: of a warp, or of all
        solve_often(banded(), **wrong)


def test_an_order_of_tickets_that_is_not_topological_is_found():
    wrong = faulty(
        "const int first_row = int(ticket) * R", "const int first_row = 8 - int(ticket) * R"
    )
    with pytest.raises(DeadlockError):
        solve(banded(), np.ones(330), blocks=1, **wrong)
