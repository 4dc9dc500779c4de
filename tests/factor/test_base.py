"""New values on a kept pattern, symmetry of a matrix, and factors as values."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from gpuilu.backend import held_bytes
from gpuilu.csr import canonical
from gpuilu.errors import (
    InvalidMatrixError,
    MissingDiagonalError,
    OptionError,
    PatternMismatchError,
    ShapeMismatchError,
    UnsupportedDtypeError,
    ZeroPivotError,
)
from gpuilu.factor.base import Factors, is_hermitian
from gpuilu.factor.ilu0 import ILU0
from gpuilu.factor.splitting import Splitting
from gpuilu.triangle import Triangle

T3 = sp.csr_array(np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]]))
HOLE = sp.csr_array(np.array([[2.0, 1, 0], [1, 0, 1], [0, 1, 2]]))  # (1, 1) is not stored


def recipe(A, **options):
    return ILU0(canonical(A), **options)


# ---- values on the kept pattern -----------------------------------------------------------------


def test_a_matrix_of_any_format_gives_its_values_in_canonical_order():
    R = recipe(T3)
    new = sp.csr_array((10 * np.arange(1.0, 8), T3.indices, T3.indptr), shape=(3, 3))
    for fmt in ("csr", "csc", "coo", "lil", "dok"):
        assert R.values(new.asformat(fmt)).tolist() == [10, 20, 30, 40, 50, 60, 70]


def test_a_bare_array_is_taken_in_canonical_order():
    R = recipe(T3)
    values = np.arange(1.0, 8)
    assert_array_equal(R.values(values), values)
    F, G = R.factorize(values), R.factorize(sp.csr_array((values, T3.indices, T3.indptr)))
    assert_array_equal(F.U.diag, G.U.diag)
    assert_array_equal(F.L.data, G.L.data)


def test_a_bare_array_leaves_out_the_diagonal_entries_that_were_inserted():
    R = recipe(HOLE, missing_diagonal="insert")
    assert R.nnz == 6
    assert R.values(np.arange(1.0, 7)).tolist() == [1, 2, 3, 0, 4, 5, 6]
    assert_array_equal(R.values(HOLE), R.values(HOLE.data))
    with pytest.raises(ShapeMismatchError, match="expected 6 values in canonical CSR order"):
        R.values(np.ones(7))


def test_a_missing_diagonal_entry_of_the_new_matrix_is_treated_as_at_first():
    full = HOLE + sp.csr_array(([9.0], ([1], [1])), shape=(3, 3))
    assert recipe(full, missing_diagonal="insert").values(HOLE).tolist() == [2, 1, 1, 0, 1, 1, 2]
    assert recipe(HOLE, missing_diagonal="insert").values(full).tolist() == [2, 1, 1, 9, 1, 1, 2]
    with pytest.raises(MissingDiagonalError) as caught:
        recipe(full).values(HOLE)
    assert caught.value.row == 1


@pytest.mark.parametrize("shape", [(6,), (8,), (7, 1), (1, 7), (3, 3), ()])
def test_a_bare_array_of_another_shape_is_refused(shape):
    with pytest.raises(ShapeMismatchError, match="expected 7 values"):
        recipe(T3).values(np.ones(shape))


@pytest.mark.parametrize("n", [0, 2, 4])
def test_a_matrix_of_another_order_is_refused(n):
    with pytest.raises(ShapeMismatchError, match=rf"\(3, 3\), found \({n}, {n}\)"):
        recipe(T3).values(sp.eye_array(n, format="csr"))


@pytest.mark.parametrize("source", [None, [1.0] * 7, "values", 3.0])
def test_what_is_neither_a_matrix_nor_an_array_is_refused(source):
    with pytest.raises(InvalidMatrixError):
        recipe(T3).values(source)


@pytest.mark.parametrize("toggled", [(0, 2), (1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("check", [True, False])
def test_one_entry_more_or_less_is_a_mismatch_in_its_row_even_unchecked(toggled, check):
    A = T3.toarray()
    A[toggled] = 0 if A[toggled] else 5
    with pytest.raises(PatternMismatchError, match=rf"row {toggled[0]}: columns \[.* instead of"):
        recipe(T3).values(sp.csr_array(A), check=check)


def test_entries_in_other_columns_are_a_mismatch_in_the_first_such_row():
    A = T3.toarray()
    A[1], A[2] = [7, 8, 0], [9, 0, 3]
    B = T3.toarray()
    B[0], B[1] = [4, 0, -1], [-1, 4, -1]
    with pytest.raises(PatternMismatchError, match=r"row 1: columns \[0, 1\]"):
        recipe(T3).values(sp.csr_array(A))
    with pytest.raises(PatternMismatchError, match=r"row 0: columns \[0, 2\] instead of \[0, 1\]"):
        recipe(T3).values(sp.csr_array(B))


def test_without_the_check_a_pattern_of_the_same_size_is_trusted():
    B = sp.csr_array(np.array([[4.0, 0, 1], [2, 5, 3], [0, 7, 6]]))
    assert recipe(T3).values(B, check=False).tolist() == [4, 1, 2, 5, 3, 7, 6]


def test_an_explicit_zero_keeps_its_place_and_a_dropped_one_is_a_mismatch():
    zeroed = T3.copy()
    zeroed.data[1] = 0
    assert recipe(T3).values(zeroed).tolist() == [4, 0, -1, 4, -1, -1, 4]
    zeroed.eliminate_zeros()
    with pytest.raises(PatternMismatchError, match="explicit zeros"):
        recipe(T3).values(zeroed)


@pytest.mark.parametrize(
    ("kept", "new"),
    [
        ("f", "d"),
        ("f", "F"),
        ("d", "F"),
        ("d", "D"),
        ("F", "D"),
        ("f", "l"),
        ("F", "d"),
        ("d", "O"),
    ],
)
def test_values_that_would_lose_digits_or_an_imaginary_part_are_refused(kept, new):
    R = recipe(T3.astype(kept))
    with pytest.raises(UnsupportedDtypeError, match=r"convert .*\.astype"):
        R.values(T3.data.astype(new))
    if new != "O":
        with pytest.raises(UnsupportedDtypeError):
            R.values(T3.astype(new))


@pytest.mark.parametrize(
    ("kept", "new"),
    [
        ("d", "f"),
        ("d", "l"),
        ("d", "b"),
        ("D", "d"),
        ("D", "F"),
        ("F", "f"),
        ("f", "f"),
        ("d", ">f8"),
    ],
)
def test_values_that_fit_are_widened(kept, new):
    values = recipe(T3.astype(kept)).values(T3.data.astype(new))
    assert_array_equal(values, T3.data.astype(kept), strict=True)


def test_the_recipe_keeps_a_pattern_of_its_own():
    A = T3.copy()
    R = recipe(A)
    before = R.factorize(T3).U.diag
    A.indices[:], A.indptr[:] = 0, 0
    assert_array_equal(R.factorize(T3).U.diag, before)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_every_numeric_phase_checks_its_pivots(bad):
    R, values = recipe(T3), T3.data.copy()
    values[0] = bad
    with pytest.raises(ZeroPivotError) as caught:
        R.factorize(values)
    assert caught.value.row == 0
    assert R.factorize(T3).U.diag[0] == 4


def test_the_bytes_of_the_recipe_are_those_of_its_arrays():
    triangles = 4 * 2 * (4 + 2)  # patterns, which the factors share
    assert held_bytes(recipe(T3)) == 4 * (4 + 7) + triangles
    assert held_bytes(recipe(HOLE, missing_diagonal="insert")) == 4 * (4 + 7 + 6) + triangles


def test_what_to_do_with_a_missing_diagonal_has_two_choices():
    with pytest.raises(OptionError, match="missing_diagonal must be one of"):
        recipe(T3, missing_diagonal="ignore")


# ---- symmetry -----------------------------------------------------------------------------------


def hermitian(A):
    A = sp.csr_array(A)
    return is_hermitian(A.indptr, A.indices, A.data)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 40])
def test_symmetric_and_hermitian_matrices_are_found_so(n):
    rng = np.random.default_rng(16)
    for dtype in "fdFD":
        A = reference.random_matrix(rng, n, dtype, 0.3)
        assert hermitian((A + A.conj().T).astype(dtype))
        if n > 1 and dtype in "FD":
            assert not hermitian((A + A.T).astype(dtype)), "symmetric is not Hermitian"


def test_one_entry_more_less_or_different_is_not_hermitian():
    A = np.array([[2.0, 1, 0], [1, 2, 3], [0, 3, 2]])
    assert hermitian(A)
    for i, j, value in [(0, 2, 1), (2, 0, 1), (0, 1, 0), (1, 0, 0), (2, 1, 0), (1, 2, -3)]:
        B = A.copy()
        B[i, j] = value
        assert not hermitian(B)
    assert not hermitian(np.array([[2 + 1j, 0], [0, 2]]))


def test_differences_of_rounding_size_do_not_count_and_larger_ones_do():
    for dtype in "fd":
        eps = np.finfo(dtype).eps
        A = np.array([[1, 3 * (1 + 8 * eps)], [3, 1]], dtype)
        assert hermitian(A)
        A[0, 1] = 3 * (1 + 100 * eps)
        assert not hermitian(A)


def test_huge_entries_of_opposite_sign_are_not_hermitian():
    assert not hermitian(np.array([[1e308, 1.7e308], [-1.7e308, 1e308]]))


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.data())
def test_hermitian_is_what_the_dense_matrix_and_its_pattern_say(data):
    n = data.draw(st.integers(1, 5))
    index, value = st.integers(0, n - 1), st.integers(-1, 1)
    entries = data.draw(st.dictionaries(st.tuples(index, index), st.tuples(value, value)))
    if data.draw(st.booleans()):
        entries |= {(j, i): (re, -im if i != j else 0) for (i, j), (re, im) in entries.items()}
    positions = np.array(sorted(entries), int).reshape(-1, 2).T
    values = np.array([complex(*entries[i, j]) for i, j in positions.T])
    A = sp.csr_array(sp.coo_array((values, positions), shape=(n, n)))
    P, dense = reference.pattern(A), A.toarray()
    expected = np.array_equal(P, P.T) and np.array_equal(dense, dense.conj().T)
    assert hermitian(A) is expected


# ---- factors as values --------------------------------------------------------------------------


def bidiagonal(value, lower=True, diag=2.0):
    """4 x 4, the off-diagonal entry `value` beside row 2."""
    n, i = 4, 2
    indptr = np.array([0, 0, 0, 1, 1], "i")
    indices = np.array([1 if lower else 3], "i")
    T = Triangle(lower, indptr, indices, np.array([value]), np.full(n, 2.0))
    T.diag[i] = diag
    return T


def test_the_smallest_row_that_is_not_finite_is_found_in_both_triangles_and_diagonals():
    assert Factors(bidiagonal(1.0), bidiagonal(1.0, lower=False)).require_finite()
    for L, U in [
        (bidiagonal(np.nan), None),
        (bidiagonal(1.0), bidiagonal(np.inf, lower=False)),
        (bidiagonal(1.0, diag=-np.inf), bidiagonal(1.0, lower=False)),
        (None, bidiagonal(1.0, lower=False, diag=np.nan)),
    ]:
        with pytest.raises(ZeroPivotError) as caught:
            Factors(L, U).require_finite()
        assert caught.value.row == 2
        assert not np.isfinite(caught.value.value)
    U = bidiagonal(np.nan, lower=False)
    U.diag[0] = np.inf
    with pytest.raises(ZeroPivotError) as caught:
        Factors(bidiagonal(np.nan), U).require_finite()
    assert caught.value.row == 0


@pytest.mark.parametrize("sweep", ["forward", "backward", "symmetric"])
def test_factors_in_another_dtype_and_copies_keep_the_report(sweep):
    F = Splitting(canonical(T3), "gauss_seidel", sweep).factorize(T3)
    for other in (F.astype(np.dtype("f")), F.copy()):
        assert other.is_symmetric is F.is_symmetric is (sweep == "symmetric")
        assert [T is None for T in (other.L, other.U)] == [T is None for T in (F.L, F.U)]
        for T, S in zip(other.triangles, F.triangles, strict=True):
            assert not np.shares_memory(T.data, S.data)
            assert_array_equal(T.to_csr().toarray(), S.to_csr().toarray().astype(T.dtype))
