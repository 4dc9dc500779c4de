"""Hierarchies on the card: CuPy in and out, streams, recorded cycles, memory. Values: tests/amg."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gpuilu

pyamg = pytest.importorskip("pyamg")

from gpuilu import amg  # noqa: E402

SYMMETRIC = ("gauss_seidel", {"sweep": "symmetric"})
SMOOTHERS = {
    "gauss_seidel": (SYMMETRIC, SYMMETRIC),
    "jacobi": ("jacobi", "jacobi"),
    "chebyshev": ("chebyshev", "chebyshev"),
    "ilu0": ("ilu0", "ilu0"),
}
N = 60 * 50


@pytest.fixture(params=SMOOTHERS)
def ml(request):
    np.random.seed(0)  # noqa: NPY002
    A = pyamg.gallery.poisson((60, 50), format="csr")
    ml = pyamg.smoothed_aggregation_solver(A, max_coarse=20)
    amg.change_smoothers(ml, *SMOOTHERS[request.param], device="cpu")
    return ml


@pytest.fixture
def moved(ml, cp):
    return amg.to_gpu(ml, dense_rows=100)


def vector(k=0):
    return np.random.default_rng(k).standard_normal(N)


def same(a, b):
    return bool((a.view(np.int64) == b.view(np.int64)).all())


def test_cupy_in_cupy_out_and_numpy_in_numpy_out(cp, ml, moved):
    b = vector()
    x, y = moved.solve(b, maxiter=3), moved.solve(cp.asarray(b), maxiter=3)
    assert isinstance(x, np.ndarray)
    assert isinstance(y, cp.ndarray)
    assert same(x, y.get())
    M = moved.aspreconditioner()
    assert same(M @ b, (M @ cp.asarray(b)).get())
    np.testing.assert_allclose(x, ml.solve(b, maxiter=3), rtol=1e-10, atol=1e-12 * abs(x).max())


@pytest.mark.parametrize("cycle", ["V", "W", "F"])
def test_a_recorded_cycle_gives_the_bits_of_the_one_that_was_recorded(moved, cp, cycle):
    b = cp.asarray(vector())
    M = moved.aspreconditioner(cycle)
    first = M @ b
    for k in range(20):
        M @ cp.asarray(vector(k))
        assert same(M @ b, first)
    moved.check()


def test_solves_from_x0_and_from_zero_share_the_vectors(moved, cp):
    b, start = vector(), vector(5)
    alone = moved.solve(b, x0=start, maxiter=4, tol=1e-30)
    for _ in range(3):
        moved.solve(b, maxiter=2)
        moved.aspreconditioner("W") @ start
        assert same(moved.solve(b, x0=start, maxiter=4, tol=1e-30), alone)


@pytest.mark.parametrize("solver", ["cg", "gmres", "bicgstab"])
def test_cupyx_solvers_take_a_cycle(solver, ml, moved, cp, csp):
    linalg = pytest.importorskip("cupyx.scipy.sparse.linalg")
    A, b = csp.csr_matrix(ml.levels[0].A), cp.asarray(vector())
    for M in (moved.aspreconditioner(), moved.aspreconditioner("W")):
        x, status = getattr(linalg, solver)(A, b, M=M, rtol=1e-8, maxiter=200)
        assert status == 0
        assert float(cp.linalg.norm(b - A @ x)) <= 1e-6 * float(cp.linalg.norm(b))


def test_applies_on_two_streams_are_right(moved, cp):
    M = moved.aspreconditioner()
    vectors = [cp.asarray(vector(k)) for k in range(2)]
    expected = [M @ b for b in vectors]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    found = []
    cp.cuda.Device().synchronize()
    for _ in range(50):
        for k, stream in enumerate(streams):
            with stream:
                found.append((k, M @ vectors[k]))
    cp.cuda.Device().synchronize()
    assert all(same(x, expected[k]) for k, x in found)


def test_an_update_reaches_recorded_cycles(ml, moved, cp, csp):
    b, A = cp.asarray(vector()), ml.levels[0].A
    M = moved.aspreconditioner()
    before = M @ b
    for source in (A, csp.csr_matrix(A)):
        moved.update(4 * source)
        after = M @ b
        scale = float(abs(before).max())
        estimated = ml.levels[0].presmoother.recipe.rho is not None
        assert float(abs(4 * after - before).max()) <= (0.1 if estimated else 1e-11) * scale
        moved.update(source)


def test_a_cycle_waits_for_nothing_and_holds_no_more_memory(moved, cp):
    M, b = moved.aspreconditioner(), cp.asarray(vector())
    for _ in range(3):
        M @ b
    cp.cuda.Device().synchronize()
    pool = cp.get_default_memory_pool()
    used, total = pool.used_bytes(), pool.total_bytes()
    for _ in range(100):
        M @ b
    cp.cuda.Device().synchronize()
    assert pool.used_bytes() == used
    assert pool.total_bytes() == total


def test_a_cycle_inside_a_capture_raises(moved, cp):
    M, b = moved.aspreconditioner(), cp.asarray(vector())
    M @ b
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        with pytest.raises(gpuilu.CaptureError):
            M @ b
        stream.end_capture()
    M @ b
    moved.check()


def test_a_hierarchy_gives_its_memory_back(ml, cp):
    pool = cp.get_default_memory_pool()
    amg.to_gpu(ml).solve(vector(), maxiter=2)
    gc.collect()
    used = pool.used_bytes()
    for _ in range(10):
        amg.to_gpu(ml).solve(vector(), maxiter=2)
        gc.collect()
    assert pool.used_bytes() <= used + (1 << 16)
