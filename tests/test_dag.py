"""Levels of a triangle: against plain loops, by formula, and as properties."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from gpuilu.backend import held_bytes
from gpuilu.dag import RowShapes, count_levels, levels, row_shapes
from gpuilu.triangle import Triangle


def triangle(A, lower):
    """The triangle of A with a unit diagonal."""
    strict = sp.csr_array(sp.tril(A, -1) if lower else sp.triu(A, 1))
    return Triangle(lower, strict.indptr, strict.indices, strict.data, None)


def assert_levels(A, lower, n_levels=None):
    """The levels of A equal the reference, and the order lists every row once, level by level."""
    found = levels(triangle(A, lower))
    level = reference.levels(A, lower)
    assert_array_equal(found.level, level)
    assert found.level.dtype == found.level_ptr.dtype == found.level_order.dtype == np.int32
    assert found.n_levels == count_levels(triangle(A, lower)) == max(level, default=-1) + 1
    assert_array_equal(found.level_order, np.argsort(level, kind="stable"))
    counts = np.bincount(level, minlength=found.n_levels)
    assert_array_equal(found.level_ptr, np.concatenate([[0], np.cumsum(counts)]))
    if n_levels is not None:
        assert found.n_levels == n_levels


def arrow(n, first):
    """A full first (or last) row and column and a diagonal."""
    A = np.eye(n)
    k = 0 if first else n - 1
    A[k] = A[:, k] = 1
    return sp.csr_array(A)


def test_levels_of_a_small_triangle_are_those_found_by_hand():
    L = np.eye(5)
    for i, j in [(2, 0), (3, 1), (3, 2), (4, 1)]:
        L[i, j] = 1
    found = levels(triangle(sp.csr_array(L), lower=True))
    assert found.level.tolist() == [0, 0, 1, 2, 1]
    assert found.level_ptr.tolist() == [0, 2, 4, 5]
    assert found.level_order.tolist() == [0, 1, 2, 4, 3]
    found = levels(triangle(sp.csr_array(L.T), lower=False))
    assert found.level.tolist() == [2, 1, 1, 0, 0]
    assert found.level_order.tolist() == [3, 4, 1, 2, 0]


def test_shapes_of_rows_are_those_counted_by_hand():
    A = np.eye(40)
    for i, j in [(2, 1), (3, 2), (4, 2), (4, 3), (39, 0), (39, 31), (39, 32)]:
        A[i, j] = 1
    # Row 1 has none as row 0; rows 3 and 4 have the entry before them; rows 6 to 38 have none.
    assert row_shapes(triangle(sp.csr_array(A), lower=True)) == RowShapes(3, 1 + 2 + 33, 5)
    # Groups are counted from the last column: 39 to 8 are one.
    rows = [(0, 39), (1, 2), (1, 39), (2, 3), (2, 4), (3, 4), (31, 39), (32, 39)]
    A = sp.csr_array(([1.0] * 8, tuple(zip(*rows, strict=True))), shape=(40, 40))
    assert row_shapes(triangle(A, lower=False)) == RowShapes(2, 2 + 26 + 6, 7)


@pytest.mark.parametrize("lower", [True, False])
def test_an_empty_triangle_has_no_levels_and_a_single_row_has_one(lower):
    assert_levels(sp.csr_array((0, 0)), lower, 0)
    assert_levels(sp.csr_array((1, 1)), lower, 1)
    assert_levels(sp.eye_array(1), lower, 1)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 65])
def test_level_counts_follow_their_formulas(n, lower):
    assert_levels(sp.eye_array(n), lower, 1)
    chain = sp.diags_array([1.0, 1, 1], offsets=[-1, 0, 1], shape=(n, n))
    assert_levels(chain, lower, n)
    assert_levels(sp.csr_array(np.ones((n, n))), lower, n)
    assert_levels(arrow(n, first=True), lower, min(n, 2))
    assert_levels(arrow(n, first=False), lower, min(n, 2))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("nx", "ny"), [(1, 1), (1, 9), (9, 1), (3, 3), (5, 8), (12, 4)])
def test_a_five_point_grid_has_nx_plus_ny_minus_one_levels(nx, ny, lower):
    A = reference.grid(nx, ny)
    assert_levels(A, lower, nx + ny - 1)
    x, y = np.tile(np.arange(nx), ny), np.repeat(np.arange(ny), nx)
    from_corner = x + y if lower else nx + ny - 2 - x - y
    assert_array_equal(levels(triangle(A, lower)).level, from_corner)


@pytest.mark.parametrize("lower", [True, False])
def test_random_and_permuted_patterns_have_the_levels_of_the_plain_loops(lower):
    rng = np.random.default_rng(3)
    for n in (2, 10, 33, 80):
        for density in (0.02, 0.1, 0.5):
            assert_levels(reference.random_matrix(rng, n, density=density), lower)
    A = reference.grid(7, 6)
    for _ in range(5):
        order = rng.permutation(42)
        assert_levels(A[order][:, order], lower)


@pytest.mark.parametrize("n", [1000, 100_000])
def test_a_long_chain_has_as_many_levels_as_rows(n):
    chain = sp.diags_array([1.0, 1], offsets=[-1, 0], shape=(n, n))
    assert_array_equal(levels(triangle(chain, lower=True)).level, np.arange(n))
    assert count_levels(triangle(sp.csr_array(chain.T), lower=False)) == n


def test_explicit_zeros_are_dependencies():
    T = Triangle(True, *(np.array(a, "i") for a in ([0, 0, 1], [0])), np.zeros(1), None)
    assert levels(T).level.tolist() == [0, 1]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.integers(1, 12), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))), st.booleans()
)
def test_each_row_is_one_level_above_the_highest_row_it_depends_on(n, entries, lower):
    A = np.zeros((n, n))
    for i, j in entries:
        A[i % n, j % n] = 1
    T = triangle(sp.csr_array(A), lower)
    level = levels(T).level
    for i in range(n):
        depends = level[T.indices[T.indptr[i] : T.indptr[i + 1]]]
        assert level[i] == (depends.max() + 1 if len(depends) else 0)


def test_levels_tell_their_bytes():
    found = levels(triangle(reference.grid(3, 3), lower=True))
    assert held_bytes(found) == 4 * (9 + 6 + 9)
