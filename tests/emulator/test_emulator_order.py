"""Rows and entries put into another order on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.backend import cuda
from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv import row

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)


def assert_same_levels(found, expected):
    for mine, theirs in zip(vars(found).values(), vars(expected).values(), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_level_sets_are_those_of_the_cpu(name, lower):
    for seed in range(3):
        T = triangle(name, lower, seed=seed)
        with Device(seed=seed, resident=3):
            assert_same_levels(dag._levels_cuda(T), dag.levels(T))
            assert_same_levels(dag._level_sets_cuda(dag.levels(T).level), dag.levels(T))


@pytest.mark.parametrize("n_levels", [1, 255, 256, 257, 300])
def test_levels_are_sorted_by_as_few_bits_as_hold_them(n_levels):
    level = np.random.default_rng(n_levels).permutation(np.arange(700) % n_levels).astype(np.int32)
    with Device():
        assert_same_levels(dag._level_sets_cuda(level), dag._level_sets_cpu(level))


def test_no_rows_have_no_levels():
    assert dag._level_sets_cuda(np.zeros(0, np.int32)).n_levels == 0


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_packed_in_level_order_with_columns_as_positions(name, lower):
    for seed in range(3):
        T = triangle(name, lower, seed=seed)
        with Device(seed=seed, resident=3):
            packed = row.Row(T)
        order = dag.levels(T).level_order
        position = np.argsort(order)
        kept = [slice(T.indptr[i], T.indptr[i + 1]) for i in order]
        if max(np.diff(T.indptr)) > 64:
            continue  # cut
        np.testing.assert_array_equal(packed._row, order)
        np.testing.assert_array_equal(np.diff(packed._indptr), np.diff(T.indptr)[order])
        entries = np.concatenate([np.arange(len(T.indices))[s] for s in kept])
        np.testing.assert_array_equal(packed._indices, position[T.indices[entries]])
        np.testing.assert_array_equal(packed._data, T.data[entries])


@pytest.mark.parametrize("rows", [1, 4, 32])
@pytest.mark.parametrize("name", NAMES)
def test_levels_are_cut_into_tasks_one_after_the_other(name, rows):
    T = triangle(name)
    found = dag.levels(T)
    with Device(seed=rows, resident=3):
        tasks = row._tasks(found, rows)
    begins, ends = tasks[:-1], tasks[1:]
    np.testing.assert_array_equal(ends - begins <= rows, True)
    assert tasks[0] == 0
    assert set(found.level_ptr) <= set(tasks)  # none goes beyond a level
    full = [range(a, b, rows) for a, b in zip(found.level_ptr, found.level_ptr[1:], strict=False)]
    expected = [begin for level in full for begin in level]
    np.testing.assert_array_equal(begins[ends > begins], expected)
    if rows == 1:
        assert len(begins) == T.n


def test_no_level_has_no_tasks():
    with Device():
        assert row._tasks(dag._level_sets_cuda(np.zeros(0, np.int32)), 4).tolist() == [0]


@pytest.mark.parametrize("dtype", "fdFD")
def test_entries_are_taken_with_minus_one_and_zero_for_those_without_a_place(dtype):
    data = np.arange(3, 40).astype(dtype)
    source = np.random.default_rng(1).integers(-2, len(data), 300).astype(np.int32)
    taken, kernel = np.empty(300, dtype), f"take_entries<{VALUE_TYPES[dtype]}>"
    with Device():
        cuda.for_each("order", kernel, 300, np.int64(300), source, data, taken)
    expected = np.where(source == -2, 0, np.where(source == -1, -1, data[source]))
    np.testing.assert_array_equal(taken, expected)


@pytest.mark.parametrize("dtype", "ifdFD")
def test_rows_are_taken_in_every_dtype(dtype):
    T = triangle("random")
    order = np.random.default_rng(2).permutation(T.n).astype(np.int32)
    source = np.arange(len(T.indices)).astype(dtype)
    ptr = np.concatenate(([0], np.cumsum(np.diff(T.indptr)[order]))).astype(np.int32)
    taken = np.empty_like(source)
    value = "int" if dtype == "i" else VALUE_TYPES[dtype]
    with Device(resident=3):
        row._take_rows(value, order, T.indptr, source, ptr, taken)
    expected = np.concatenate([source[T.indptr[i] : T.indptr[i + 1]] for i in order])
    np.testing.assert_array_equal(taken, expected)
