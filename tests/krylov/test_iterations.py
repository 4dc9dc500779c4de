"""Iterations are counted as the textbooks' methods take them; each of those is written out here."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import convection_diffusion, poisson

import gpuilu
from gpuilu import krylov

SOLVERS = tuple(krylov.SOLVERS)


def right_hand_side(n):
    return np.random.default_rng(3).standard_normal(n)


def cg_by_hand(A, b, M, rtol):
    x, r = np.zeros_like(b), b.copy()
    z = M @ r
    p, rz, count = z.copy(), r @ z, 0
    while np.linalg.norm(r) >= rtol * np.linalg.norm(b):
        q = A @ p
        alpha = rz / (p @ q)
        x, r = x + alpha * p, r - alpha * q
        z = M @ r
        p, rz = z + (r @ z) / rz * p, r @ z
        count += 1
    return count


def bicgstab_by_hand(A, b, M, rtol):
    r, shadow, count = b.copy(), b.copy(), 0
    p, limit = r.copy(), rtol * np.linalg.norm(b)
    while np.linalg.norm(r) >= limit:
        count += 1
        v = A @ (M @ p)
        alpha = (shadow @ r) / (shadow @ v)
        s = r - alpha * v
        if np.linalg.norm(s) < limit:
            break
        t = A @ (M @ s)
        omega = (t @ s) / (t @ t)
        r_next = s - omega * t
        beta = (shadow @ r_next) / (shadow @ r) * alpha / omega
        p, r = r_next + beta * (p - omega * v), r_next
    return count


def gmres_by_hand(A, b, M, rtol, restart):
    """min ||b - A M u|| over Krylov spaces of A M, each problem solved anew by least squares."""
    AM = (A @ np.column_stack([M @ e for e in np.eye(len(b))])).astype(float)
    u, count = np.zeros_like(b), 0
    while True:
        r = b - AM @ u
        V = r[:, None] / np.linalg.norm(r)
        for _ in range(restart):
            count += 1
            y, *_ = np.linalg.lstsq(AM @ V, r, rcond=None)
            if np.linalg.norm(r - AM @ (V @ y)) <= rtol * np.linalg.norm(b):
                return count
            w = AM @ V[:, -1]
            w -= V @ (V.T @ w)
            w -= V @ (V.T @ w)
            V = np.column_stack([V, w / np.linalg.norm(w)])
        u = u + V[:, :-1] @ y


@pytest.mark.parametrize("name", ["none", "jacobi", "ilu0"])
def test_cg_takes_as_many_iterations_as_the_textbook(name):
    A = poisson(12, 12) + sp.diags_array(np.linspace(0, 3, 144))
    b, M = right_hand_side(A.shape[0]), krylov.preconditioner(name, A)
    _, outcome = krylov.solve(A, b, solver="cg", M=M, rtol=1e-8)
    assert outcome.iterations == cg_by_hand(A, b, sp.eye_array(144) if M is None else M, 1e-8)
    assert outcome.n_applies == (0 if M is None else outcome.iterations)


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("name", ["none", "jacobi", "ilu0"])
def test_bicgstab_takes_as_many_iterations_as_the_textbook(name, rtol):
    A = convection_diffusion(8)
    b, M = right_hand_side(A.shape[0]), krylov.preconditioner(name, A)
    _, outcome = krylov.solve(A, b, solver="bicgstab", M=M, rtol=rtol)
    by_hand = bicgstab_by_hand(A, b, sp.eye_array(64) if M is None else M, rtol)
    assert outcome.iterations == by_hand == len(outcome.residuals)


@pytest.mark.parametrize("restart", [4, 50])
@pytest.mark.parametrize("name", ["none", "jacobi", "ilu0"])
def test_gmres_takes_as_many_inner_iterations_as_the_textbook(name, restart):
    A = convection_diffusion(8)
    b, M = right_hand_side(A.shape[0]), krylov.preconditioner(name, A)
    _, outcome = krylov.solve(A, b, solver="gmres", M=M, rtol=1e-6, restart=restart)
    by_hand = gmres_by_hand(A, b, sp.eye_array(64) if M is None else M, 1e-6, restart)
    assert outcome.iterations == by_hand


@pytest.mark.parametrize("solver", SOLVERS)
def test_three_distinct_eigenvalues_take_three_iterations(solver):
    A = sp.diags_array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], format="csr")
    x, outcome = krylov.solve(A, np.ones(6), solver=solver, rtol=1e-10)
    assert outcome.iterations == 3
    np.testing.assert_allclose(x, [1, 1 / 2, 1 / 3, 1, 1 / 2, 1 / 3], rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_exact_preconditioner_takes_one_iteration(solver):
    A = sp.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30)).tocsr()
    _, outcome = krylov.solve(A, right_hand_side(A.shape[0]), solver=solver, M=gpuilu.ilu0(A))
    assert (outcome.iterations, outcome.converged) == (1, True)


def test_bicgstab_that_ends_in_half_an_iteration_counts_it_and_its_single_apply():
    A = sp.diags_array([2.0, 4.0], format="csr")
    _, outcome = krylov.solve(A, [1.0, 1.0], solver="bicgstab", M=krylov.Jacobi(A))
    assert (outcome.iterations, outcome.n_applies, outcome.residuals) == (1, 1, (0.0,))
