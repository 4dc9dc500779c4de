"""Products, sums, powers and transposed views of the operator, with the factors they show."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import complex_3x3, poisson, random_values, unsymmetric
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import gpuilu

N = 40


@pytest.fixture(scope="module", params=["float64", "complex128"])
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def A(dtype):
    return unsymmetric(N, dtype, seed=4)


@pytest.fixture(scope="module")
def M(A):
    return gpuilu.ilu0(A)


@pytest.fixture(scope="module")
def inverse(M):
    """M^-1, dense."""
    return np.linalg.inv((M.L @ M.U).toarray())


def same(operator, dense):
    """Whether an operator and its adjoint multiply vectors and blocks as a dense matrix does."""
    assert isinstance(operator, LinearOperator)
    assert operator.shape == dense.shape
    b = random_values(np.random.default_rng(9), (N, 3), dense.dtype)
    scale = 1e-13 * np.linalg.norm(dense, 2)
    np.testing.assert_allclose(operator @ b, dense @ b, atol=scale)
    np.testing.assert_allclose(operator @ b[:, 0], dense @ b[:, 0], atol=scale)
    np.testing.assert_allclose(operator.H @ b[:, 0], dense.conj().T @ b[:, 0], atol=scale)
    return True


# ---- composing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix])
def test_a_sparse_matrix_times_the_operator_is_an_operator(A, M, inverse, form):
    assert same(form(A) @ M, A.toarray() @ inverse)
    assert same(M @ form(A), inverse @ A.toarray())
    assert same(M.dot(form(A)), inverse @ A.toarray())


def test_operators_compose_with_operators_and_with_themselves(A, M, inverse):
    wrapped = aslinearoperator(A)
    assert same(wrapped @ M, A.toarray() @ inverse)
    assert same(M @ wrapped, inverse @ A.toarray())
    assert same(M @ M, inverse @ inverse)
    assert same(M * M, inverse @ inverse)
    assert same(M.dot(M), inverse @ inverse)
    assert same(M.H @ M, inverse.conj().T @ inverse)


def test_scaling_adding_and_powers(A, M, inverse):
    assert same(2 * M, 2 * inverse)
    assert same(M * 2, 2 * inverse)
    assert same(np.float64(2) * M, 2 * inverse)
    assert same(M.dot(2), 2 * inverse)
    assert same(M / 2, inverse / 2)
    assert same(-M, -inverse)
    assert same(M + M, 2 * inverse)
    assert same(M + aslinearoperator(A), inverse + A.toarray())
    assert same(M - M.T, inverse - inverse.T)
    assert same(M**2, inverse @ inverse)
    assert same(M**0, np.eye(N, dtype=inverse.dtype))
    assert same(1j * M, 1j * inverse)


def test_a_scalar_is_no_operand_of_the_matrix_product(M):
    with pytest.raises(ValueError, match="Scalar"):
        M @ 2
    with pytest.raises(ValueError, match="Scalar"):
        2 @ M


def test_an_array_times_the_operator_is_an_array(M, inverse):
    b = random_values(np.random.default_rng(3), (3, N), inverse.dtype)
    for left in (b, b[0], b[0].tolist(), np.asfortranarray(b), b[:0]):
        product = left @ M
        assert type(product) is np.ndarray
        np.testing.assert_allclose(product, np.asarray(left) @ inverse, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(b * M, b @ M)


def test_composed_operators_apply_the_same_bits_as_their_parts(A, M):
    b = random_values(np.random.default_rng(3), N, A.dtype)
    np.testing.assert_array_equal((A @ M) @ b, A @ (M @ b))
    np.testing.assert_array_equal((M @ A) @ b, M @ (A @ b))
    np.testing.assert_array_equal((M @ M) @ b, M @ (M @ b))


def test_the_operator_stays_itself_as_a_linear_operator(M):
    assert aslinearoperator(M) is M
    assert isinstance(M, LinearOperator)
    assert callable(M.matvec)


# ---- transposed views ----------------------------------------------------------------------------


def test_views_apply_the_transpose_the_adjoint_and_the_conjugate(M, inverse):
    assert same(M.T, inverse.T)
    assert same(M.H, inverse.conj().T)
    assert same(M.H.T, inverse.conj())
    assert same(M.T.H, inverse.conj())
    for twice in (M.T.T, M.H.H, M.transpose().transpose(), M.adjoint().adjoint(), M.H.T.H.T):
        assert same(twice, inverse)


def test_solve_of_a_view_composes_its_trans_with_the_view(M, inverse):
    b = random_values(np.random.default_rng(3), N, inverse.dtype)
    views = {"N": M, "T": M.T, "H": M.H, "C": M.H.T}
    of = {
        "N": inverse,
        "T": inverse.T,
        "H": inverse.conj().T,
        "C": inverse.conj(),
    }
    for name, view in views.items():
        for trans, op in [("N", of[name]), ("T", of[name].T), ("H", of[name].conj().T)]:
            np.testing.assert_allclose(view.solve(b, trans), op @ b, rtol=1e-10, atol=1e-13)


def test_views_are_preconditioners_of_the_same_kind_and_facts(M):
    for view in (M.T, M.H, M.T.H):
        assert type(view) is gpuilu.Preconditioner
        assert (view.kind, view.shape, view.dtype) == (M.kind, M.shape, M.dtype)
        assert view.info.n_levels_lower == M.info.n_levels_lower
    solver = gpuilu.TriangularSolver(M.L, unit_diagonal=True)
    b = random_values(np.random.default_rng(3), N, M.dtype)
    np.testing.assert_array_equal(solver.T @ b, solver.solve(b, "T"))


def test_the_conjugate_view_leaves_its_argument_alone():
    M = gpuilu.ilu0(complex_3x3()).H.T
    b = np.array([1, 1j, 2 - 1j])
    kept = b.copy()
    x = M @ b
    np.testing.assert_array_equal(b, kept)
    assert M.solve(b, out=b) is b
    np.testing.assert_array_equal(b, x)


@pytest.mark.parametrize("factory", ["ilu0", "gauss_seidel", "ssor"])
def test_the_factors_of_every_view_multiply_to_its_matrix(A, factory):
    M = getattr(gpuilu, factory)(A)
    LU = (M.L @ M.U).toarray()
    for view, matrix in [(M, LU), (M.T, LU.T), (M.H, LU.conj().T), (M.H.T, LU.conj())]:
        L, U = view.L, view.U
        for factor in (L, U):
            assert isinstance(factor, sp.csr_array)
            assert factor.has_canonical_format
        assert sp.triu(L, 1).nnz == sp.tril(U, -1).nnz == 0
        np.testing.assert_allclose((L @ U).toarray(), matrix, rtol=1e-13, atol=1e-14)


def test_a_one_sided_sweep_has_one_factor_and_its_transpose_the_other(A):
    forward = gpuilu.gauss_seidel(A, sweep="forward")
    assert forward.U is None
    assert forward.T.L is None
    np.testing.assert_array_equal(forward.T.U.toarray(), np.tril(A.toarray()).T)
    np.testing.assert_array_equal(forward.H.U.toarray(), np.tril(A.toarray()).conj().T)
    backward = gpuilu.gauss_seidel(A, sweep="backward")
    assert backward.L is None
    np.testing.assert_array_equal(backward.T.L.toarray(), np.triu(A.toarray()).T)


def test_the_factors_shown_are_copies(A):
    M = gpuilu.ilu0(A)
    b = random_values(np.random.default_rng(3), N, A.dtype)
    x = M @ b
    for factor in (M.L, M.U):
        factor.data[:] = np.nan
        factor.indices[:] = 0
    np.testing.assert_array_equal(M @ b, x)
    assert np.isfinite(M.L.data).all()


# ---- repeated sweeps -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("sweep", ["forward", "backward", "symmetric"])
def test_k_iterations_compose_k_sweeps_and_their_adjoint_reverses_them(A, sweep, k):
    once = gpuilu.sor(A, omega=1.2, sweep=sweep)
    many = gpuilu.sor(A, omega=1.2, sweep=sweep, iterations=k)
    inverse, dense = once @ np.eye(N, dtype=A.dtype), A.toarray()
    composed = np.zeros_like(dense)
    for _ in range(k):
        composed = composed + inverse @ (np.eye(N) - dense @ composed)
    assert same(many, composed)
    assert same(many.T, composed.T)
    assert same(many.H, composed.conj().T)
    assert same(many.H.T, composed.conj())


def test_two_sweeps_take_the_residual_closer_than_one():
    A, b = poisson(8, 8), np.ones(64)
    r = [np.linalg.norm(b - A @ (gpuilu.gauss_seidel(A, iterations=k) @ b)) for k in (1, 2, 4, 8)]
    assert r[0] > r[1] > r[2] > r[3]
