"""Products with sparse and dense matrices on the emulator: all lanes, dtypes and sets of terms."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from emulated import Device, needs_compiler
from emulator_systems import values

from gpuilu import amg, products
from gpuilu.relaxation import gauss_seidel
from gpuilu.trsv import row

pytestmark = needs_compiler

DTYPES = ["f", "d", "F", "D"]
TERMS = "bwdz"


def rectangular(n, m, per_row, dtype, rng):
    A = sp.random_array((n, m), density=min(1.0, per_row / m), rng=rng).tocsr()
    A.data = values(A.nnz, dtype, rng)
    return A


def bound(A, x, vectors, alpha, beta):
    """eps (terms of a row + 4) times the sum of the absolute values of all terms."""
    b, w, d, z = (None if v is None else abs(v) for v in vectors)
    total = abs(beta) * (abs(A) @ abs(x))
    total += 0 if b is None else abs(alpha) * b
    total *= 1 if w is None else w
    total += 0 if z is None else z * (1 if d is None else d)
    per_row = max(np.diff(A.indptr)) + 4
    return 2 * per_row * np.finfo(A.dtype).eps * total


def check(A, lanes, given, seed):
    rng = np.random.default_rng(seed)
    n, m = A.shape
    x, y = values(m, A.dtype, rng), np.full(n, np.nan, A.dtype)
    vectors = [values(n, A.dtype, rng) if name in given else None for name in TERMS]
    b, w, d, z = vectors
    alpha, beta = 0.75, -1.5
    matrix = (A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data)
    expected = beta * (A @ x) + (0 if b is None else alpha * b)
    expected = expected * (1 if w is None else w)
    expected = expected + (0 if z is None else z * (1 if d is None else d))
    with (
        Device(seed=seed, resident=4),
        mock.patch.object(products, "lanes_for", return_value=lanes),
    ):
        products._combine_cuda(*matrix, x, alpha, beta, b, w, d, z, y)
    assert (abs(y - expected) <= bound(A, x, vectors, alpha, beta)).all()
    dense, y = A.toarray(), np.full(n, np.nan, A.dtype)
    with Device(seed=seed, resident=4):
        products._combine_dense_cuda(dense, x, alpha, beta, b, w, d, z, y)
    assert (abs(y - expected) <= m * bound(A, x, vectors, alpha, beta)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", products.LANES)
def test_every_instantiation_multiplies(dtype, lanes):
    for seed, n in enumerate((1, 31, 33, 70)):
        A = rectangular(n, 40 + seed, lanes, dtype, np.random.default_rng(seed))
        check(A, lanes, TERMS, seed)


@pytest.mark.parametrize("count", range(len(TERMS) + 1))
def test_every_set_of_terms_is_added(count):
    for seed, given in enumerate(itertools.combinations(TERMS, count)):
        check(rectangular(50, 60, 5, "d", np.random.default_rng(seed)), 4, given, seed)


def test_rows_are_multiplied_under_200_seeds():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(1, 80, 2)
        lanes = products.LANES[seed % len(products.LANES)]
        check(rectangular(n, m, 1 + seed % 20, "d", rng), lanes, TERMS, seed)


def test_the_result_may_replace_an_added_vector():
    A = rectangular(50, 60, 5, "d", np.random.default_rng(1))
    rng = np.random.default_rng(2)
    x, y = rng.random(60), rng.random(50)
    expected = y + 2 * y - A @ x
    with Device(seed=3, resident=4):
        matrix = (A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data)
        products._combine_cuda(*matrix, x, 2.0, -1.0, y, None, None, y, y)
    np.testing.assert_allclose(y, expected, rtol=1e-13)


def test_an_empty_row_gives_the_added_terms_alone():
    A = sp.csr_array((20, 30))
    b, y = np.arange(20.0), np.full(20, np.nan)
    with Device(seed=1):
        matrix = (np.zeros(21, np.int32), np.zeros(0, np.int32), A.data)
        products._combine_cuda(*matrix, np.ones(30), 1.0, -1.0, b, None, None, None, y)
    np.testing.assert_array_equal(y, b)


@pytest.mark.parametrize(("mean", "lanes"), [(0, 1), (1, 1), (2, 2), (3, 2), (5, 4), (7, 4)])
def test_short_rows_get_few_lanes(mean, lanes):
    assert products.lanes_for(mean) == lanes


@pytest.mark.parametrize(("mean", "lanes"), [(27, 16), (33, 32), (5000, 32)])
def test_long_rows_get_many_lanes(mean, lanes):
    assert products.lanes_for(mean) == lanes


SYMMETRIC = ("gauss_seidel", {"sweep": "symmetric"})


@pytest.mark.parametrize("smoother", [SYMMETRIC, "jacobi", "chebyshev", "block_jacobi"], ids=str)
@pytest.mark.parametrize("cycle", ["V", "W", "F"])
def test_whole_multigrid_cycles_give_pyamgs_residuals(cycle, smoother):
    pyamg = pytest.importorskip("pyamg")
    np.random.seed(0)  # noqa: NPY002
    A, B = pyamg.gallery.linear_elasticity((5, 6), format="bsr")
    ml = pyamg.smoothed_aggregation_solver(A, B=B, max_coarse=4)
    pyamg.relaxation.smoothing.change_smoothers(ml, smoother, smoother)
    b = np.random.default_rng(1).random(A.shape[0])
    expected, found = [], []
    ml.solve(b, tol=1e-30, maxiter=3, cycle=cycle, residuals=expected)
    by_row = mock.patch.object(gauss_seidel, "plan_for", lambda T, *_: row.Row(T))
    kernels = {"_combine": products._combine_cuda, "_combine_dense": products._combine_dense_cuda}
    with Device(seed=2) as used, by_row, mock.patch.multiple(products, **kernels):
        moved = amg.to_gpu(ml, device="cpu", dense_rows=20)
        moved.solve(b, tol=1e-30, maxiter=3, cycle=cycle, residuals=found)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert any(name.startswith("row_solve") for name in used.launched) == (smoother is SYMMETRIC)
    assert {"row_products<double,16>", "dense_products<double>"} <= set(used.launched)
