"""The operator on the GPU: arrays in and out, streams, graphs, updates, memory, solvers."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
import scipy.sparse.linalg as spla
from gpu_cases import grid, on_gpu, random, vector

import gpuilu

N = 60 * 60


@pytest.fixture
def A(csp):
    return on_gpu(csp, grid(60, 60))


@pytest.fixture
def M(A):
    return gpuilu.ilu0(A)


@pytest.fixture
def b(cp):
    return cp.asarray(vector(N, np.float64))


def assert_close(x, y):
    assert np.linalg.norm(x - y) <= 1e-13 * np.linalg.norm(y)


def same(x, y):
    return bool((x == y).all())


def test_numpy_in_numpy_out_and_cupy_in_cupy_out_wherever_the_factors_are(cp, M, b):
    host = gpuilu.ilu0(grid(60, 60), device="cpu")
    x = M @ b
    assert isinstance(M @ b.get(), np.ndarray)
    assert np.array_equal(M @ b.get(), x.get())
    assert isinstance(host @ b, cp.ndarray)
    assert_close((host @ b).get(), x.get())


def test_a_cupyx_matrix_stays_on_its_gpu_and_a_small_scipy_one_on_the_cpu(M):
    assert M.info.device == "cuda:0"
    assert gpuilu.ilu0(grid(60, 60)).info.device == "cpu"
    assert gpuilu.ilu0(grid(400, 300)).info.device == "cuda:0"


def test_a_torch_vector_is_taken_over(cp, M, b):
    torch = pytest.importorskip("torch")
    assert same(M @ torch.as_tensor(b, device="cuda"), M @ b)


def test_results_are_fresh_and_b_is_never_changed(cp, M, b):
    before = b.copy()
    r1, r2 = M @ b, M @ b
    assert r1.data.ptr != r2.data.ptr
    assert same(b, before)


def test_any_layout_of_b_and_out_gives_the_same_bits(cp, M):
    B = cp.asarray(vector(N, np.float64, nrhs=4))
    X = M @ B
    wide = cp.zeros((N, 9))
    wide[:, 1:5] = B
    for view in (cp.asfortranarray(B), wide[:, 1:5], B[::-1].copy()[::-1]):
        assert same(M @ view, X)
    assert same(M @ B[:, 2], X[:, 2])
    out = wide[:, 2:6]
    M.solve(B, out=out)
    assert same(out, X)
    assert same(wide[:, 6:], 0)
    F = cp.zeros((N, 4), order="F")
    assert M.solve(B, out=F) is F
    assert same(F, X)


def test_out_may_be_b_or_overlap_it(cp, M, b):
    x = M @ b
    inplace = b.copy()
    assert M.solve(inplace, out=inplace) is inplace
    assert same(inplace, x)
    long = cp.zeros(N + 10)
    long[:N] = b
    M.solve(long[:N], out=long[10:])
    assert same(long[10:], x)


def test_wrong_out_and_wrong_b_are_refused(cp, M, b):
    with pytest.raises(gpuilu.ShapeMismatchError):
        M.solve(b, out=np.empty(N))
    with pytest.raises(gpuilu.UnsupportedDtypeError):
        M.solve(b, out=cp.empty(N, np.float32))
    with pytest.raises(gpuilu.ShapeMismatchError):
        M @ b[:-1]


def test_update_reaches_all_forms_and_a_failed_one_changes_nothing(cp, A, M, b):
    old = {trans: M.solve(b, trans) for trans in "NTH"}
    M.update(A * 2)
    for trans in "NTH":
        assert same(M.solve(b, trans) * 2, old[trans])
    M.update(A.data)
    assert same(M @ b, old["N"])
    M.update(A.data.get() * 4)
    assert same((M @ b) * 4, old["N"])
    with pytest.raises(gpuilu.ZeroPivotError):
        M.update(A * 0)
    assert same((M @ b) * 4, old["N"])
    with pytest.raises(gpuilu.PatternMismatchError):
        M.update(A @ A)


def test_two_streams_share_an_object(cp, M, b):
    x, streams = M @ b, [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    cp.cuda.Device().synchronize()
    results = []
    for k in range(200):
        with streams[k % 3]:
            results.append(M.solve(b))
    cp.cuda.Device().synchronize()
    assert all(same(r, x) for r in results)


def test_two_threads_share_an_object_on_one_stream_and_on_their_own(cp, M, b):
    x, wrong = M @ b, []
    cp.cuda.Device().synchronize()

    def work(own_stream):
        stream = cp.cuda.Stream(non_blocking=True) if own_stream else cp.cuda.Stream.null
        with stream:
            for _ in range(100):
                r = M @ b
                stream.synchronize()
                if not same(r, x):
                    wrong.append(own_stream)
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(k > 1,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_update_comes_after_the_applies_in_flight_on_another_stream(cp, csp):
    big = on_gpu(csp, grid(300, 300))
    M, b = gpuilu.ilu0(big), cp.ones(90000)
    x = M @ b
    one, two = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with one:
        before = [M @ b for _ in range(20)]
    with two:
        M.update(big * 2)
    with one:
        after = M @ b
    cp.cuda.Device().synchronize()
    assert all(same(r, x) for r in before)
    assert same(after * 2, x)


def test_a_captured_solve_replays_with_new_values_and_after_an_update(cp, A, M, b):
    out, stream = cp.empty(N), cp.cuda.Stream(non_blocking=True)
    M.solve(b, out=out)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        M.solve(b, out=out)
        graph = stream.end_capture()
    for k in range(100):
        b[...] = cp.asarray(vector(N, np.float64, seed=k))
        cp.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert same(out, M @ b)
    M.update(A * 2)
    cp.cuda.Device().synchronize()
    graph.launch(stream)
    stream.synchronize()
    assert same(out, M @ b)
    M.check()


def test_two_graphs_of_one_object_run_at_once(cp, M, b):
    x = M @ b
    outs = [cp.empty(N) for _ in range(2)]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    graphs = []
    cp.cuda.Device().synchronize()
    for out, stream in zip(outs, streams, strict=True):
        with stream:
            stream.begin_capture()
            for _ in range(5):
                M.solve(b, out=out)
            graphs.append(stream.end_capture())
    for _ in range(20):
        for graph, stream in zip(graphs, streams, strict=True):
            graph.launch(stream)
    cp.cuda.Device().synchronize()
    assert all(same(out, x) for out in outs)


def test_what_a_graph_cannot_hold_raises_during_the_capture(cp, A, b):
    M, out = gpuilu.ilu0(A), cp.empty(N)
    M.solve(b, out=out)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for forbidden in (
            lambda: M.solve(b, "T", out=out),
            lambda: M.solve(np.ones(N)),
            lambda: M.update(A.data),
        ):
            with pytest.raises(gpuilu.CaptureError):
                forbidden()
        stream.end_capture()
    M.prepare("T")
    assert same(M.solve(b, "T"), M.T @ b)


def test_a_launch_that_makes_no_progress_raises_and_the_next_one_is_right(cp, A, b):
    M = gpuilu.ilu0(A, algorithm="row")
    x, plan = M @ b, M._application._L.plan("N")
    kept = plan._indices.copy()
    plan._indices[...] = N - 1  # every row waits for the last
    y = M @ b
    with pytest.raises(gpuilu.SolveStalledError, match="no progress"):
        M.check()
    assert bool(cp.isnan(y).any())
    M @ b
    cp.cuda.Device().synchronize()
    with pytest.raises(gpuilu.SolveStalledError):
        M @ b
    with pytest.raises(gpuilu.SolveStalledError):
        M @ b.get()
    plan._indices[...] = kept
    assert same(M @ b, x)


def test_steady_state_allocates_only_the_result(cp, M, b):
    pool = cp.get_default_memory_pool()
    M @ b
    used = pool.used_bytes()
    r = M @ b
    assert pool.used_bytes() - used == -(-r.nbytes // 512) * 512


def test_five_hundred_objects_and_updates_leave_the_pool_as_it_was(cp, A, b):
    pool = cp.get_default_memory_pool()
    del_me = gpuilu.ilu0(A) @ b
    del del_me
    used = pool.used_bytes()
    for _ in range(500):
        gpuilu.ilu0(A) @ b
    assert pool.used_bytes() == used
    M = gpuilu.ilu0(A)
    M @ b
    used = pool.used_bytes()
    for _ in range(500):
        M.update(A.data)
    assert pool.used_bytes() == used


def test_running_out_of_memory_raises_and_a_retry_works(cp, csp):
    pool = cp.get_default_memory_pool()
    big = on_gpu(csp, grid(200, 200))
    M, b = gpuilu.ilu0(big), cp.ones(40000)
    x = M @ b
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + 512)
    try:
        with pytest.raises(cp.cuda.memory.OutOfMemoryError):
            M.solve(cp.ones((40000, 1)).repeat(1, axis=1).repeat(64, axis=1))
    finally:
        pool.set_limit(size=0)
    assert same(M @ b, x)


@pytest.mark.parametrize("shape", [(200, 200), (30, 30, 30)])
def test_memory_is_at_most_three_times_the_factors(cp, csp, shape):
    M = gpuilu.ilu0(on_gpu(csp, grid(*shape)))
    M @ cp.ones(M.shape[0])
    n = M.shape[0]
    factors = sum(12 * T.nnz + 4 * (n + 1) for T in M._application.factors.triangles)
    assert M.nbytes <= 3 * factors


def test_pickle_copy_and_moves_give_the_same_operator(cp, M, b):
    x = M @ b
    assert same(pickle.loads(pickle.dumps(M)) @ b, x)
    assert same(M.copy() @ b, x)
    assert same(pickle.loads(pickle.dumps(M.H)) @ b, M.H @ b)
    host = M.to("cpu")
    assert host.info.device == "cpu"
    assert host.info.algorithm == "serial"
    assert_close(host @ b.get(), x.get())
    assert same(host.to("cuda") @ b, x)
    assert M.to("cuda:0") is M


def test_factors_multiply_to_the_matrix_on_its_pattern(A, M):
    product, mask = M.L @ M.U, A.copy()
    mask.data[...] = 1
    assert abs(product.multiply(mask) - A).max() <= 1e-15
    form = M.H.L @ M.H.U
    assert abs(form - product.T).max() <= 1e-15


def test_products_with_sparse_matrices_are_operators(cp, A, M, b):
    assert bool(cp.allclose((A @ M).matvec(b), A @ (M @ b)))
    assert bool(cp.allclose((M @ A).matvec(b), M @ (A @ b)))


def test_superlu_factors_solve_in_all_forms(cp):
    lu = spla.splu(random(100, 0.05, 5).tocsc())
    F = gpuilu.from_factors(lu, device="cuda")
    b = vector(100, np.float64)
    for trans in "NTH":
        assert_close(F.solve(cp.asarray(b), trans).get(), lu.solve(b, trans))


def test_composed_sweeps_equal_those_of_the_cpu(cp, A, b):
    for trans in "NTH":
        x = gpuilu.gauss_seidel(A, iterations=3).solve(b, trans).get()
        y = gpuilu.gauss_seidel(grid(60, 60), iterations=3).solve(b.get(), trans)
        assert_close(x, y)


@pytest.mark.parametrize("name", ["cg", "gmres", "bicgstab", "cgs", "minres"])
def test_cupyx_solvers_converge_faster_with_m(cp, A, M, b, name):
    import cupyx.scipy.sparse.linalg as linalg

    solver, counts = getattr(linalg, name), []
    for P in (None, M):
        calls = []
        solver(A, b, M=P, callback=calls.append)
        counts.append(len(calls))
    assert counts[1] < counts[0]


def test_cg_takes_as_many_iterations_as_on_the_cpu(cp, csp):
    import cupyx.scipy.sparse.linalg as linalg

    A = grid(200, 200)
    b = np.ones(40000)
    mine, theirs = [], []
    spla.cg(A, b, rtol=1e-8, M=gpuilu.ilu0(A, device="cpu"), callback=mine.append)
    G = on_gpu(csp, A)
    linalg.cg(G, cp.asarray(b), rtol=1e-8, M=gpuilu.ilu0(G), callback=theirs.append)
    assert abs(len(mine) - len(theirs)) <= 2
