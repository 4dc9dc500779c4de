"""As `M=` of Krylov solvers and eigensolvers: they converge, and sooner than without."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import convection_diffusion, poisson, random_values

import gpuilu

SYMMETRIC, UNSYMMETRIC = poisson(30, 30), convection_diffusion(30)
HERMITIAN = SYMMETRIC + 0.3j * sp.diags_array([1.0, -1.0], offsets=[1, -1], shape=(900, 900))
COMPLEX = UNSYMMETRIC + 0.3j * sp.eye_array(900)


class Counted(spla.LinearOperator):
    """A, and how often it was multiplied."""

    def __init__(self, A):
        super().__init__(A.dtype, A.shape)
        self.A, self.count = A, 0

    def _matvec(self, x):
        self.count += 1
        return self.A @ x

    def _rmatvec(self, x):
        return self.A.conj().T @ x


def solved(solver, A, b, **keywords):
    """(products with A until convergence, true relative residual)."""
    counted = Counted(A)
    x, info = solver(counted, b, rtol=1e-8, maxiter=2000, **keywords)
    assert info == 0
    return counted.count, np.linalg.norm(b - A @ x) / np.linalg.norm(b)


def assert_pays(solver, A, preconditioners, factor=2):
    """The same accuracy with `factor` times fewer products with A."""
    b = random_values(np.random.default_rng(0), A.shape[0], A.dtype)
    plain, _ = solved(solver, A, b)
    preconditioned, residual = solved(solver, A, b, **preconditioners)
    assert residual <= 1e-6
    assert preconditioned * factor <= plain


# ---- scipy: linear systems -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [gpuilu.ilu0, gpuilu.gauss_seidel, gpuilu.ssor])
@pytest.mark.parametrize(
    ("name", "A"),
    [("cg", SYMMETRIC), ("cg", HERMITIAN), ("minres", SYMMETRIC)],
    ids=["cg", "cg complex", "minres"],
)
def test_symmetric_solvers_converge_sooner(name, A, make):
    assert_pays(getattr(spla, name), A, {"M": make(A)})


@pytest.mark.parametrize("make", [gpuilu.ilu0, gpuilu.gauss_seidel])
@pytest.mark.parametrize("A", [SYMMETRIC, UNSYMMETRIC, COMPLEX], ids=["spd", "real", "complex"])
@pytest.mark.parametrize("name", ["gmres", "bicgstab", "bicg", "cgs", "lgmres", "gcrotmk"])
def test_general_solvers_converge_sooner(name, A, make):
    assert_pays(getattr(spla, name), A, {"M": make(A)}, factor=1.5)


@pytest.mark.parametrize("A", [UNSYMMETRIC, COMPLEX], ids=["real", "complex"])
def test_qmr_takes_the_two_triangles_apart(A):
    M = gpuilu.ilu0(A)
    left = gpuilu.TriangularSolver(M.L, unit_diagonal=True)
    right = gpuilu.TriangularSolver(M.U, lower=False)
    assert_pays(spla.qmr, A, {"M1": left, "M2": right})


@pytest.mark.parametrize(
    "make",
    [
        lambda A: gpuilu.gauss_seidel(A, sweep="forward"),
        lambda A: gpuilu.gauss_seidel(A, sweep="backward"),
        lambda A: gpuilu.sor(A, omega=1.3),
        lambda A: gpuilu.gauss_seidel(A, iterations=3),
        lambda A: gpuilu.ilu0(A, factor_dtype=np.float32),
        lambda A: gpuilu.ilu0(A, algorithm="level"),
        lambda A: gpuilu.from_factors(spla.spilu(sp.csc_array(A))),
    ],
    ids=["forward", "backward", "sor", "three sweeps", "float32", "level", "spilu"],
)
def test_every_kind_of_preconditioner_helps_gmres(make):
    assert_pays(spla.gmres, SYMMETRIC, {"M": make(SYMMETRIC)}, factor=1.3)


def test_gmres_preconditioned_on_the_right_reports_true_residuals():
    A, M = UNSYMMETRIC, gpuilu.ilu0(UNSYMMETRIC)
    b, norms = A @ np.sin(np.arange(1.0, 901)), []
    y, info = spla.gmres(
        spla.aslinearoperator(A) @ M,
        b,
        rtol=1e-8,
        restart=50,
        callback=norms.append,
        callback_type="pr_norm",
    )
    assert info == 0
    residual = np.linalg.norm(b - A @ (M @ y)) / np.linalg.norm(b)
    assert residual <= 1e-8
    assert norms[-1] == pytest.approx(residual, rel=1e-3)


@pytest.mark.parametrize("A", [SYMMETRIC, UNSYMMETRIC, COMPLEX], ids=["spd", "real", "complex"])
def test_tfqmr_converges_sooner_with_the_product_as_its_operator(A):
    # SciPy's tfqmr leaves M out of its first residual, and so solves another system with M=.
    M, b = gpuilu.ilu0(A), random_values(np.random.default_rng(0), 900, A.dtype)
    plain, _ = solved(spla.tfqmr, A, b)
    counted = Counted(A)
    y, info = spla.tfqmr(counted @ M, b, rtol=1e-8)
    assert info == 0
    assert np.linalg.norm(b - A @ (M @ y)) <= 1e-6 * np.linalg.norm(b)
    assert counted.count * 2 <= plain


def test_float32_from_end_to_end():
    A = SYMMETRIC.astype(np.float32)
    M, b = gpuilu.ilu0(A), np.ones(900, np.float32)
    x, info = spla.cg(A, b, M=M, rtol=1e-5)
    assert info == 0
    assert (M @ b).dtype == np.float32
    assert np.linalg.norm(b - A @ x) <= 1e-4 * np.linalg.norm(b)


def iterations(A, b, M=None):
    """Iterations of CG to 1e-6."""
    count = 0

    def step(_):
        nonlocal count
        count += 1

    x, info = spla.cg(A, b, M=M, rtol=1e-6, callback=step, maxiter=4000)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.01e-6 * np.linalg.norm(b)
    return count


def test_cg_takes_the_iterations_of_exact_factors():
    A = poisson(20, 20)
    b = np.random.default_rng(0).standard_normal(400)
    LU = reference.ilu0(A)
    L, U = np.tril(LU, -1) + np.eye(400), np.triu(LU)
    exact = np.linalg.inv(L @ U)
    D, dense = np.diag(A.diagonal()), A.toarray()
    sweep = (D + np.tril(dense, -1)) @ np.linalg.inv(D) @ (D + np.triu(dense, 1))
    assert iterations(A, b) == 54
    assert iterations(A, b, exact) == iterations(A, b, gpuilu.ilu0(A)) == 20
    assert iterations(A, b, np.linalg.inv(sweep)) == iterations(A, b, gpuilu.gauss_seidel(A)) == 23


@pytest.mark.timeout(600)
def test_cg_on_a_million_unknowns_takes_713_iterations():
    A = poisson(1024, 1024)
    b = np.random.default_rng(0).standard_normal(1024**2)
    assert iterations(A, b, gpuilu.ilu0(A)) == pytest.approx(713, rel=0.02)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_cg_on_a_million_unknowns_takes_2400_iterations_without():
    A = poisson(1024, 1024)
    b = np.random.default_rng(0).standard_normal(1024**2)
    assert iterations(A, b) == pytest.approx(2400, rel=0.02)


# ---- scipy: eigenvalues --------------------------------------------------------------------------


def smallest_eigenvalues(m, count):
    """Of the m x m Laplacian: 4 sin^2(i pi / 2(m + 1)) + 4 sin^2(j pi / 2(m + 1))."""
    line = 4 * np.sin(np.arange(1, m + 1) * np.pi / (2 * (m + 1))) ** 2
    return np.sort(np.add.outer(line, line).ravel())[:count]


def test_lobpcg_finds_the_smallest_eigenvalues_sooner():
    X = np.random.default_rng(0).standard_normal((900, 4))
    steps = {}
    for name, M in {"none": None, "ilu0": gpuilu.ilu0(SYMMETRIC)}.items():
        found, _, history = spla.lobpcg(
            SYMMETRIC, X, M=M, largest=False, tol=1e-6, maxiter=200, retResidualNormsHistory=True
        )
        np.testing.assert_allclose(np.sort(found), smallest_eigenvalues(30, 4), rtol=1e-8)
        steps[name] = len(history)
    assert steps["ilu0"] * 2 <= steps["none"]


def test_eigsh_and_eigs_take_exact_factors_as_inverse():
    sigma = 0.05
    shifted = sp.csc_array(SYMMETRIC - sigma * sp.eye_array(900))
    inverse = gpuilu.from_factors(spla.splu(shifted))
    found = spla.eigsh(
        SYMMETRIC, k=4, sigma=sigma, OPinv=inverse, return_eigenvectors=False, v0=np.ones(900)
    )
    expected = smallest_eigenvalues(30, 900)
    nearest = expected[np.argsort(abs(expected - sigma))[:4]]
    np.testing.assert_allclose(np.sort(found), np.sort(nearest), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_factors_with_permutations_solve_as_superlu_does(dtype):
    A = sp.csc_array((COMPLEX if dtype == "complex128" else UNSYMMETRIC).astype(dtype))
    lu = spla.splu(A)
    assert not np.array_equal(lu.perm_c, np.arange(900))
    M, b = gpuilu.from_factors(lu), random_values(np.random.default_rng(0), (900, 2), dtype)
    for trans in "NTH":
        x = M.solve(b, trans)
        np.testing.assert_allclose(x, lu.solve(b, trans), rtol=1e-9, atol=1e-12)


# ---- pyamg ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "A"),
    [
        ("cg", SYMMETRIC),
        ("cr", SYMMETRIC),
        ("bicgstab", UNSYMMETRIC),
        ("gmres", UNSYMMETRIC),
        ("fgmres", UNSYMMETRIC),
        ("gmres", COMPLEX),
    ],
    ids=["cg", "cr", "bicgstab", "gmres", "fgmres", "gmres complex"],
)
def test_pyamg_solvers_converge_sooner(name, A):
    krylov = pytest.importorskip("pyamg").krylov
    b, steps = random_values(np.random.default_rng(0), 900, A.dtype), []
    for M in (None, gpuilu.ilu0(A)):
        residuals = []
        x, info = getattr(krylov, name)(A, b, M=M, tol=1e-8, maxiter=400, residuals=residuals)
        assert info == 0
        assert np.linalg.norm(b - A @ x) <= 1e-6 * np.linalg.norm(b)
        steps.append(len(residuals))
    assert steps[1] * 2 <= steps[0]
