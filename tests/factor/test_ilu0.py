"""ILU(0): literals, the plain loops bit for bit, and (L U)_ij = a_ij on the pattern, its law."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import gpuilu
from gpuilu.csr import canonical
from gpuilu.errors import MissingDiagonalError, OptionError
from gpuilu.factor.ilu0 import ILU0

DTYPES = ["f", "d", "F", "D"]
T3 = sp.csr_array(np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]]))


def stored(entries, n, dtype=np.float64):
    """The n x n csr_array that stores {(i, j): value}, explicit zeros too."""
    i, j = zip(*entries, strict=True)
    return sp.coo_array((np.array(list(entries.values()), dtype), (i, j)), shape=(n, n)).tocsr()


def factors(A, **options):
    recipe = ILU0(canonical(A), **options)
    return recipe.factorize(A)


def packed(F):
    """L below the diagonal and U on and above it, dense."""
    assert F.L.unit_diagonal
    return np.tril(F.L.to_csr().toarray(), -1) + F.U.to_csr().toarray()


def pattern_residual(A, F):
    """max over the pattern of |(L U - A)_ij| / ((terms + 1) eps (|L| |U|)_ij)."""
    P, eps = reference.pattern(A), np.finfo(F.U.dtype).eps
    wide = np.clongdouble if F.U.dtype.kind == "c" else np.longdouble
    L, U = (T.to_csr().toarray().astype(wide) for T in (F.L, F.U))
    terms = np.tril(P).astype(int) @ np.triu(P).astype(int)
    residual = abs(L @ U - A.toarray())[P]
    scale = (abs(L) @ abs(U) * (terms + 1) * eps)[P]
    return np.max(residual / np.where(scale > 0, scale, 1), initial=0)


def assert_pattern_is_kept(A, F):
    """L has the strict lower pattern of A, U the upper one, explicit zeros included."""
    P = reference.pattern(A)
    assert_array_equal(reference.pattern(F.L.to_csr()), np.tril(P, -1) | np.eye(len(P), dtype=bool))
    assert_array_equal(reference.pattern(F.U.to_csr()), np.triu(P))


# ---- literals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_factors_of_a_tridiagonal_matrix_are_those_found_by_hand(dtype):
    F = factors(T3.astype(dtype))
    expected = [[4, -1, 0], [-1 / 4, 15 / 4, -1], [0, -4 / 15, 56 / 15]]
    assert_allclose(packed(F), expected, rtol=4 * np.finfo(dtype).eps)
    assert F.L.dtype == F.U.dtype == dtype


def test_one_apply_to_a_tridiagonal_system_gives_the_solution_found_by_hand():
    x = gpuilu.ilu0(T3).matvec(np.array([1.0, 2, 3]))
    assert_allclose(x, [0.4642857142857, 0.8571428571429, 0.9642857142857], rtol=1e-12)


def test_an_inserted_diagonal_zero_takes_part_in_the_elimination():
    B = sp.csr_array(np.array([[2.0, 1, 0], [1, 0, 1], [0, 1, 2]]))
    with pytest.raises(MissingDiagonalError) as caught:
        factors(B)
    assert caught.value.row == 1
    F = factors(B, missing_diagonal="insert")
    assert_array_equal(packed(F), [[2, 1, 0], [0.5, -0.5, 1], [0, -2, 4]])


def test_an_explicit_zero_on_the_diagonal_that_elimination_fills_is_no_error():
    F = factors(stored({(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 0}, 2))
    assert_array_equal(packed(F), [[1, 1], [1, -1]])


def test_explicit_zeros_off_the_diagonal_take_fill():
    entries = {(i, j): T3[i, j] for i in range(3) for j in range(3)}
    F = factors(stored({**entries, (0, 2): 0.0, (2, 0): 0.0, (0, 1): 2.0, (1, 0): 2.0}, 3))
    assert_array_equal(packed(F), [[4, 2, 0], [0.5, 3, -1], [0, -1 / 3, 4 - 1 / 3]])
    upper = {(0, 0): 2, (0, 1): 4, (0, 2): 2, (1, 1): 1, (1, 2): 0, (2, 2): 1}
    F = factors(stored({**upper, (1, 0): 6}, 3))
    assert_array_equal(packed(F), [[2, 4, 2], [3, -11, -6], [0, 0, 1]])


def test_what_falls_outside_the_pattern_is_dropped():
    A = np.array([[2.0, 4, 0], [6, 1, 5], [8, 0, 3]])
    assert_array_equal(packed(factors(sp.csr_array(A))), [[2, 4, 0], [3, -11, 5], [4, 0, 3]])


@pytest.mark.parametrize("n", [2, 33, 65, 129, 257, 513, 1025, 5000])
def test_an_arrow_with_a_full_first_row_keeps_its_pattern(n):
    k = np.arange(1, n)
    rows, cols = np.concatenate([[0], 0 * k, k, k]), np.concatenate([[0], k, 0 * k, k])
    data = np.concatenate([[n], np.ones(2 * (n - 1)), np.full(n - 1, n)]).astype(float)
    F = factors(sp.csr_array((data, (rows, cols)), shape=(n, n)))
    assert_array_equal(F.L.indices, 0 * k)
    assert_array_equal(F.L.data, np.full(n - 1, 1 / n))
    assert_array_equal(F.U.indices, k)
    assert_array_equal(F.U.data, np.ones(n - 1))
    assert_array_equal(F.U.diag, np.concatenate([[n], np.full(n - 1, n - 1 / n)]))


def test_orders_zero_and_one_are_legal():
    F = factors(sp.csr_array((0, 0)))
    assert (F.L.n, F.U.n) == (0, 0)
    F = factors(sp.csr_array(np.array([[5.0]])))
    assert_array_equal(packed(F), [[5]])
    assert gpuilu.ilu0(sp.csr_array(np.array([[5.0]]))).matvec([10.0]).tolist() == [2]


def test_an_unknown_pivot_rule_is_refused():
    with pytest.raises(OptionError, match=r"pivot must be one of .*'boost'.*found 'ignore'"):
        factors(T3, pivot="ignore")


# ---- against the plain loops --------------------------------------------------------------------


def matrices(dtype):
    """Random matrices, weak and strong diagonals, explicit zeros, grids and permuted grids."""
    rng = np.random.default_rng(4)
    for n in (1, 2, 5, 16, 33):
        for density in (0.05, 0.3, 1.0):
            for diagonal in (1.5, float(n)):
                yield reference.random_matrix(rng, n, dtype, density, diagonal)
    A = reference.random_matrix(rng, 20, dtype, 0.4)
    A.data[rng.random(A.nnz) < 0.3] = 0
    A.setdiag(3)
    yield A
    A = reference.grid(6, 5).astype(dtype)
    order = rng.permutation(30)
    yield from (A, A[order][:, order])


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_real_factors_equal_the_plain_loops_bit_for_bit(dtype):
    for A in matrices(dtype):
        F = factors(A)
        assert_array_equal(packed(F), reference.ilu0(A), strict=True)
        assert_pattern_is_kept(A, F)


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_complex_factors_of_dominant_matrices_equal_the_plain_loops_to_rounding(dtype):
    rng = np.random.default_rng(5)
    for n in (1, 2, 5, 16, 33):
        A = reference.random_matrix(rng, n, dtype, 0.3, diagonal=2.0 * n)
        expected = reference.ilu0(A)
        assert_allclose(packed(factors(A)), expected, rtol=0, atol=8 * np.finfo(dtype).eps * 2 * n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_product_of_the_factors_is_the_matrix_on_its_pattern(dtype):
    for A in matrices(dtype):
        F = factors(A)
        assert pattern_residual(A, F) <= 4
        assert_pattern_is_kept(A, F)


def test_the_product_is_exact_to_rounding_on_a_small_grid():
    A = reference.grid(3, 3)
    F = factors(A)
    residual = abs(F.L.to_csr() @ F.U.to_csr() - A).toarray()[reference.pattern(A)]
    assert residual.max() <= np.finfo(float).eps


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.data())
def test_any_pattern_gives_factors_that_multiply_to_it_or_names_the_bad_row(data):
    n = data.draw(st.integers(1, 7))
    index, value = st.integers(0, n - 1), st.integers(-6, 6)
    entries = data.draw(st.dictionaries(st.tuples(index, index), value, max_size=25))
    for i in range(n):
        entries[i, i] = data.draw(value)
    A = stored(entries, n, data.draw(st.sampled_from("fd")))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = reference.ilu0(A)
    zeros = np.flatnonzero(expected.diagonal() == 0)
    if len(zeros):
        with pytest.raises(gpuilu.ZeroPivotError) as caught:
            factors(A)
        assert caught.value.row == zeros[0]
    else:
        F = factors(A)
        assert_array_equal(packed(F), expected)
        assert pattern_residual(A, F) <= 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_ilu0_of_a_matrix_without_fill_is_its_lu(dtype):
    rng = np.random.default_rng(6)
    n, eps = 40, np.finfo(dtype).eps
    arrow = reference.random_matrix(rng, n, dtype, 0.0, 4.0).toarray()
    arrow[-1, :-1], arrow[:-1, -1] = rng.uniform(-1, 1, (2, n - 1))
    band = np.tril(np.triu(reference.random_matrix(rng, n, dtype, 1.0, 4.0).toarray(), -1), 1)
    for A in (arrow, band):
        F = factors(sp.csr_array(A))
        product = F.L.to_csr().toarray() @ F.U.to_csr().toarray()
        assert_allclose(product, A, rtol=0, atol=4 * n * eps * abs(A).max())
        M = gpuilu.ilu0(sp.csr_array(A))
        assert_allclose(M.matmat(A), np.eye(n), rtol=0, atol=100 * n * eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaling_the_matrix_scales_u_and_leaves_l(dtype):
    A = reference.random_matrix(np.random.default_rng(7), 30, dtype, 0.2, 3.0)
    F = factors(A)
    for c in (4.0, -0.125):  # powers of two: exactly
        S = factors((c * A).astype(dtype))
        assert_array_equal(S.L.data, F.L.data)
        assert_array_equal(S.U.data, F.U.data * F.U.dtype.type(c))
        assert_array_equal(S.U.diag, F.U.diag * F.U.dtype.type(c))
    S = factors((A * 3).astype(dtype))
    tolerance = {"rtol": 0, "atol": 500 * np.finfo(dtype).eps}
    assert_allclose(S.L.data, F.L.data, **tolerance)
    assert_allclose(S.U.diag / 3, F.U.diag, **tolerance)


def test_the_values_given_are_not_changed_and_repeats_give_the_same_bits():
    A = reference.random_matrix(np.random.default_rng(8), 60, density=0.1)
    before = A.data.tobytes(), A.indices.tobytes(), A.indptr.tobytes()
    recipe = ILU0(canonical(A))
    first, second = recipe.factorize(A), recipe.factorize(A)
    assert packed(first).tobytes() == packed(second).tobytes()
    assert not np.shares_memory(first.U.data, second.U.data)
    assert (A.data.tobytes(), A.indices.tobytes(), A.indptr.tobytes()) == before


# ---- factors kept in another dtype --------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "narrow"), [("d", "f"), ("D", "F")])
def test_narrower_factors_are_the_full_ones_rounded_once(dtype, narrow):
    A = reference.random_matrix(np.random.default_rng(9), 40, dtype)
    full, kept = gpuilu.ilu0(A), gpuilu.ilu0(A, factor_dtype=narrow)
    assert kept.info.factor_dtype == narrow
    assert kept.dtype == dtype
    assert_array_equal(kept.L.toarray(), full.L.toarray().astype(narrow), strict=True)
    assert_array_equal(kept.U.toarray(), full.U.toarray().astype(narrow), strict=True)


@pytest.mark.parametrize(("dtype", "wide"), [("f", "d"), ("F", "D"), ("f", "D")])
def test_wider_factors_are_computed_in_the_wider_dtype(dtype, wide):
    A = reference.random_matrix(np.random.default_rng(10), 40, dtype)
    M, expected = gpuilu.ilu0(A, factor_dtype=wide), gpuilu.ilu0(A.astype(wide))
    assert M.dtype == dtype
    assert_array_equal(M.U.toarray(), expected.U.toarray(), strict=True)
    assert_array_equal(M.L.toarray(), expected.L.toarray(), strict=True)
