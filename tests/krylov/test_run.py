"""Every solver stops on ||b - A x||, and what a run reports is true."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import DTYPES, convection_diffusion, poisson

import gpuilu
from gpuilu import krylov
from gpuilu.krylov import run

SOLVERS = tuple(krylov.SOLVERS)


def right_hand_side(n):
    return np.random.default_rng(3).standard_normal(n)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_recorded_residual_is_that_of_the_run_stopped_there(solver):
    A = convection_diffusion(6) if solver != "cg" else poisson(6, 6)
    b, M = right_hand_side(A.shape[0]), gpuilu.ilu0(A)
    _, whole = krylov.solve(A, b, solver=solver, M=M)
    for k in range(1, whole.iterations):
        x, part = krylov.solve(A, b, solver=solver, M=M, maxiter=k)
        true_residual = np.linalg.norm(b - A @ x) / np.linalg.norm(b)
        assert part.iterations == k
        assert part.true_residual == pytest.approx(true_residual, rel=1e-12)
        assert whole.residuals[k - 1] == pytest.approx(true_residual, rel=1e-6)


@pytest.mark.parametrize("solver", ["gmres", "bicgstab"])
def test_a_badly_scaled_preconditioner_does_not_fool_the_record(solver):
    A = convection_diffusion(8)
    b = right_hand_side(A.shape[0])
    scale = sp.diags_array(np.logspace(0, -6, 64))
    _, outcome = krylov.solve(A, b, solver=solver, M=spla.aslinearoperator(scale), maxiter=640)
    assert outcome.residuals[-1] == pytest.approx(outcome.true_residual, rel=1e-3)


def test_a_solver_content_with_its_own_residual_has_not_converged_if_the_true_one_is_larger():
    A = poisson(20, 20).astype("float32")
    _, outcome = krylov.solve(A, np.ones(400, "float32"), rtol=1e-10)
    assert outcome.true_residual > 1e-9
    assert not outcome.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_preconditioner_that_returns_nan_ends_the_run_at_once(solver):
    A = poisson(4, 4)
    M = spla.LinearOperator(A.shape, lambda r: np.full(16, np.nan), dtype=float)
    _, outcome = krylov.solve(A, np.ones(16), solver=solver, M=M)
    assert outcome.iterations == 1
    assert not outcome.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_nan_in_the_right_hand_side_ends_the_run_at_once(solver):
    _, outcome = krylov.solve(poisson(4, 4), np.full(16, np.nan), solver=solver)
    assert outcome.iterations == 1
    assert not outcome.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_too_few_iterations_are_reported_and_not_raised(solver):
    _, outcome = krylov.solve(poisson(20, 20), np.ones(400), solver=solver, maxiter=5)
    assert (outcome.iterations, outcome.converged) == (5, False)


def test_maxiter_of_gmres_is_rounded_up_to_whole_cycles():
    _, outcome = krylov.solve(poisson(20, 20), np.ones(400), solver="gmres", maxiter=7, restart=3)
    assert outcome.iterations == 9


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_zero_right_hand_side_has_the_solution_zero_in_an_array_of_its_own(solver):
    b = np.zeros(16)
    x, outcome = krylov.solve(poisson(4, 4), b, solver=solver)
    assert x is not b
    assert not x.any()
    assert (outcome.iterations, outcome.converged, outcome.true_residual) == (0, True, 0.0)


def test_an_empty_system_is_solved():
    x, outcome = krylov.solve(sp.csr_array((0, 0)), np.ones(0))
    assert x.shape == (0,)
    assert outcome.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_right_hand_side_is_left_as_it_was(solver):
    A, b = poisson(4, 4), np.arange(16.0)
    krylov.solve(A, b, solver=solver, M=gpuilu.ilu0(A))
    np.testing.assert_array_equal(b, np.arange(16.0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["int32", *DTYPES])
def test_every_dtype_is_solved(solver, dtype):
    A = poisson(6, 6).astype(dtype)
    if A.dtype.kind == "c":
        A = A + sp.diags_array([1j, -1j], offsets=[1, -1], shape=A.shape, dtype=dtype).tocsr()
    b = np.arange(36).astype(dtype)[:, None]
    x, outcome = krylov.solve(A, b, solver=solver, M=gpuilu.ilu0(A), rtol=1e-4)
    assert outcome.converged
    assert x.shape == (36,)
    assert x.dtype == ("float64" if dtype == "int32" else dtype)


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (gpuilu.OptionError, {"solver": "sor"}),
        (gpuilu.OptionError, {"rtol": 0.0}),
        (gpuilu.OptionError, {"rtol": float("nan")}),
        (gpuilu.OptionError, {"maxiter": 0}),
        (gpuilu.OptionError, {"restart": 0}),
        (gpuilu.ShapeMismatchError, {"b": np.ones(5)}),
        (gpuilu.ShapeMismatchError, {"b": np.ones((16, 2))}),
        (gpuilu.ShapeMismatchError, {"M": sp.linalg.aslinearoperator(sp.eye_array(5))}),
        (gpuilu.InvalidMatrixError, {"A": np.eye(16)}),
        (gpuilu.UnsupportedDtypeError, {"b": np.array(["x"] * 16)}),
    ],
)
def test_what_does_not_fit_raises(error, change):
    system = {"A": poisson(4, 4), "b": np.ones(16)} | change
    with pytest.raises(error):
        krylov.solve(system.pop("A"), system.pop("b"), **system)


@pytest.mark.parametrize("solver", ["cg", "bicgstab"])
def test_recording_residuals_is_not_in_the_time_to_solution(solver, monkeypatch):
    true_residual = run._Run.true_residual

    def slow(self):
        time.sleep(0.05)
        return true_residual(self)

    monkeypatch.setattr(run._Run, "true_residual", slow)
    _, outcome = krylov.solve(poisson(10, 10), np.arange(100.0), solver=solver)
    assert outcome.iterations >= 10
    assert outcome.solve_ms < 40.0 * outcome.iterations


def test_an_outcome_tells_what_the_preconditioner_is_and_what_it_cost():
    A = poisson(10, 10)
    M = gpuilu.ssor(A, omega=1.2)
    _, outcome = krylov.solve(A, np.ones(100), M=M)
    assert (outcome.solver, outcome.preconditioner, outcome.device) == ("cg", "ssor", "cpu")
    assert outcome.setup_ms == M.info.setup_ms
    assert 0 < outcome.apply_ms * outcome.n_applies <= outcome.solve_ms


def test_an_operator_of_another_library_goes_by_its_class_name():
    A = poisson(4, 4)
    M = spla.aslinearoperator(sp.eye_array(16))
    _, outcome = krylov.solve(A, np.ones(16), M=M)
    assert (outcome.preconditioner, outcome.setup_ms) == (type(M).__name__, 0.0)
