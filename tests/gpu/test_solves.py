"""Triangular solves on the GPU: every dispatch, marks in the input, equal bits over repeats."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import forced, skipped_where_refused, suited
from gpu_cases import CASES, DTYPES, grid, mesh, on_gpu, random, vector
from reference import backward_error, op

import gpuilu
from gpuilu.dag import levels
from gpuilu.trsv import blocked, strips_grow
from gpuilu.trsv import row as row_module
from gpuilu.trsv.base import algorithms

ALGORITHMS = sorted(name for name, device in algorithms() if device == "cuda")
REPEATABLE = [name for name in ALGORITHMS if algorithms()[name, "cuda"].deterministic]
LIMIT = 4


def error_of(T, x, b):
    return backward_error(T, x.get(), b)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", CASES)
def test_every_case_form_and_width_has_a_small_backward_error(cp, csp, name, dtype, algorithm):
    A = CASES[name](dtype)
    for lower, T in ((True, sp.tril(A)), (False, sp.triu(A))):
        with skipped_where_refused(algorithm, "cuda"):
            S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, **forced(algorithm, "cuda"))
        for trans in "NTH":
            for nrhs in (None, 1, 3, 8):
                b = vector(A.shape[0], dtype, nrhs=nrhs)
                x = S.solve(cp.asarray(b), trans)
                assert isinstance(x, cp.ndarray)
                assert error_of(op(sp.csr_array(T), trans), x, b) <= LIMIT
                if algorithm in REPEATABLE and not algorithms()[algorithm, "cuda"].vendor:
                    in_place = cp.asarray(b)
                    S.solve(in_place, trans, out=in_place)
                    assert bool((in_place == x).all())


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("lanes", row_module.LANES)
def test_every_dispatch_of_the_row_kernel_is_right(cp, csp, monkeypatch, lanes, dtype, unit):
    monkeypatch.setattr(row_module, "_lanes", lambda P, n_levels: lanes)
    T = sp.tril(random(700, 0.02, 9, dtype), format="csr")
    S = gpuilu.TriangularSolver(on_gpu(csp, T), unit_diagonal=unit, algorithm="row")
    full = sp.csr_array(sp.tril(T, -1) + sp.eye_array(700)).astype(dtype) if unit else T
    for nrhs in (None, 2, 5, 16):
        b = vector(700, dtype, nrhs=nrhs)
        x = S.solve(cp.asarray(b))
        assert error_of(full, x, b) <= LIMIT
        if nrhs:
            column = S.solve(cp.asarray(b[:, 1]))
            assert np.array_equal(x.get()[:, 1], column.get())


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("at_once", [blocked.SHARED_OUT, blocked.AT_ONCE[1]])
@pytest.mark.parametrize("K", blocked.WIDTHS["d"])
def test_every_dispatch_of_the_strips_is_right(cp, csp, monkeypatch, K, at_once, dtype, unit):
    if K not in blocked.WIDTHS[np.dtype(dtype).char]:
        pytest.skip("no kernel for this number of near entries")
    monkeypatch.setattr(blocked, "WIDTHS", {np.dtype(dtype).char: (K,)})
    monkeypatch.setattr(blocked, "FEWEST_ROWS", 50)
    monkeypatch.setattr(blocked, "_far_at_once", lambda info: at_once)
    for A in (random(700, 0.02, 9, dtype), grid(40, 50, dtype=dtype)):
        T = sp.tril(A, format="csr")
        S = gpuilu.TriangularSolver(on_gpu(csp, T), unit_diagonal=unit, algorithm="blocked")
        full = sp.csr_array(sp.tril(T, -1) + sp.eye_array(T.shape[0]))
        for nrhs in (None, 2, 5, 16):
            b = vector(T.shape[0], dtype, nrhs=nrhs)
            x = S.solve(cp.asarray(b))
            assert error_of(full.astype(dtype) if unit else T, x, b) <= LIMIT
            if nrhs:
                column = S.solve(cp.asarray(b[:, 1]))
                assert np.array_equal(x.get()[:, 1], column.get())


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", ["grid", "random"])
def test_x_put_in_order_while_strips_are_at_work_is_complete(
    cp, csp, monkeypatch, name, dtype, copies
):
    A = grid(300, 400, dtype=dtype) if name == "grid" else random(20_000, 2e-4, 9, dtype)
    may_copy = blocked._copied
    monkeypatch.setattr(blocked, "STRIPS", (200,))  # more than there are multiprocessors
    monkeypatch.setattr(blocked, "MOST_COLUMNS", 1)
    monkeypatch.setattr(blocked, "_affordable", lambda *_: True)
    monkeypatch.setattr(
        blocked, "_copied", lambda info, n, d: copies and may_copy(info, 32 * len(info), d)
    )
    n = A.shape[0]
    b = vector(n, dtype)
    for lower, T in ((True, sp.tril(A)), (False, sp.triu(A))):
        S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, algorithm="blocked")
        forms = S._application._L if lower else S._application._U
        assert forms.plan("N").leaves(1)
        x = S.solve(cp.asarray(b))
        assert error_of(sp.csr_array(T), x, b) <= LIMIT
        for _ in range(20):
            in_place = cp.asarray(b)
            S.solve(in_place, out=in_place)
            assert bool((S.solve(cp.asarray(b)) == x).all())
            assert bool((in_place == x).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("deepest", "rows"), [(5, 20), (128, 768)])
def test_solves_in_grown_strips_are_right_and_repeatable(
    cp, csp, monkeypatch, deepest, rows, dtype
):
    monkeypatch.setattr(strips_grow, "DEEPEST", deepest)
    monkeypatch.setattr(strips_grow, "MEAN_ROWS", rows)
    monkeypatch.setattr(blocked, "predicted", lambda P, _: (0.0, strips_grow.grow(P, levels(P))))
    A = mesh(60_000, dtype)
    for lower, T in ((True, sp.tril(A)), (False, sp.triu(A))):
        S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, algorithm="blocked")
        for nrhs in (None, 3):
            b = vector(A.shape[0], dtype, nrhs=nrhs)
            x = S.solve(cp.asarray(b))
            assert error_of(sp.csr_array(T), x, b) <= LIMIT
            for _ in range(20):
                assert bool((S.solve(cp.asarray(b)) == x).all())


@pytest.mark.parametrize("vector_dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("factor_dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_pair_of_factor_and_vector_dtypes(cp, csp, factor_dtype, vector_dtype):
    T = sp.tril(random(200, 0.05, 1, factor_dtype), format="csr")
    b = vector(200, vector_dtype)
    x = gpuilu.TriangularSolver(on_gpu(csp, T)).solve(cp.asarray(b))
    assert x.dtype == np.result_type(factor_dtype, vector_dtype)
    assert error_of(T.astype(x.dtype), x, b) <= LIMIT


def test_long_rows_are_cut_and_still_exact(cp, csp):
    T = sp.tril(CASES["wide rows"](np.float64), format="csr")
    S = gpuilu.TriangularSolver(on_gpu(csp, T), algorithm="row")
    assert len(S._application._L.plan("N")._row) > 3000
    b = vector(3000, np.float64, nrhs=2)
    assert error_of(T, S.solve(cp.asarray(b)), b) <= LIMIT


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("algorithm", ["row"])
def test_nan_inf_and_the_mark_itself_propagate(cp, csp, dtype, algorithm):
    L = sp.csr_array(np.array([[1, 0, 0], [-1.0, 1, 0], [0, 0, 1]])).astype(dtype)
    S = gpuilu.TriangularSolver(on_gpu(csp, L), algorithm=algorithm)
    word = np.uint64 if dtype == np.float64 else np.uint32
    quiet = np.array(np.nan, dtype).view(word)
    for bits in (np.iinfo(word).max, np.iinfo(word).max >> 1, quiet):
        b = np.array([0, 1, 5], dtype)
        b.view(word)[0] = bits
        x = S.solve(cp.asarray(b)).get()
        assert np.isnan(x).tolist() == [True, True, False]
        assert x[2] == 5
    x = S.solve(cp.asarray(np.array([-np.inf, 1, 5], dtype))).get()
    assert x.tolist() == [-np.inf, -np.inf, 5]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_the_mark_in_either_half_of_a_complex_number_propagates(cp, csp, dtype):
    L = sp.csr_array(np.array([[1, 0], [-1.0, 1]])).astype(dtype)
    S = gpuilu.TriangularSolver(on_gpu(csp, L), algorithm="row")
    word = np.uint64 if dtype == np.complex128 else np.uint32
    for halves in ([0], [1], [0, 1]):
        b = np.array([1 + 1j, 1], dtype)
        b.view(word)[halves] = np.iinfo(word).max
        assert np.isnan(S.solve(cp.asarray(b)).get()).all()


def test_subnormal_and_huge_diagonals_are_divided_by_exactly(cp, csp):
    for dtype in (np.float64, np.float32):
        tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
        d = np.array([tiny, huge, 3, 7, np.finfo(dtype).tiny], dtype)
        S = gpuilu.TriangularSolver(on_gpu(csp, sp.diags_array(d).tocsr()), algorithm="row")
        assert S.solve(cp.asarray(d)).get().tolist() == [1, 1, 1, 1, 1]


def test_a_zero_on_the_diagonal_gives_inf_and_does_not_hang(cp, csp):
    T = sp.csr_array((np.array([0.0, 1, 1]), [0, 0, 1], [0, 1, 3]))
    x = gpuilu.TriangularSolver(on_gpu(csp, T)).solve(cp.ones(2)).get()
    assert x.tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("n", [2, 31, 32, 33, 1023, 1024, 1025, 2_000_000])
@pytest.mark.parametrize("lower", [True, False])
def test_a_chain_counts_up_to_n(cp, csp, n, lower):
    one, minus = cp.ones(n), -cp.ones(n)
    T = csp.diags([minus[: n - 1], one], [-1 if lower else 1, 0], format="csr")
    x = gpuilu.TriangularSolver(T, lower=lower, algorithm="row").solve(cp.ones(n))
    expected = cp.arange(1, n + 1)
    assert bool((x == (expected if lower else expected[::-1])).all())


@pytest.mark.parametrize("algorithm", REPEATABLE)
def test_repeats_give_the_same_bits(cp, csp, algorithm):
    A = grid(64, 64)
    order = np.random.default_rng(3).permutation(4096)
    A = suited(algorithm, "cuda", A[order][:, order])
    M = gpuilu.ilu0(on_gpu(csp, A), algorithm=algorithm)
    b = cp.asarray(vector(4096, np.float64))
    first = M @ b
    for _ in range(200):
        assert bool((M @ b == first).all())


def test_a_million_unknowns_agree_with_the_cpu(cp, csp):
    A = grid(1024, 1024)
    b = vector(A.shape[0], np.float64)
    x = gpuilu.ilu0(on_gpu(csp, A)) @ cp.asarray(b)
    y = gpuilu.ilu0(A, device="cpu") @ b
    assert np.linalg.norm(x.get() - y) <= 1e-13 * np.linalg.norm(y)
