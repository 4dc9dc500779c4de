"""The self-scheduled rows on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from emulated import Device, needs_compiler
from emulator import DeadlockError
from emulator_systems import PATTERNS, dense_triangle, odd_values, triangle, values
from instantiations import INSTANTIATIONS, LANES, PAIRS, columns_at_once

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.csr import canonical
from gpuilu.errors import SolveStalledError
from gpuilu.factor.given import GivenTriangle
from gpuilu.trsv import row
from gpuilu.trsv.serial import Serial

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)
BOUND = 4


def solve(T, b, **device):
    with Device(**device) as used:
        plan = row.Row(T)
        x = b.copy()
        plan.solve(x)
        plan.check()
    return x, used.launched


def check(T, b, **device):
    x, launched = solve(T, b, **device)
    assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
    return launched


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], lower=seed % 16 < 8, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        with mock.patch.object(row, "_lanes", return_value=4):
            check(T, b, seed=seed, resident=1 + seed % 3)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = set()
    for k, lanes in enumerate(LANES):
        for polls, columns in ((2, 1), (4, 1), (2, columns_at_once(vector))):
            for seed in range(3):
                T = triangle(NAMES[(k + 3 * seed) % len(NAMES)], k % 3 > 0, unit, factors, seed)
                shape = (T.n,) if columns == 1 else (T.n, columns + 1)
                b = values(np.prod(shape), vector, np.random.default_rng(k)).reshape(shape)
                with (
                    mock.patch.object(row, "_lanes", return_value=lanes),
                    mock.patch.object(row, "in_flight", return_value=polls),
                ):
                    launched.update(check(T, b, seed=seed))
    begin = f"row_solve<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    end = f",{str(unit).lower()}>"
    expected = {k for k in INSTANTIATIONS["row"] if k.startswith(begin) and k.endswith(end)}
    assert {k for k in launched if k.startswith("row_solve")} == expected


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    T = triangle(name, dtype=factors)
    b = odd_values(T.n, vector)
    expected = b.copy()
    with np.errstate(all="ignore"):
        Serial(T.astype(b.dtype)).solve(expected)
    for seed in range(3):
        x, _ = solve(T, b, seed=seed)
        assert np.array_equal(np.isfinite(x), np.isfinite(expected))
        if np.dtype(vector).kind == "f":
            assert np.array_equal(np.isnan(x), np.isnan(expected))


def test_two_solves_of_one_plan_are_both_right():
    T = triangle("grid")
    b = values(2 * T.n, "d", np.random.default_rng(0)).reshape(2, T.n)
    with Device(seed=5):
        plan = row.Row(T)
        for right in b:
            x = right.copy()
            plan.solve(x)
            assert reference.backward_error(dense_triangle(T), x, right) <= BOUND


def test_a_solve_out_of_place_leaves_b_as_it_is():
    T = triangle("grid")
    b = values(T.n, "d", np.random.default_rng(0))
    for seed in range(3):
        x, kept = np.full(T.n, np.nan), b.copy()
        with Device(seed=seed):
            row.Row(T).solve(x, kept)
        assert np.array_equal(kept, b)
        assert reference.backward_error(dense_triangle(T), x, b) <= BOUND


def cyclic_plan(T):
    """A plan in which the tasks of the last two positions wait for each other."""
    plan = row.Row(T)
    last = len(plan._row) - 1
    plan._indices[plan._indptr[last - 1]] = last
    plan._indices[plan._indptr[last]] = last - 1
    return plan


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    T = triangle("chain")
    with Device(), pytest.raises(DeadlockError) as caught:
        cyclic_plan(T).solve(np.ones(T.n))
    assert "polls y at byte" in str(caught.value)


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
        assert np.isnan(x[-2:]).all()
        np.testing.assert_allclose(x[:-2], expected[:-2], rtol=1e-14)
    check(T, b)


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("lower", [True, False])
def test_rows_that_are_cut_are_solved_through_their_segments(lower, factors, vector):
    rng = np.random.default_rng(1)
    P = np.zeros((200, 200))
    P[[0, 100, 199]] = rng.random((3, 200)) / 200
    P += np.diag(np.full(200, 3.0)) + np.diag(np.full(199, 0.1), -1) + np.diag(np.full(199, 0.1), 1)
    A = sp.csr_array(np.tril(P) if lower else np.triu(P)).astype(factors)
    made = GivenTriangle(canonical(A), lower, unit_diagonal=False).factorize(A)
    b = values(200, vector, rng)
    with Device(seed=2) as used:
        plan = row.Row(made.triangles[0])
        x = b.copy()
        plan.solve(x)
        plan.check()
    assert used.launched
    assert len(plan._row) > 200
    assert reference.backward_error(A.astype(vector), x, b) <= BOUND
