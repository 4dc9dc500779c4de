"""New values on the same pattern: every form follows; a failure leaves the old factors in use."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import DTYPES, poisson, random_values, tridiagonal, unsymmetric

import gpuilu

B3 = [1.0, 2.0, 3.0]
X3 = [0.4642857142857143, 0.8571428571428571, 0.9642857142857143]
X3_CHANGED = [0.3661971830986, 0.8309859154930, 0.9577464788732]  # with 5 instead of 4 at (0, 0)

FACTORIES = {
    "ilu0": gpuilu.ilu0,
    "gauss_seidel": gpuilu.gauss_seidel,
    "forward": lambda A, **k: gpuilu.gauss_seidel(A, sweep="forward", **k),
    "sor": lambda A, **k: gpuilu.sor(A, omega=1.3, sweep="backward", **k),
    "ssor": lambda A, **k: gpuilu.ssor(A, omega=1.3, **k),
    "three sweeps": lambda A, **k: gpuilu.gauss_seidel(A, iterations=3, **k),
    "lower triangle": lambda A, **k: gpuilu.TriangularSolver(sp.tril(A), **k),
    "unit upper triangle": lambda A, **k: gpuilu.TriangularSolver(
        sp.triu(A), lower=False, unit_diagonal=True, **k
    ),
}


def source(name, A):
    """What `update` takes for the matrix A."""
    if "triangle" not in name:
        return A
    return sp.tril(A) if "lower" in name else sp.triu(A)


def other_values(A, seed=7):
    """Another diagonally dominant matrix on the pattern of A."""
    new = A.copy()
    new.data = random_values(np.random.default_rng(seed), A.nnz, A.dtype)
    new.setdiag(9)
    return new


def answers(M):
    """Results of every form and view, to a vector and a block."""
    B = random_values(np.random.default_rng(1), (M.shape[0], 3), M.dtype)
    forms = [M.solve(b, trans) for b in (B, B[:, 0]) for trans in "NTH"]
    return [*forms, M.T @ B, M.H @ B, M.H.T @ B]


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_one_changed_entry_by_hand():
    A = tridiagonal()
    M = gpuilu.ilu0(A)
    view = M.T
    np.testing.assert_allclose(M @ B3, X3, rtol=1e-14)
    A[0, 0] = 5
    assert M.update(A) is None
    for x in (M @ B3, M.solve(B3, "T"), M.solve(B3, "H"), view @ B3, M.H @ B3):
        np.testing.assert_allclose(x, X3_CHANGED, rtol=1e-12)


@pytest.mark.parametrize("warm", [False, True], ids=["forms not built", "forms built"])
@pytest.mark.parametrize("algorithm", ["serial", "level"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FACTORIES)
def test_every_form_follows_as_if_made_anew(name, dtype, algorithm, warm):
    A = unsymmetric(30, dtype)
    M = FACTORIES[name](A, algorithm=algorithm)
    views = (M.T, M.H)
    if warm:
        answers(M)
    new = other_values(A)
    fresh = FACTORIES[name](new, algorithm=algorithm)
    M.update(source(name, new))
    assert_same(answers(M), answers(fresh))
    assert_same(answers(views[0]), answers(fresh.T))
    assert_same(answers(views[1]), answers(fresh.H))
    for mine, theirs in ((M.L, fresh.L), (M.U, fresh.U)):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(mine.toarray(), theirs.toarray())


def test_an_update_through_a_view_takes_the_matrix_itself():
    A = unsymmetric(30)
    M, new = gpuilu.ilu0(A), other_values(A)
    M.T.update(new)
    assert_same(answers(M), answers(gpuilu.ilu0(new)))


def test_the_same_values_again_give_the_same_bits_and_leave_the_matrix_alone():
    A = unsymmetric(30)
    kept = A.copy()
    M = gpuilu.ilu0(A)
    first = answers(M)
    for _ in range(3):
        M.update(A)
        assert_same(answers(M), first)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(A, name), getattr(kept, name))


@pytest.mark.parametrize("name", FACTORIES)
def test_the_object_keeps_no_reference_to_the_matrix(name):
    A = unsymmetric(30)
    given, new = sp.csr_array(source(name, A)), sp.csr_array(source(name, other_values(A)))
    if "triangle" in name:
        keywords = {"lower": "lower" in name, "unit_diagonal": "unit" in name}
        M = gpuilu.TriangularSolver(given, **keywords)
    else:
        M = FACTORIES[name](given)
    before = answers(M)
    for array in (given.data, given.indices, given.indptr):
        array *= 2
    assert_same(answers(M), before)
    M.update(new)
    after = answers(M)
    for array in (new.data, new.indices, new.indptr):
        array *= 2
    assert_same(answers(M), after)
    assert not np.array_equal(after[0], before[0])


# ---- bare values ---------------------------------------------------------------------------------


def test_bare_values_in_canonical_order_do_what_the_matrix_does():
    A = unsymmetric(30)
    new = other_values(A)
    M = gpuilu.ilu0(A)
    M.update(new.data)
    assert_same(answers(M), answers(gpuilu.ilu0(new)))
    M.update(A.data.astype(np.float32))  # fits: taken as float64
    assert_same(answers(M), answers(gpuilu.ilu0(A.astype(np.float32).astype(float))))
    M.update(np.full(A.nnz, 3) * (A.indices == np.repeat(np.arange(30), np.diff(A.indptr))))
    np.testing.assert_array_equal(M @ np.ones(30), np.full(30, 1 / 3))


def test_bare_values_of_a_matrix_with_unsorted_duplicates_are_in_summed_order():
    i, j = [0, 0, 0, 1, 1, 1, 1, 2, 2], [1, 0, 0, 2, 1, 0, 1, 2, 1]
    A = sp.coo_array(([-1.0, 3, 1, -1, 1, -1, 3, 4, -1], (i, j)), shape=(3, 3))
    M = gpuilu.ilu0(A)
    np.testing.assert_allclose(M @ B3, X3, rtol=1e-14)
    M.update(np.array([5.0, -1, -1, 4, -1, -1, 4]))
    np.testing.assert_allclose(M @ B3, X3_CHANGED, rtol=1e-12)


def test_bare_values_skip_the_diagonal_entries_that_were_inserted():
    B = sp.csr_array(([2.0, 1, 1, 1, 1, 2], [0, 1, 0, 2, 1, 2], [0, 2, 4, 6]), shape=(3, 3))
    M = gpuilu.ilu0(B, missing_diagonal="insert")
    np.testing.assert_allclose((M.L @ M.U).toarray(), [[2, 1, 0], [1, 0, 1], [0, 1, 2]], atol=1e-15)
    M.update(np.array([4.0, 1, 1, 1, 1, 2]))
    np.testing.assert_allclose((M.L @ M.U).toarray(), [[4, 1, 0], [1, 0, 1], [0, 1, 2]], atol=1e-15)
    B.data[0] = 8
    M.update(B)
    np.testing.assert_allclose((M.L @ M.U).toarray(), [[8, 1, 0], [1, 0, 1], [0, 1, 2]], atol=1e-15)


@pytest.mark.parametrize("shape", [(6,), (8,), (0,), (7, 1), ()])
def test_bare_values_of_another_length_are_refused(shape):
    M = gpuilu.ilu0(tridiagonal())
    with pytest.raises(gpuilu.ShapeMismatchError, match="expected 7 values"):
        M.update(np.ones(shape))


# ---- what does not fit leaves everything as it was -----------------------------------------------


def with_entry(A, i, j, value=1.0):
    A = A.tolil()
    A[i, j] = value
    return A.tocsr()


def zero_pivot():
    A = tridiagonal()
    A.data[:2] = 0
    return A


def with_nan(p=6):
    A = tridiagonal()
    A.data[p] = np.nan
    return A


@pytest.mark.parametrize(
    ("new", "error", "text"),
    [
        (tridiagonal(4), gpuilu.ShapeMismatchError, "(3, 3)"),
        (sp.csr_array(np.ones((3, 2))), gpuilu.InvalidMatrixError, "square"),
        (with_entry(tridiagonal(), 0, 2), gpuilu.PatternMismatchError, "row 0"),
        (sp.csr_array(sp.tril(tridiagonal())), gpuilu.PatternMismatchError, "row 0"),
        (tridiagonal().astype(complex), gpuilu.UnsupportedDtypeError, "complex128"),
        (np.ones(7, complex), gpuilu.UnsupportedDtypeError, "complex128"),
        (np.ones(7, object), gpuilu.UnsupportedDtypeError, "object"),
        ([1.0] * 7, gpuilu.InvalidMatrixError, "list"),
        (zero_pivot(), gpuilu.ZeroPivotError, "row 0"),
        (np.zeros(7), gpuilu.ZeroPivotError, "row 0"),
        (with_nan(), gpuilu.ZeroPivotError, "row 2"),
    ],
)
@pytest.mark.parametrize("factory", ["ilu0", "gauss_seidel", "ssor"])
def test_a_failed_update_leaves_the_old_factors_in_use(factory, new, error, text):
    M = getattr(gpuilu, factory)(tridiagonal())
    before, info = answers(M), M.info
    with pytest.raises(error) as raised:
        M.update(new)
    assert text in str(raised.value)
    assert_same(answers(M), before)
    assert (M.info.first_zero_pivot, M.info.n_boosted) == (info.first_zero_pivot, info.n_boosted)
    M.update(2 * tridiagonal())
    assert_same(answers(M), [x / 2 for x in before])


def test_values_too_large_for_narrow_factors_leave_the_old_ones_in_use():
    M = gpuilu.ilu0(tridiagonal(), factor_dtype=np.float32)
    before = answers(M)
    with warnings.catch_warnings(action="error"), pytest.raises(gpuilu.ZeroPivotError):
        M.update(1e300 * tridiagonal())
    assert_same(answers(M), before)


def test_another_pattern_of_the_same_length_is_found_row_by_row():
    A, new = tridiagonal(4), tridiagonal(4).tolil()
    new[2, 3], new[2, 0] = 0, 1.0
    new = new.tocsr()
    new.eliminate_zeros()
    assert new.nnz == A.nnz
    M = gpuilu.ilu0(A)
    with pytest.raises(gpuilu.PatternMismatchError, match=r"row 2.*\[0, 1, 2\].*\[1, 2, 3\]"):
        M.update(new)


@pytest.mark.parametrize("check", [True, False])
def test_another_number_of_entries_is_found_without_the_check_too(check):
    M = gpuilu.ilu0(tridiagonal())
    with pytest.raises(gpuilu.PatternMismatchError):
        M.update(with_entry(tridiagonal(), 0, 2), check=check)
    M.update(2 * tridiagonal(), check=check)
    np.testing.assert_allclose(M @ B3, np.array(X3) / 2, rtol=1e-14)


def test_pivots_changed_by_an_update_are_counted():
    M = gpuilu.ilu0(tridiagonal(), pivot="boost")
    assert (M.info.n_boosted, M.info.first_zero_pivot) == (0, None)
    M.update(zero_pivot())
    assert (M.info.n_boosted, M.info.first_zero_pivot) == (1, 0)
    M.update(tridiagonal())
    assert (M.info.n_boosted, M.info.first_zero_pivot) == (0, None)
    assert M.info.is_symmetric
    M.update(np.arange(1.0, 8))
    assert not M.info.is_symmetric


# ---- factors from elsewhere ----------------------------------------------------------------------


def test_given_factors_are_updated_by_a_pair_or_a_superlu():
    A = sp.csc_array(poisson(5, 4))
    M = gpuilu.from_factors(spla.splu(A))
    M.update(spla.splu(2 * A))
    b = np.arange(1.0, 21)
    np.testing.assert_allclose(M @ b, spla.spsolve(2 * A, b), rtol=1e-12)
    ilu = gpuilu.ilu0(tridiagonal())
    M = gpuilu.from_factors(ilu.L, 2 * ilu.U)
    M.update((ilu.L, ilu.U))
    np.testing.assert_allclose(M @ B3, X3, rtol=1e-14)
    M.update((ilu.L.data, 4 * ilu.U.data))
    np.testing.assert_allclose(M @ B3, np.array(X3) / 4, rtol=1e-14)


@pytest.mark.parametrize("bare", [False, True], ids=["matrices", "bare values"])
def test_a_unit_diagonal_of_given_factors_cannot_become_another(bare):
    ilu = gpuilu.ilu0(tridiagonal())
    M, L = gpuilu.from_factors(ilu.L, ilu.U), ilu.L
    L.setdiag(2)
    with pytest.raises(gpuilu.PatternMismatchError, match="ones"):
        M.update((L.data, ilu.U.data) if bare else (L, ilu.U))
    np.testing.assert_allclose(M @ B3, X3, rtol=1e-14)


def test_a_pair_whose_second_factor_is_singular_leaves_both_old_ones():
    ilu = gpuilu.ilu0(tridiagonal())
    M, L, U = gpuilu.from_factors(2 * ilu.L, ilu.U / 2), 4 * ilu.L, ilu.U
    U.setdiag([1.0, 0.0, 1.0])
    before = answers(M)
    with pytest.raises(gpuilu.ZeroPivotError) as raised:
        M.update((L, U))
    assert raised.value.row == 1
    assert_same(answers(M), before)
