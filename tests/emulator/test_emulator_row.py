"""The self-scheduled rows on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import reference
import scipy.sparse as sp
import solving
from emulated import Device, needs_compiler
from emulator_systems import dense_triangle, triangle, values
from instantiations import INSTANTIATIONS, LANES, PAIRS, SUMS

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.csr import canonical
from gpuilu.factor.given import GivenTriangle
from gpuilu.trsv import row

pytestmark = needs_compiler

NAMES = solving.NAMES


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], lower=seed % 16 < 8, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        with mock.patch.object(row, "_lanes", return_value=4):
            solving.check(row.Row, T, b, seed=seed, resident=1 + seed % 3)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = set()
    for k, lanes in enumerate(LANES):
        for polls, nrhs in ((2, None), (4, None), (4, 2), (4, 9), (4, 40)):
            for seed in range(3 if nrhs is None else 1):
                T = triangle(NAMES[(k + 3 * seed) % len(NAMES)], k % 3 > 0, unit, factors, seed)
                shape = (T.n,) if nrhs is None else (T.n, nrhs)
                b = values(np.prod(shape), vector, np.random.default_rng(k)).reshape(shape)
                with (
                    mock.patch.object(row, "_lanes", return_value=lanes),
                    mock.patch.object(row, "in_flight", return_value=polls),
                ):
                    launched.update(solving.check(row.Row, T, b, seed=seed))
    begin = f"<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    end = f",{str(unit).lower()}>"
    expected = {k for k in INSTANTIATIONS["row"] if begin in k and k.endswith(end)}
    assert {k for k in launched if k.startswith("row_")} == expected


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", "fD")
def test_each_column_of_a_block_has_the_bits_of_a_solve_alone(dtype, lanes):
    with mock.patch.object(row, "_lanes", return_value=lanes):
        for seed, name in enumerate(("random", "grid", "arrow")):
            T = triangle(name, dtype=dtype, seed=seed)
            for nrhs in (2, 5, 16, 33):
                b = values(T.n * nrhs, dtype, np.random.default_rng(seed)).reshape(T.n, nrhs)
                x, _ = solving.solve(row.Row, T, b, seed=seed)
                for k in range(0, nrhs, 1 + nrhs // 4):
                    alone, _ = solving.solve(row.Row, T, b[:, k].copy(), seed=seed)
                    np.testing.assert_array_equal(x[:, k], alone)


def test_there_are_no_more_tickets_than_can_be_counted():
    T = triangle("grid")
    b = values(T.n * 33, "d", np.random.default_rng(0)).reshape(T.n, 33)
    with (
        mock.patch.object(row, "_lanes", return_value=2),
        mock.patch.object(row, "MOST_TICKETS", 100),
        Device() as used,
    ):
        plan = row.Row(T)
        x = b.copy()
        plan.solve(x)
        assert len(plan._task_ptr) < 100
    assert used.launched
    assert reference.backward_error(dense_triangle(T), x, b) <= solving.BOUND


def test_a_warp_is_spread_over_columns_and_parts_of_rows():
    for lanes in LANES:
        for n_packs in range(1, 70):
            sums, packs, parts, cuts = row.spread_out(lanes, n_packs)
            assert sums * parts == lanes
            assert packs * parts <= 32
            assert packs * parts == lanes << cuts
            assert packs >= min(n_packs, 32 // parts)
            assert sums in SUMS


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    solving.check_odd_values(row.Row, name, factors, vector)


def test_every_solve_of_one_plan_is_right():
    solving.check_repeats(row.Row)


def test_a_solve_out_of_place_leaves_b_as_it_is():
    solving.check_out_of_place(row.Row)


def cyclic_plan(T):
    """A plan in which the tasks of the last two positions wait for each other."""
    plan = row.Row(T)
    last = len(plan._row) - 1
    plan._indices[plan._indptr[last - 1]] = last
    plan._indices[plan._indptr[last]] = last - 1
    return plan


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    solving.check_deadlock(cyclic_plan, "y at byte")


def test_an_abandoned_solve_drains_with_nan_and_the_next_one_is_right():
    solving.check_drained(cyclic_plan)
    T = triangle("chain")
    solving.check(row.Row, T, np.ones(T.n))


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
    assert reference.backward_error(A.astype(vector), x, b) <= solving.BOUND
