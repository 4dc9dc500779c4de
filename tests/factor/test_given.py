"""Factors from elsewhere: SciPy's SuperLU and pairs of triangles, with their permutations."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from numpy.testing import assert_allclose, assert_array_equal

import gpuilu
from gpuilu.csr import canonical
from gpuilu.errors import (
    InvalidMatrixError,
    MissingDiagonalError,
    NotTriangularError,
    PatternMismatchError,
    ShapeMismatchError,
    UnsupportedDtypeError,
    ZeroPivotError,
)
from gpuilu.factor.given import GivenTriangle

DTYPES = ["f", "d", "F", "D"]
L = sp.csr_array(np.array([[1.0, 0, 0], [2, 1, 0], [3, 4, 1]]))
U = sp.csr_array(np.array([[2.0, 1, 0], [0, 4, 1], [0, 0, 5]]))


def decomposed(factorize, dtype, n=60, seed=23):
    """(SuperLU, dense P_r^T L U P_c^T, right-hand sides)."""
    rng = np.random.default_rng(seed)
    A = reference.random_matrix(rng, n, dtype, 0.08, diagonal=3.0)
    lu = factorize(sp.csc_array(A[rng.permutation(n)]))
    rows, one = np.arange(n), np.ones(n)
    P_r = sp.csc_array((one, (lu.perm_r, rows))).toarray()
    P_c = sp.csc_array((one, (rows, lu.perm_c))).toarray()
    M = P_r.T @ (lu.L @ lu.U).toarray() @ P_c.T
    b = rng.standard_normal((n, 3))
    b = (b + 1j * rng.standard_normal((n, 3))).astype(dtype) if dtype in "FD" else b.astype(dtype)
    return lu, M, b


# ---- SuperLU ------------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", "NTH")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factorize", [spla.splu, spla.spilu])
def test_a_superlu_is_applied_as_it_would_apply_itself(factorize, dtype, trans):
    lu, M, b = decomposed(factorize, dtype)
    assert not np.array_equal(lu.perm_r, np.arange(60))
    assert not np.array_equal(lu.perm_c, np.arange(60))
    P = gpuilu.from_factors(lu)
    x = P.solve(b, trans)
    assert x.dtype == dtype
    eps, op = np.finfo(dtype).eps, reference.op(M, trans)
    residual = abs(op @ x - b).max() / (abs(op).sum(axis=1).max() * abs(x).max() + abs(b).max())
    assert residual <= 60 * eps
    assert_allclose(x, lu.solve(b, trans), rtol=0, atol=1000 * eps * abs(x).max())
    assert_array_equal(P.solve(b[:, 1], trans), x[:, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_factors_are_kept_as_given_without_the_permutations(dtype):
    lu, _, _ = decomposed(spla.splu, dtype)
    P = gpuilu.from_factors(lu)
    assert_array_equal(P.L.toarray(), lu.L.toarray())
    assert_array_equal(P.U.toarray(), lu.U.toarray())
    assert (P.kind, P.dtype, P.info.nnz) == ("from_factors", dtype, lu.L.nnz + lu.U.nnz)


def test_a_superlu_without_any_permutation_is_taken():
    lu = spla.splu(sp.csc_array(T := U.toarray() + 0.1), "NATURAL", diag_pivot_thresh=0.0)
    assert_array_equal(lu.perm_r, np.arange(3))
    assert_array_equal(lu.perm_c, np.arange(3))
    P = gpuilu.from_factors(lu)
    assert_allclose(P.matvec(T @ [1.0, 2, 3]), [1, 2, 3], rtol=1e-13)
    P.update(lu)
    assert_allclose(P.matvec(T @ [1.0, 2, 3]), [1, 2, 3], rtol=1e-13)


def test_an_update_takes_a_superlu_of_the_same_pattern_and_permutations():
    lu, M, b = decomposed(spla.splu, "d")
    P = gpuilu.from_factors(lu)
    P.solve(b, "T")
    P.update(SimpleNamespace(L=lu.L, U=2 * lu.U, perm_r=lu.perm_r, perm_c=lu.perm_c))
    for trans in "NTH":
        assert_allclose(reference.op(2 * M, trans) @ P.solve(b, trans), b, atol=1e-11)


@pytest.mark.parametrize("name", ["perm_r", "perm_c"])
def test_an_update_with_other_permutations_is_refused_and_changes_nothing(name):
    lu, _, b = decomposed(spla.splu, "d")
    P = gpuilu.from_factors(lu)
    before = P.solve(b)
    other = {"perm_r": lu.perm_r, "perm_c": lu.perm_c, name: np.roll(lu.perm_r, 1)}
    with pytest.raises(PatternMismatchError, match=f"{name} differs"):
        P.update(SimpleNamespace(L=lu.L, U=lu.U, **other))
    assert_array_equal(P.solve(b), before)


# ---- pairs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", "NTH")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", [True, False])
def test_a_pair_with_or_without_a_unit_diagonal_is_applied(unit, dtype, trans):
    rng = np.random.default_rng(24)
    n, eps = 30, np.finfo(dtype).eps
    A, B = (reference.random_matrix(rng, n, dtype, 0.1, 4.0).toarray() for _ in range(2))
    lower, upper = np.tril(A), np.triu(B)
    if unit:
        np.fill_diagonal(lower, 1)
    P = gpuilu.from_factors(sp.csc_array(lower), sp.coo_array(upper))
    b = rng.standard_normal(n).astype(dtype)
    expected = np.linalg.solve(reference.op(lower @ upper, trans).astype("D"), b)
    assert_allclose(P.solve(b, trans), expected, rtol=0, atol=1000 * eps * abs(expected).max())
    assert_array_equal(P.L.toarray(), lower)
    assert_array_equal(P.U.toarray(), upper)


@pytest.mark.parametrize("trans", "NTH")
@pytest.mark.parametrize("names", [("perm_r", "perm_c"), ("perm_r",), ("perm_c",)])
def test_permutations_given_beside_a_pair_have_the_meaning_of_superlu(names, trans):
    lu, _, b = decomposed(spla.splu, "D")
    perms = {name: getattr(lu, name) for name in names}
    P_r, P_c = (np.eye(60)[perms.get(name, np.arange(60))] for name in ("perm_r", "perm_c"))
    M = P_r @ (lu.L @ lu.U).toarray() @ P_c.T  # eye[perm_r] is the inverse of P_r
    x = gpuilu.from_factors(lu.L, lu.U, **perms).solve(b, trans)
    assert_allclose(reference.op(M, trans) @ x, b, atol=1e-11)
    if len(names) == 2:
        assert_array_equal(x, gpuilu.from_factors(lu).solve(b, trans))


@pytest.mark.parametrize("name", ["perm_r", "perm_c"])
def test_the_permutations_are_copied(name):
    perm = np.array([2, 0, 1], np.intp)
    P = gpuilu.from_factors(L, U, **{name: perm})
    before = [P.solve(np.arange(3.0), trans) for trans in "NTH"]
    perm[:] = [0, 1, 2]
    assert_array_equal([P.solve(np.arange(3.0), trans) for trans in "NTH"], before)


@pytest.mark.parametrize(
    "perm",
    [[0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1], [[0, 1, 2]], [0.5, 1.2, 2.9], 0],
    ids=["short", "repeated", "too large", "negative", "two-dimensional", "fractional", "scalar"],
)
@pytest.mark.parametrize("name", ["perm_r", "perm_c"])
def test_what_is_not_a_permutation_is_refused(name, perm):
    with pytest.raises(InvalidMatrixError, match=f"{name} must be a permutation of 0 to 2"):
        gpuilu.from_factors(L, U, **{name: perm})


def test_an_update_with_a_pair_of_matrices_or_of_arrays_refills_all_forms():
    P = gpuilu.from_factors(L, U)
    for trans in "NTH":
        P.solve(np.ones(3), trans)
    new_L, new_U = L.copy(), 3 * U
    new_L.data = np.array([1.0, 5, 1, 6, 7, 1])
    for new in ((new_L, new_U), (new_L.data, new_U.data), (new_L.tocsc(), new_U.data)):
        P.update((L, U))
        P.update(new)
        for trans in "NTH":
            expected = gpuilu.from_factors(new_L, new_U).solve(np.ones(3), trans)
            assert_array_equal(P.solve(np.ones(3), trans), expected)


MISSING = (MissingDiagonalError, PatternMismatchError)
MISFITS = {
    "fewer entries": (L, sp.csr_array(np.diag([1.0, 2, 3])), PatternMismatchError),
    "more entries": (L, sp.csr_array(np.triu(np.ones((3, 3)))), PatternMismatchError),
    "a short array": (L, U.data[:-1], ShapeMismatchError),
    "another order": (L, sp.eye_array(4, format="csr"), ShapeMismatchError),
    "complex values": (L.astype(complex), U, UnsupportedDtypeError),
    "a unit diagonal lost": (L * 2, U, PatternMismatchError),
    "a unit diagonal lost in an array": (L.data * 2, U.data, PatternMismatchError),
    "no diagonal": (sp.tril(L, -1), U, MISSING),
    "no diagonal, the last entry 1": (sp.tril(L, -1).minimum(1), U, MISSING),
    "no entries": (sp.csr_array((3, 3)), U, MISSING),
    "zeros": (L, U.data * 0, ZeroPivotError),
    "nan": (L, U.data * np.nan, ZeroPivotError),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_an_update_that_does_not_fit_is_refused_and_changes_nothing(kind):
    new_L, new_U, error = MISFITS[kind]
    P = gpuilu.from_factors(L, U)
    before = P.matvec(np.ones(3))
    with pytest.raises(error):
        P.update((new_L, new_U))
    assert_array_equal(P.matvec(np.ones(3)), before)


def test_an_update_with_one_matrix_is_refused():
    P = gpuilu.from_factors(L, U)
    with pytest.raises(InvalidMatrixError, match="pair"):
        P.update(U)


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [U, None, (L, U, U), "factors"])
def test_what_is_neither_a_pair_nor_has_l_and_u_is_refused(source):
    with pytest.raises(InvalidMatrixError, match=r"expected a pair \(L, U\)"):
        gpuilu.from_factors(source)


def test_factors_of_different_orders_are_refused():
    with pytest.raises(ShapeMismatchError, match="L is 3 x 3 but U is 2 x 2"):
        gpuilu.from_factors(L, sp.eye_array(2, format="csr"))


def test_an_entry_in_the_wrong_triangle_is_named():
    bad = np.array([[1.0, 0, 0], [2, 1, 9], [3, 4, 1]])
    with pytest.raises(NotTriangularError, match=r"lower triangular.*entry \(1, 2\).*tril"):
        gpuilu.from_factors(sp.csr_array(bad), U)
    with pytest.raises(NotTriangularError, match=r"upper triangular.*entry \(1, 0\).*triu"):
        gpuilu.from_factors(L, sp.csr_array(bad))
    with pytest.raises(NotTriangularError, match=r"entry \(0, 1\)"):
        GivenTriangle(canonical(sp.csr_array(np.ones((3, 3)))), lower=True, unit_diagonal=False)


def test_an_explicit_zero_in_the_wrong_triangle_is_an_entry_there():
    T = sp.csr_array((np.array([1.0, 0, 1]), [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(NotTriangularError):
        gpuilu.from_factors(T, sp.eye_array(2, format="csr"))


def test_a_diagonal_entry_that_is_not_stored_is_named():
    hole = sp.csr_array(np.array([[1.0, 0, 0], [2, 0, 0], [3, 4, 1]]))
    for pair in ((hole, U), (L, sp.csr_array(hole.T))):
        with pytest.raises(MissingDiagonalError) as caught:
            gpuilu.from_factors(*pair)
        assert caught.value.row == 1


@pytest.mark.parametrize(("in_L", "in_U"), [(None, 1), (2, None), (2, 1), (0, 2)])
def test_the_smallest_row_of_either_factor_with_a_zero_diagonal_is_named(in_L, in_U):
    row = min(i for i in (in_L, in_U) if i is not None)
    lower, upper = sp.csr_array(2 * L), U.copy()
    if in_L is not None:
        lower.data[lower.indptr[in_L + 1] - 1] = 0
    if in_U is not None:
        upper.data[upper.indptr[in_U]] = 0
    with pytest.raises(ZeroPivotError, match=f"row {row} ") as caught:
        gpuilu.from_factors(lower, upper)
    assert caught.value.row == row


def test_an_entry_that_is_not_finite_is_named():
    for bad in (np.nan, np.inf):
        upper = U.copy()
        upper.data[3] = bad
        with pytest.raises(ZeroPivotError) as caught:
            gpuilu.from_factors(L, upper)
        assert caught.value.row == 1


def test_a_real_factor_dtype_for_complex_factors_is_refused():
    with pytest.raises(UnsupportedDtypeError, match="imaginary"):
        gpuilu.from_factors(L, U * (1 + 1j), factor_dtype="d")


def test_factors_of_different_dtypes_meet_in_the_wider_one():
    P = gpuilu.from_factors(L.astype("f"), U.astype("D"))
    assert P.L.dtype == P.U.dtype == P.dtype == np.complex128
    P = gpuilu.from_factors(L, U, factor_dtype="f")
    assert P.L.dtype == P.U.dtype == np.float32
    assert P.dtype == np.float64
