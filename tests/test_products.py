"""y = d z + w (alpha b + beta A x), sparse and dense, with every set of terms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from cases import DTYPES, random_values

from gpuilu.backend import cuda
from gpuilu.products import Dense, Product

TERMS = "bwdz"
SETS = [given for k in range(5) for given in itertools.combinations(TERMS, k)]


def rectangular(n, m, dtype, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, m), density=0.3, rng=rng, format="csr")
    A.data = random_values(rng, A.nnz, dtype)
    return A.astype(dtype)


def product(A, device):
    arrays = (A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data)
    return Product(*(cuda.placed(a, device) for a in arrays), A.shape[1])


@pytest.fixture
def place(device):
    return "cpu" if device == "cpu" else "cuda:0"


@pytest.mark.parametrize("given", SETS, ids="".join)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dense", [False, True])
def test_a_product_and_the_terms_beside_it(dense, dtype, given, place):
    A, rng = rectangular(23, 17, dtype), np.random.default_rng(1)
    x, y = random_values(rng, 17, dtype), np.full(23, np.nan, dtype)
    terms = {name: random_values(rng, 23, dtype) for name in given}
    moved = {name: cuda.placed(a, place) for name, a in terms.items()}
    M = Dense(cuda.placed(A.toarray(), place)) if dense else product(A, place)
    y = cuda.placed(y, place)
    M.combine(y, cuda.placed(x, place), alpha=0.5, beta=-2.0, **moved)
    expected = -2 * (A @ x) + 0.5 * terms.get("b", 0)
    expected = terms.get("w", 1) * expected + terms.get("d", 1) * terms.get("z", 0)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(cuda.placed(y, "cpu"), expected, atol=100 * eps, rtol=0)


def test_a_residual_and_a_correction_in_place(place):
    A, b = rectangular(30, 30, float), np.arange(30.0)
    x, y = cuda.placed(np.linspace(0, 1, 30), place), cuda.placed(b.copy(), place)
    M = product(A, place)
    M.residual(y, x, y)
    r = b - A @ np.linspace(0, 1, 30)
    np.testing.assert_allclose(cuda.placed(y, "cpu"), r, atol=1e-13)
    M.combine(y, x, z=y)
    np.testing.assert_allclose(cuda.placed(y, "cpu"), b, atol=1e-13)


def test_no_rows_no_columns_and_no_entries(place):
    for shape in ((0, 3), (3, 0), (3, 3)):
        M, y = product(sp.csr_array(shape), place), cuda.placed(np.full(shape[0], 7.0), place)
        M.combine(y, cuda.placed(np.ones(shape[1]), place))
        assert not cuda.placed(y, "cpu").any()


def test_nan_and_infinity_propagate_along_their_columns(place):
    A = sp.csr_array([[1.0, 0, 0], [1, 1, 0], [0, 0, 1]])
    y = cuda.placed(np.zeros(3), place)
    product(A, place).combine(y, cuda.placed(np.array([np.nan, 1.0, np.inf]), place))
    assert np.isnan(cuda.placed(y, "cpu")).tolist() == [True, True, False]
    assert cuda.placed(y, "cpu")[2] == np.inf


def test_the_matrix_comes_back(place):
    A = rectangular(9, 11, float)
    back = product(A, place).to_matrix()
    back = back if place == "cpu" else back.get()
    np.testing.assert_array_equal(back.toarray(), A.toarray())
