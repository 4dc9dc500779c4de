"""A triangle kept as its strict part and its diagonal, and its transposed forms."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from gpuilu.backend import held_bytes, map_arrays
from gpuilu.triangle import Transposed, Triangle

DTYPES = ["f", "d", "F", "D"]


def triangle(dense, lower, unit_diagonal=False):
    """The Triangle of a dense triangular matrix; its zeros are not stored."""
    strict = sp.csr_array(np.tril(dense, -1) if lower else np.triu(dense, 1))
    diag = None if unit_diagonal else dense.diagonal().copy()
    return Triangle(lower, strict.indptr, strict.indices, strict.data, diag)


def random_triangles(dtype):
    """(triangle, dense) of many sizes, both sides, unit and stored diagonals."""
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 33):
        for lower in (True, False):
            A = reference.random_matrix(rng, n, dtype, density=0.3).toarray()
            T = np.tril(A) if lower else np.triu(A)
            yield triangle(T, lower), T
            np.fill_diagonal(T, 1)
            yield triangle(T, lower, unit_diagonal=True), T


LOWER = np.array([[2.0, 0, 0], [0, 3, 0], [5, 7, 4]])
UPPER = np.array([[2.0, 5, 7], [0, 3, 0], [0, 0, 4]])


def test_a_lower_triangle_has_its_diagonal_last_in_each_row():
    A = triangle(LOWER, lower=True).to_csr()
    assert A.indptr.tolist() == [0, 1, 2, 5]
    assert A.indices.tolist() == [0, 1, 0, 1, 2]
    assert A.data.tolist() == [2, 3, 5, 7, 4]


def test_an_upper_triangle_has_its_diagonal_first_in_each_row():
    A = triangle(UPPER, lower=False).to_csr()
    assert A.indptr.tolist() == [0, 3, 4, 5]
    assert A.indices.tolist() == [0, 1, 2, 1, 2]
    assert A.data.tolist() == [2, 5, 7, 3, 4]


@pytest.mark.parametrize("lower", [True, False])
def test_a_unit_diagonal_is_written_out_as_ones(lower):
    T = triangle(LOWER if lower else UPPER, lower, unit_diagonal=True)
    assert T.unit_diagonal
    assert T.to_csr().diagonal().tolist() == [1, 1, 1]
    assert T.to_csr().nnz == T.nnz == 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_matrix_of_a_triangle_is_canonical_and_equals_it(dtype):
    for T, dense in random_triangles(dtype):
        A = T.to_csr()
        assert isinstance(A, sp.csr_array)
        assert A.dtype == dtype
        assert A.indices.dtype == A.indptr.dtype == np.int32
        assert A.has_canonical_format
        assert_array_equal(A.toarray(), dense)
        assert A.nnz == T.nnz


def test_the_matrix_of_a_triangle_is_a_copy():
    T = triangle(LOWER, lower=True)
    T.to_csr().data[:] = 0
    assert_array_equal(T.to_csr().toarray(), LOWER)


@pytest.mark.parametrize("unit_diagonal", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_a_triangle_of_order_zero_is_legal(lower, unit_diagonal):
    T = triangle(np.zeros((0, 0)), lower, unit_diagonal)
    assert (T.n, T.nnz, T.to_csr().shape) == (0, 0, (0, 0))
    assert Transposed(T, conjugate=True).triangle.to_csr().shape == (0, 0)


def test_a_triangle_tells_its_bytes():
    T = triangle(LOWER, lower=True)
    assert held_bytes(T) == 4 * 4 + 2 * 4 + 2 * 8 + 3 * 8
    assert held_bytes(triangle(LOWER, lower=True, unit_diagonal=True)) == held_bytes(T) - 3 * 8
    assert held_bytes(T, (T, {"again": T})) == held_bytes(T)


def test_another_dtype_rounds_the_strict_part_and_the_diagonal():
    T = triangle(LOWER / 3, lower=True)
    narrow = T.astype(np.dtype("f"))
    assert narrow.dtype == narrow.diag.dtype == np.float32
    assert_array_equal(narrow.to_csr().toarray(), (LOWER / 3).astype("f"))
    assert T.astype(np.dtype("d")) is T
    assert T.dtype == np.float64


def test_assigning_copies_the_values_into_the_same_arrays():
    T, other = triangle(LOWER, lower=True), triangle(10 * LOWER, lower=True)
    data, diag = T.data, T.diag
    T.assign(other)
    assert T.data is data
    assert T.diag is diag
    assert_array_equal(T.to_csr().toarray(), 10 * LOWER)
    other.data[:] = other.diag[:] = 0
    assert_array_equal(T.to_csr().toarray(), 10 * LOWER)


def test_a_deep_copy_shares_nothing():
    for unit_diagonal in (True, False):
        T = triangle(LOWER, True, unit_diagonal)
        C = map_arrays(T, np.copy)
        assert_array_equal(C.to_csr().toarray(), T.to_csr().toarray())
        for mine, theirs in zip(vars(C).values(), vars(T).values(), strict=True):
            if isinstance(mine, np.ndarray):
                assert not np.shares_memory(mine, theirs)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_transposed_form_is_the_transpose_or_the_adjoint(dtype, conjugate):
    for T, dense in random_triangles(dtype):
        form = Transposed(T, conjugate).triangle
        assert form.lower is not T.lower
        assert form.unit_diagonal is T.unit_diagonal
        A = form.to_csr()
        assert A.has_canonical_format
        assert A.dtype == dtype
        assert_array_equal(A.toarray(), dense.conj().T if conjugate else dense.T)
        assert_array_equal(T.to_csr().toarray(), dense)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_refilling_takes_the_present_values_into_the_same_arrays(dtype, conjugate):
    for T, _ in random_triangles(dtype):
        form = Transposed(T, conjugate)
        data = form.triangle.data
        T.data[:] *= 3
        if T.diag is not None:
            T.diag[:] *= 5
        form.refill()
        form.refill()  # conjugates once, not twice
        assert form.triangle.data is data
        expected = reference.op(T.to_csr().toarray(), "H" if conjugate else "T")
        assert_array_equal(form.triangle.to_csr().toarray(), expected)


def test_a_transposed_form_keeps_its_values_until_it_is_refilled():
    T = triangle(LOWER, lower=True)
    form = Transposed(T, conjugate=False)
    T.data[:] = 0
    assert_array_equal(form.triangle.to_csr().toarray(), LOWER.T)


def test_explicit_zeros_stay_in_the_transposed_pattern():
    T = Triangle(True, *(np.array(a, "i") for a in ([0, 0, 1], [0])), np.zeros(1), np.ones(2))
    A = Transposed(T, conjugate=False).triangle.to_csr()
    assert A.indices.tolist() == [0, 1, 1]
    assert A.data.tolist() == [1, 0, 1]
