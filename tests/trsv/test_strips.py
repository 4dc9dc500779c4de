"""Rows in strips and steps, worked by hand and against plain loops."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest
from cases import PATTERNS, as_triangle, grid, triangle

from gpuilu.dag import levels
from gpuilu.trsv import blocked
from gpuilu.trsv.strips import (
    LANES,
    WINDOW,
    columns,
    in_steps,
    ranges,
    split_entries,
)

NAMES = [name for name in PATTERNS if PATTERNS[name]().shape[0]]


def made(P, lower=True):
    return as_triangle(triangle(P, lower=lower), lower)


def test_a_grid_of_two_strips_is_solved_along_its_diagonals():
    T = made(grid(4, 3))  # row 3 i + j is at (i, j), its level i + j
    steps = in_steps(T, levels(T), ranges(T, 2))
    np.testing.assert_array_equal(steps.strip, np.repeat([0, 1], 6))
    np.testing.assert_array_equal(steps.step_ptr, [0, 4, 8])
    np.testing.assert_array_equal(steps.step_start, [0, 1, 3, 5, 6, 7, 9, 11, 12])
    np.testing.assert_array_equal(
        np.argsort(steps.position), [0, 1, 3, 2, 4, 5, 6, 7, 9, 8, 10, 11]
    )


def test_the_latest_dependencies_are_near_and_those_of_other_strips_far():
    T = made(grid(4, 3))
    found = levels(T)
    steps = in_steps(T, found, ranges(T, 2))
    split = split_entries(T, found, steps, (2,))
    row_4, row_7 = steps.position[4], steps.position[7]
    np.testing.assert_array_equal(split.near_slot[row_4], [steps.position[3], steps.position[1]])
    np.testing.assert_array_equal(split.near_slot[row_7], [steps.position[6], WINDOW])
    far = slice(split.far_ptr[row_7], split.far_ptr[row_7 + 1])
    np.testing.assert_array_equal(split.far_position[far], [steps.position[4]])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n_strips", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_steps_are_independent_rows_in_an_order_that_can_be_solved(name, n_strips, lower):
    T = made(PATTERNS[name](), lower)
    found = levels(T)
    steps = in_steps(T, found, ranges(T, n_strips))
    row = np.argsort(steps.position)
    assert steps.step_start[0] == 0
    assert steps.step_start[-1] == T.n
    step = np.repeat(np.arange(len(steps.step_start) - 1), np.diff(steps.step_start))
    assert np.bincount(step).max() <= LANES
    np.testing.assert_array_equal(steps.row, row)
    of = step[steps.position]
    rows = np.repeat(np.arange(T.n), np.diff(T.indptr))
    assert np.all(of[T.indices] < of[rows])
    for begin, end in pairwise(steps.step_ptr):
        inside = row[steps.step_start[begin] : steps.step_start[end]]
        assert len(set(steps.strip[inside])) <= 1


@pytest.mark.parametrize("widths", [(2,), (2, 4, 8)])
@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_near_or_far_once_and_found_where_it_says(name, widths):
    T = made(PATTERNS[name]())
    found = levels(T)
    steps = in_steps(T, found, ranges(T, 3))
    split = split_entries(T, found, steps, widths)
    rows = np.repeat(np.arange(T.n), np.diff(T.indptr))
    at, k = np.nonzero(split.near_source >= 0)
    near = split.near_source[at, k]
    np.testing.assert_array_equal(np.sort(np.r_[near, split.far_source]), np.arange(len(rows)))
    np.testing.assert_array_equal(at, steps.position[rows[near]])
    of = steps.position[T.indices[near]]
    np.testing.assert_array_equal(split.near_slot[at, k], of % WINDOW)
    assert np.all(at - of <= WINDOW - 2 * LANES)
    assert np.all(split.near_slot[split.near_source < 0] == WINDOW)
    far_at = np.repeat(np.arange(T.n), np.diff(split.far_ptr))
    np.testing.assert_array_equal(far_at, steps.position[rows[split.far_source]])
    np.testing.assert_array_equal(split.far_position, steps.position[T.indices[split.far_source]])
    need = np.lexsort((split.far_source, found.level[T.indices[split.far_source]], far_at))
    np.testing.assert_array_equal(need, np.arange(len(need)))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("dims", "tried"), [((30, 16), 3), ((9, 8, 12), 4), ((5, 4, 4, 6), 3), ((40, 2), 0)]
)
def test_columns_of_a_grid_depend_on_earlier_ones_only(dims, tried, lower):
    T = made(grid(*dims), lower)
    row = np.repeat(np.arange(T.n), np.diff(T.indptr))
    found = columns(T, 16)
    assert [strips.count for strips in found] == [2**k for k in range(1, tried + 1)]
    for strips in found:
        assert strips.of_row.dtype == np.int32
        assert np.all(strips.of_row[T.indices] <= strips.of_row[row])
        size = np.bincount(strips.of_row, minlength=strips.count)
        assert size.min() > 0
        assert size.max() <= 2 * T.n / strips.count
        position = np.argsort(in_steps(T, levels(T), strips).position)
        assert np.all(np.diff(strips.of_row[position]) >= 0)


def test_a_column_is_as_many_hops_from_the_first_as_it_has_columns_on_its_way():
    T = made(grid(9, 8, 12))
    np.testing.assert_array_equal([strips.hops for strips in columns(T, 16)], [1, 2, 4, 6])


@pytest.mark.parametrize("name", [name for name in NAMES if "9-point" in name or "random" in name])
def test_other_matrices_have_no_columns(name):
    assert columns(made(PATTERNS[name]()), 16) == []


@pytest.mark.parametrize(("crowded", "way"), [(0, 1), (63, 1), (64, 5)])
def test_far_entries_are_shared_out_where_few_steps_have_many(crowded, way):
    info = np.zeros((1024, 4), np.int32)
    info[:, 3] = blocked.MOST_LISTED
    info[:crowded, 3] += 1
    assert blocked._far_at_once(info) == way


@pytest.mark.parametrize("room", [64 << 10, 99 << 10, 163 << 10, 227 << 10])
def test_the_ring_is_long_enough_for_what_is_under_way(monkeypatch, room):
    monkeypatch.setattr(blocked.cuda, "shared_memory", lambda: room)
    for char, K in itertools.product("fdF", (2, 4, 8)):
        ring, threads, shared = blocked._copied_ring(np.dtype(char), K, blocked.MANY_THREADS)
        assert ring >= 2 * blocked._gatherers(threads) + 5
        assert shared <= room
