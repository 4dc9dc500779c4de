"""Strips, steps and entries made by kernels: the same as by array operations."""

from __future__ import annotations

from unittest import mock

import cases
import numpy as np
import pytest
from emulated import Device, needs_compiler

from gpuilu.dag import levels
from gpuilu.trsv import blocked, strips, strips_model, strips_pack
from gpuilu.trsv.long_rows import cut_long_rows

pytestmark = needs_compiler

NAMES = [name for name in cases.PATTERNS if 0 < cases.PATTERNS[name]().shape[0] <= 400]


def made(name, lower):
    return cases.as_triangle(cases.triangle(cases.PATTERNS[name](), lower=lower), lower)


def assert_same(found, expected):
    for name, theirs in vars(expected).items():
        mine = getattr(found, name)
        if isinstance(theirs, np.ndarray):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_ranges_steps_and_entries_are_those_of_the_cpu(name, lower):
    T = made(name, lower)
    found = levels(T)
    for seed, count in enumerate((1, 3, 70)):
        with Device(seed=seed, resident=3), mock.patch.object(strips_pack, "COUNTING", 100):
            cut = strips.ranges(T, count)
            assert_same(strips_pack._ranges_cuda(T, count), cut)
            steps = strips.in_steps(T, found, cut)
            assert_same(strips_pack._in_steps_cuda(T, found, cut), steps)
            for widths in ((2,), (4,), (2, 4, 8), (16,)):
                split = strips_pack._split_entries_cuda(T, found, steps, widths)
                assert_same(split, strips.split_entries(T, found, steps, widths))
                shared = strips_pack._with_shares_cuda(found, steps, split)
                assert_same(shared, strips.with_shares(found, steps, split))


@pytest.mark.parametrize("lower", [True, False])
def test_columns_of_a_grid_are_those_of_the_cpu(lower):
    T = cases.as_triangle(cases.triangle(cases.grid(9, 8, 12), lower=lower), lower)
    found, expected = levels(T), strips.columns(T, 16)
    assert len(expected) == 4
    with Device(resident=3):
        for mine, theirs in zip(strips_pack._columns_cuda(T, 16), expected, strict=True):
            assert_same(mine, theirs)
    for seed, cut in enumerate(expected):
        steps = strips.in_steps(T, found, cut)
        with Device(seed=seed, resident=3):
            assert_same(strips_pack._in_steps_cuda(T, found, cut), steps)
            split = strips_pack._split_entries_cuda(T, found, steps, (2, 4))
            assert_same(split, strips.split_entries(T, found, steps, (2, 4)))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_no_grids_have_no_columns_and_grids_have_some(name, lower):
    T = made(name, lower)
    with Device(seed=len(name), resident=3):
        found = strips_pack._columns_cuda(T, 8)
    for mine, theirs in zip(found, strips.columns(T, 8), strict=True):
        assert_same(mine, theirs)


def test_a_grid_with_one_entry_behind_has_no_columns():
    T = cases.as_triangle(cases.triangle(cases.grid(9, 8)))
    row = 5 * 8  # at the begin of a line, where nothing comes before it
    assert T.indptr[row + 1] == T.indptr[row] + 1
    T.indices[T.indptr[row]] = row - 1  # now the end of the line before
    with Device(resident=3):
        assert strips_pack._columns_cuda(T, 8) == strips.columns(T, 8) == []


def test_far_entries_of_levels_that_fall_along_a_row_are_sorted():
    P = np.tril(np.random.default_rng(5).random((90, 90)) < 0.2, -1)
    P[1:40, 0] = False
    T = cases.as_triangle(cases.triangle(P + np.eye(90)))
    found = levels(T)
    rows = np.repeat(np.arange(90), np.diff(T.indptr))
    level = found.level[T.indices]
    assert np.any((np.diff(level) < 0) & (np.diff(rows) == 0))
    steps = strips.in_steps(T, found, strips.ranges(T, 5))
    with Device(resident=3):
        split = strips_pack._split_entries_cuda(T, found, steps, (2,))
        assert_same(split, strips.split_entries(T, found, steps, (2,)))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_cpu(name, lower):
    T = made(name, lower)
    found = levels(T)
    numbers = 1, 2, 7, 64
    cuts = strips.columns(T, 16) or [strips.ranges(T, number) for number in (1, 3)]
    tried = [strips.ranges(T, number) for number in numbers] + cuts
    expected = [strips_model.counted(T, found, each) for each in tried]
    with Device(seed=len(name), resident=3), mock.patch.object(strips_pack, "COUNTING", 100):
        counts = strips_pack._counts_of_ranges_cuda(T, found, numbers)
        counts += strips_pack._counts_of_strips_cuda(T, found, cuts)
    assert counts == expected


def limited(runs):
    return mock.patch.multiple(strips_model, MOST_RUNS=runs, RUNS_A_ROW=0)


def test_nothing_is_counted_where_there_are_too_many_runs():
    T = cases.as_triangle(cases.triangle(cases.chain(100)))
    found = levels(T)
    with Device(), limited(350):
        counts = strips_pack._counts_of_ranges_cuda(T, found, (1, 3, 4))
    expected = [strips_model.counted(T, found, strips.ranges(T, number)) for number in (1, 3)]
    assert counts == [*expected, None]
    with Device(), limited(50):
        assert strips_pack._counts_of_ranges_cuda(T, found, (1, 3)) == [None, None]
    T = cases.as_triangle(cases.triangle(cases.grid(9, 8)))
    found, cuts = levels(T), strips.columns(T, 4)
    with Device(), limited(2 * found.n_levels):
        counts = strips_pack._counts_of_strips_cuda(T, found, cuts)
    assert counts == [strips_model.counted(T, found, cuts[0]), None]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", ["random 65", "grid 4x5x6", "arrow 65", "dense 65"])
def test_values_gathered_at_first_are_those_that_an_update_finds(name, lower):
    T = made(name, lower)
    with Device(resident=3):
        plan = blocked.Blocked(T)
        near, far = map(np.copy, plan._values)
        for values in plan._values:
            values[...] = np.nan
        plan.refresh()
    np.testing.assert_array_equal(plan._values[0], near)
    np.testing.assert_array_equal(plan._values[1], far)
    cut = cut_long_rows(T).pattern
    assert np.count_nonzero(near) + len(far) == len(cut.indices)
