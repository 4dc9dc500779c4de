"""What every GPU algorithm of ours promises: updates, graphs, streams, no allocation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import forced
from gpu_cases import grid, on_gpu, vector
from reference import backward_error

import gpuilu
from gpuilu.trsv.base import algorithms

LIMIT = 4
OURS = sorted(
    name for (name, device), plan in algorithms().items() if device == "cuda" and not plan.vendor
)
every_one = pytest.mark.parametrize("algorithm", OURS)


@pytest.fixture
def T():
    """A lower triangle of a shuffled grid."""
    A = grid(40, 40)
    order = np.random.default_rng(0).permutation(1600)
    return sp.csr_array(sp.tril(A[order][:, order]))


def solver(csp, T, algorithm):
    return gpuilu.TriangularSolver(on_gpu(csp, T), **forced(algorithm, "cuda"))


def right(T, x, b):
    return backward_error(T, x.get(), b.get()) <= LIMIT


@every_one
def test_new_values_reach_every_form(cp, csp, T, algorithm):
    S = solver(csp, T, algorithm)
    b = cp.asarray(vector(1600, np.float64))
    for factor in (1, 3, -2):
        S.update(on_gpu(csp, T * factor))
        assert right(T * factor, S.solve(b), b)
        assert right(sp.csr_array(T.T * factor), S.solve(b, "T"), b)


@every_one
@pytest.mark.parametrize("nrhs", [None, 3, 40])
def test_a_captured_solve_replays_with_new_right_hand_sides(cp, csp, T, algorithm, nrhs):
    S = solver(csp, T, algorithm)
    b = cp.asarray(vector(1600, np.float64, nrhs=nrhs))
    out, stream = cp.empty_like(b), cp.cuda.Stream(non_blocking=True)
    S.solve(b, out=out)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        S.solve(b, out=out)
        graph = stream.end_capture()
    for seed in range(20):
        b[...] = cp.asarray(vector(1600, np.float64, seed=seed, nrhs=nrhs))
        cp.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert right(T, out, b)
    S.check()


@every_one
def test_two_streams_share_an_object(cp, csp, T, algorithm):
    S = solver(csp, T, algorithm)
    bs = [cp.asarray(vector(1600, np.float64, seed=k)) for k in range(2)]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    cp.cuda.Device().synchronize()
    found = []
    for _ in range(30):
        for b, stream in zip(bs, streams, strict=True):
            with stream:
                found.append((S.solve(b), b))
    cp.cuda.Device().synchronize()
    assert all(right(T, x, b) for x, b in found)


@every_one
def test_solving_in_place_gives_the_same_answer(cp, csp, T, algorithm):
    S = solver(csp, T, algorithm)
    b = cp.asarray(vector(1600, np.float64, nrhs=3))
    x = b.copy()
    S.solve(x, out=x)
    assert right(T, x, b)


@every_one
def test_a_steady_solve_allocates_only_its_result(cp, csp, T, algorithm):
    S = solver(csp, T, algorithm)
    b = cp.asarray(vector(1600, np.float64))
    out = S.solve(b)
    pool = cp.get_default_memory_pool()
    used = pool.used_bytes()
    for _ in range(20):
        S.solve(b, out=out)
        assert pool.used_bytes() == used
