"""A million solves, beside other work and on random matrices: long, so marked `stress`.

About 1.2 million solves of one triangle, 150 thousand of them with 100,000 rows or more; of each
registered algorithm no less than 22,400, 2,400 of them so large.
"""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from cases import forced, suited
from gpu_cases import DTYPES, chain, grid, on_gpu, random, vector, wide_row
from reference import backward_error

import gpuilu
from gpuilu.dag import levels
from gpuilu.trsv.base import algorithms

pytestmark = pytest.mark.stress
LIMIT = 4


def shuffled(A, seed):
    order = np.random.default_rng(seed).permutation(A.shape[0])
    return A[order][:, order].tocsr()


SMALL = {
    "a grid": lambda: grid(16, 16),
    "a shuffled grid": lambda: shuffled(grid(24, 24), 1),
    "a chain": lambda: chain(70),
    "rows of every length": lambda: random(300, 0.1, 2),
    "rows that are cut": lambda: wide_row(2000),
}
LARGE = {
    "a large shuffled grid": lambda: shuffled(grid(320, 320), 3),
    "large random": functools.cache(lambda: random(100_000, 4e-5, 4)),
}
PER_GRAPH = 1_000


def solve_in_graphs(cp, M, b, n_applies, per_graph=PER_GRAPH, bound=None, graphs=True):
    """Apply M over and over; how many runs of `per_graph` applies gave another result.

    Another than the first: other bits, or further from it than `bound` in some row. A run is the
    replay of a graph, or enqueued one by one where M cannot be captured.
    """
    expected, stream = M @ b, cp.cuda.Stream(non_blocking=True)
    outs = cp.empty((per_graph, *b.shape), b.dtype)

    def run():
        for out in outs:
            M.solve(b, out=out)

    cp.cuda.Device().synchronize()
    if graphs:
        with stream:
            stream.begin_capture()
            run()
            graph = stream.end_capture()
    wrong = 0
    for _ in range(n_applies // per_graph):
        outs.fill(cp.nan)
        cp.cuda.Device().synchronize()
        with stream:
            graph.launch(stream) if graphs else run()
        stream.synchronize()
        agree = outs == expected if bound is None else abs(outs - expected) <= bound
        wrong += not bool(agree.all())
    M.check()
    return wrong


def rounding(T, lower, x, b):
    """How far apart rounding may carry two solves of T x = b, row by row.

    Each has a backward error of at most LIMIT; and |T^-1| <= C^-1, where C is |D| - |T - D|.
    """
    C = sp.csr_array(2 * sp.diags_array(abs(T.diagonal())) - abs(T))
    moved = np.diff(T.indptr) * (abs(T) @ abs(x) + abs(b))
    S = gpuilu.TriangularSolver(C, lower=lower, device="cpu")
    return 2 * LIMIT * np.finfo(x.dtype).eps * S.solve(moved)


RUNS = {
    "small": (lambda: random(300, 0.02, 2), 10_000, 100),
    "large": (LARGE["large random"], 1_200, 50),
}


@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("algorithm", sorted(n for n, device in algorithms() if device == "cuda"))
def test_thousands_of_solves_by_every_algorithm_give_one_answer(cp, csp, algorithm, run, lower):
    plan, (make, n_solves, per_graph) = algorithms()[algorithm, "cuda"], RUNS[run]
    A = suited(algorithm, "cuda", make())
    T = sp.csr_array(sp.tril(A) if lower else sp.triu(A))
    S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, **forced(algorithm, "cuda"))
    b = vector(A.shape[0], np.float64)
    x = S @ cp.asarray(b)
    assert backward_error(T, x.get(), b) <= LIMIT
    bound = None if plan.deterministic else cp.asarray(rounding(T, lower, x.get(), b))
    limits = {"per_graph": per_graph, "bound": bound, "graphs": not plan.vendor}
    assert solve_in_graphs(cp, S, cp.asarray(b), n_solves, **limits) == 0


@pytest.mark.parametrize("name", SMALL)
def test_seventy_five_thousand_applies_of_a_small_matrix_give_the_same_bits(cp, csp, name):
    M = gpuilu.ilu0(on_gpu(csp, SMALL[name]()))
    b = cp.asarray(vector(M.shape[0], np.float64))
    assert solve_in_graphs(cp, M, b, 75_000) == 0


@pytest.mark.parametrize("name", LARGE)
def test_thirty_thousand_applies_of_a_large_matrix_give_the_same_bits(cp, csp, name):
    M = gpuilu.ilu0(on_gpu(csp, LARGE[name]()))
    b = cp.asarray(vector(M.shape[0], np.float64))
    assert solve_in_graphs(cp, M, b, 30_000, per_graph=100) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_six_thousand_applies_to_blocks_in_every_dtype_give_the_same_bits(cp, csp, dtype):
    M = gpuilu.ilu0(on_gpu(csp, random(300, 0.05, 5, dtype)))
    b = cp.asarray(vector(300, dtype, nrhs=7))
    assert solve_in_graphs(cp, M, b, 6_000) == 0


def test_ten_thousand_alternating_applies_of_one_object(cp, csp):
    A = random(400, 0.03, 7)
    M = gpuilu.ilu0(on_gpu(csp, A))
    cases = []
    for trans in "NTH":
        for nrhs in (None, 3, 16):
            b = cp.asarray(vector(400, np.float64, nrhs=nrhs))
            cases.append((b, trans, M.solve(b, trans)))
    order = np.random.default_rng(8).integers(len(cases), size=10_000)
    for k in order:
        b, trans, x = cases[k]
        assert bool((M.solve(b, trans) == x).all())


def test_ten_thousand_factorisations_and_level_analyses_give_the_same(cp, csp):
    A = shuffled(grid(30, 30), 9)
    A.sort_indices()  # bare values are in canonical order
    A = on_gpu(csp, A)
    M = gpuilu.ilu0(A)
    T = M._application.factors.L
    L, U = M.L.data, M.U.data
    order = levels(T).level_order
    for k in range(10_000):
        M.update(A.data)
        assert bool((levels(T).level_order == order).all())
        if k % 100 == 0:
            assert bool((M.L.data == L).all())
            assert bool((M.U.data == U).all())


def test_solves_beside_a_saturating_kernel_give_the_same_bits(cp, csp):
    M = gpuilu.ilu0(on_gpu(csp, grid(200, 200)))
    b = cp.asarray(vector(40_000, np.float64))
    x = M @ b
    busy, stream = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with busy:
        a = cp.random.default_rng(0).random((4096, 4096))
    cp.cuda.Device().synchronize()
    for _ in range(50):
        with busy:
            for _ in range(4):
                a @ a
        with stream:
            results = [M @ b for _ in range(20)]
        stream.synchronize()
        assert all(bool((r == x).all()) for r in results)
    cp.cuda.Device().synchronize()


def test_many_objects_on_many_threads_and_streams_give_the_same_bits(cp, csp):
    objects = [gpuilu.ilu0(on_gpu(csp, random(200 + 50 * k, 0.05, k))) for k in range(6)]
    vectors = [cp.asarray(vector(M.shape[0], np.float64)) for M in objects]
    expected = [M @ b for M, b in zip(objects, vectors, strict=True)]
    cp.cuda.Device().synchronize()
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with cp.cuda.Stream(non_blocking=True) as stream:
            for _ in range(1_000):
                k = int(rng.integers(len(objects)))
                x = objects[k] @ vectors[k]
                stream.synchronize()
                if not bool((x == expected[k]).all()):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_a_thousand_random_matrices_have_a_small_backward_error(cp, csp, dtype):
    rng = np.random.default_rng(10)
    for seed in range(1_000):
        n = int(rng.integers(1, 80))
        T = sp.tril(random(n, float(rng.uniform(0, 0.5)), seed, dtype), format="csr")
        b = vector(n, dtype, seed)
        x = gpuilu.TriangularSolver(on_gpu(csp, T), algorithm="row").solve(cp.asarray(b))
        assert backward_error(T, x.get(), b) <= LIMIT
