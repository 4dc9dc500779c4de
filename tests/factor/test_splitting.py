"""Gauss-Seidel, SOR and SSOR: literals, the dense formulas, and repeated sweeps."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import gpuilu
from gpuilu.csr import canonical
from gpuilu.errors import MissingDiagonalError, OptionError, ZeroPivotError
from gpuilu.factor.splitting import Splitting

DTYPES = ["f", "d", "F", "D"]
SWEEPS = ["forward", "backward", "symmetric"]
T3 = sp.csr_array(np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]]))
B3 = np.array([1.0, 2, 3])
HOLE = sp.csr_array(np.array([[2.0, 1, 0], [1, 0, 1], [0, 1, 2]]))  # (1, 1) is not stored


def stored(dense):
    """Every entry of the dense matrix, zeros included."""
    n = len(dense)
    return sp.csr_array((np.ravel(dense), np.tile(np.arange(n), n), np.arange(n + 1) * n), (n, n))


def factors(A, sweep, omega=1.0, **options):
    return Splitting(canonical(A), "sor", sweep, omega, **options).factorize(A)


def product(F):
    """L U, or the one factor that there is."""
    triangles = [T.to_csr().toarray() for T in F.triangles]
    return triangles[0] if len(triangles) == 1 else triangles[0] @ triangles[1]


def repeated(M, A, k):
    """The k-fold iteration x <- x + M^-1 (b - A x) from 0 as a dense matrix acting on b."""
    inverse = np.linalg.inv(M)
    X = np.zeros_like(inverse)
    for _ in range(k):
        X = X + inverse @ (np.eye(len(A)) - A @ X)
    return X


# ---- literals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda A: gpuilu.gauss_seidel(A, sweep="forward"), [0.25, 0.5625, 0.890625]),
        (lambda A: gpuilu.gauss_seidel(A, sweep="backward"), [0.421875, 0.6875, 0.75]),
        (lambda A: gpuilu.gauss_seidel(A), [0.4462890625, 0.78515625, 0.890625]),
        (lambda A: gpuilu.ssor(A), [0.4462890625, 0.78515625, 0.890625]),
        (
            lambda A: gpuilu.ssor(A, omega=1.5),
            [0.4570770263671875, 0.7188720703125, 0.7294921875],
        ),
        (lambda A: gpuilu.sor(A, omega=1.5), [0.375, 0.890625, 1.458984375]),
    ],
    ids=["forward", "backward", "symmetric", "ssor", "ssor 1.5", "sor 1.5"],
)
def test_one_sweep_gives_the_vector_worked_out_by_hand(make, x):
    assert_allclose(make(T3).matvec(B3), x, rtol=1e-15)


def test_the_factors_of_each_sweep_are_those_of_the_definition():
    M = gpuilu.gauss_seidel(T3, sweep="forward")
    assert_array_equal(M.L.toarray(), [[4, 0, 0], [-1, 4, 0], [0, -1, 4]])
    assert M.U is None
    M = gpuilu.gauss_seidel(T3, sweep="backward")
    assert_array_equal(M.U.toarray(), [[4, -1, 0], [0, 4, -1], [0, 0, 4]])
    assert M.L is None
    M = gpuilu.gauss_seidel(T3)
    assert_array_equal(M.L.toarray(), [[1, 0, 0], [-0.25, 1, 0], [0, -0.25, 1]])
    assert_array_equal(M.U.toarray(), [[4, -1, 0], [0, 4, -1], [0, 0, 4]])
    M = gpuilu.sor(T3, omega=0.5)
    assert_array_equal(M.L.toarray(), [[8, 0, 0], [-1, 8, 0], [0, -1, 8]])


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_diagonal_matrix_is_inverted_by_one_sweep(sweep):
    M = gpuilu.gauss_seidel(sp.diags_array([2.0, 4, 5]), sweep=sweep)
    assert_allclose(M.matvec(B3), [0.5, 0.5, 0.6], rtol=1e-15)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_orders_zero_and_one_are_legal(sweep):
    assert gpuilu.gauss_seidel(sp.csr_array((0, 0)), sweep=sweep).matvec(np.zeros(0)).shape == (0,)
    M = gpuilu.sor(sp.csr_array(np.array([[5.0]])), omega=0.5, sweep=sweep)
    expected = [1.0] if sweep != "symmetric" else [1.5]  # M = 10, or 0.5 / 1.5 * 10 * 10 / 5
    assert_allclose(M.matvec([10.0]), expected, rtol=1e-15)


# ---- the dense formulas -------------------------------------------------------------------------


@pytest.mark.parametrize("omega", [1.0, 0.3, 1.5, 1.97])
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_product_of_the_factors_is_the_dense_formula(dtype, sweep, omega):
    rng = np.random.default_rng(17)
    for n in (1, 2, 9, 40):
        A = reference.random_matrix(rng, n, dtype, 0.3, diagonal=3.0)
        expected = reference.splitting(A.astype("D"), "sor", sweep, omega)
        found = product(factors(A, sweep, omega))
        scale = abs(expected).max()
        assert_allclose(found, expected, rtol=0, atol=32 * n * np.finfo(dtype).eps * scale)
        assert found.dtype == dtype


@pytest.mark.parametrize("sweep", ["forward", "backward"])
def test_one_sided_sweeps_keep_the_bits_of_the_matrix(sweep):
    A = reference.random_matrix(np.random.default_rng(18), 30)
    dense = A.toarray()
    expected = np.tril(dense) if sweep == "forward" else np.triu(dense)
    assert_array_equal(product(factors(A, sweep)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_symmetric_sweep_of_sor_is_ssor_and_with_omega_one_gauss_seidel(dtype):
    A = reference.random_matrix(np.random.default_rng(19), 30, dtype, diagonal=3.0)

    def same(M, N):
        assert_array_equal(M.L.toarray(), N.L.toarray())
        assert_array_equal(M.U.toarray(), N.U.toarray())

    same(gpuilu.sor(A, omega=1.3, sweep="symmetric"), gpuilu.ssor(A, omega=1.3))
    same(gpuilu.gauss_seidel(A), gpuilu.ssor(A))
    assert_array_equal(
        gpuilu.sor(A, omega=1.0).L.toarray(), gpuilu.gauss_seidel(A, sweep="forward").L.toarray()
    )


@pytest.mark.parametrize("name", ["gauss_seidel", "sor", "ssor"])
def test_the_kind_is_the_name_of_the_factory(name):
    options = {"omega": 1.2} if name == "sor" else {}
    assert getattr(gpuilu, name)(T3, **options).kind == name


def test_explicit_zeros_stay_in_the_factors():
    F = factors(stored([[2.0, 0, 1], [0, 2, 0], [1, 0, 2]]), "symmetric")
    assert F.L.indices.tolist() == [0, 0, 1]
    assert F.U.indices.tolist() == [1, 2, 2]


# ---- symmetry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_symmetric_sweep_of_a_hermitian_matrix_calls_itself_symmetric(dtype):
    A = reference.random_matrix(np.random.default_rng(20), 30, dtype, 0.2, diagonal=0.0)
    S = (A + A.conj().T + 6 * sp.eye_array(30)).astype(dtype)
    for make in (gpuilu.gauss_seidel, lambda A: gpuilu.ssor(A, omega=1.4)):
        assert make(S).info.is_symmetric
        assert not make(A + 6 * sp.eye_array(30, dtype=dtype)).info.is_symmetric
    assert not gpuilu.gauss_seidel(S, sweep="forward").info.is_symmetric
    assert not gpuilu.gauss_seidel(S, sweep="backward").info.is_symmetric


@pytest.mark.parametrize("iterations", [1, 3])
def test_an_operator_that_calls_itself_symmetric_is(iterations):
    rng = np.random.default_rng(21)
    A = reference.random_matrix(rng, 30, "D", 0.2, diagonal=0.0)
    S = A + A.conj().T + 10 * sp.eye_array(30)
    M = gpuilu.ssor(S, omega=1.2, iterations=iterations)
    assert M.info.is_symmetric
    u, v = rng.standard_normal((2, 30)) + 1j * rng.standard_normal((2, 30))
    assert_allclose(np.vdot(u, M.matvec(v)), np.vdot(M.matvec(u), v), rtol=1e-13)


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize(("rows", "first"), [([0], 0), ([2], 2), ([1, 2], 1), ([2, 0], 0)])
def test_the_smallest_row_with_a_zero_diagonal_is_named(sweep, rows, first):
    A = T3.toarray()
    A[rows, rows] = 0
    with pytest.raises(ZeroPivotError, match=f"row {first} is zero .*diagonal") as caught:
        factors(stored(A), sweep)
    assert (caught.value.row, caught.value.value) == (first, 0)


def test_a_missing_diagonal_is_structural_and_an_inserted_one_is_a_zero():
    with pytest.raises(MissingDiagonalError) as caught:
        gpuilu.gauss_seidel(HOLE)
    assert caught.value.row == 1
    with pytest.raises(ZeroPivotError) as caught:
        gpuilu.gauss_seidel(HOLE, missing_diagonal="insert")
    assert caught.value.row == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("sweep", "at"),
    [("forward", (2, 0)), ("forward", (1, 1)), ("backward", (0, 2)), ("backward", (2, 2))]
    + [("symmetric", at) for at in [(0, 2), (2, 0), (1, 1)]],
)
def test_a_factor_entry_that_is_not_finite_is_an_error_in_its_row(sweep, at, bad):
    A = T3.toarray()
    A[at] = bad
    with pytest.raises(ZeroPivotError) as caught:
        factors(stored(A), sweep)
    assert caught.value.row == at[0]
    assert not np.isfinite(caught.value.value)


def test_scaled_entries_that_overflow_are_an_error():
    with pytest.raises(ZeroPivotError) as caught:
        gpuilu.gauss_seidel(stored([[1e-200, 0], [1e200, 1.0]]))
    assert caught.value.row == 1
    with pytest.raises(ZeroPivotError) as caught:
        gpuilu.sor(stored([[1.0, 0], [0, 1e308]]), omega=0.01)
    assert caught.value.row == 1


@pytest.mark.parametrize("omega", [0, 2, -0.5, 2.5, np.nan, np.inf])
def test_omega_lies_strictly_between_zero_and_two(omega):
    for make in (gpuilu.sor, gpuilu.ssor):
        with pytest.raises(OptionError, match="omega must lie strictly between 0 and 2"):
            make(T3, omega=omega)


def test_an_unknown_sweep_is_refused():
    for make in (gpuilu.gauss_seidel, lambda A, sweep: gpuilu.sor(A, omega=1.0, sweep=sweep)):
        with pytest.raises(OptionError, match=r"sweep must be one of .*found 'sideways'"):
            make(T3, sweep="sideways")


# ---- repeated sweeps ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_k_iterations_are_the_k_fold_sweep_and_so_are_the_transposes(dtype, sweep, k):
    n, eps = 20, np.finfo(dtype).eps
    A = reference.random_matrix(np.random.default_rng(22), n, dtype, 0.2, diagonal=5.0)
    M = gpuilu.sor(A, omega=1.1, sweep=sweep, iterations=k)
    dense = A.toarray().astype("D")
    X = repeated(reference.splitting(dense, "sor", sweep, 1.1), dense, k)
    b = np.eye(n, dtype=dtype)
    for trans in "NTH":
        expected = reference.op(X, trans)
        assert_allclose(M.solve(b, trans), expected, rtol=0, atol=100 * eps * abs(X).max())
        assert_array_equal(M.solve(b[:, 3], trans), M.solve(b, trans)[:, 3])


def test_more_iterations_come_closer_to_the_solution():
    b = T3 @ np.ones(3)
    errors = [abs(gpuilu.gauss_seidel(T3, iterations=k).matvec(b) - 1).max() for k in (1, 2, 3, 20)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[3] < 1e-15


def test_an_update_reaches_the_matrix_that_repeated_sweeps_multiply_by():
    M = gpuilu.gauss_seidel(T3, iterations=3)
    A = T3.copy()
    A.data = A.data * np.linspace(1, 2, 7)
    for new in (A, A.data):
        M.update(T3)
        M.update(new)
        expected = gpuilu.gauss_seidel(A, iterations=3)
        for trans in "NTH":
            assert_array_equal(M.solve(B3, trans), expected.solve(B3, trans))


@pytest.mark.parametrize("iterations", [0, -1])
def test_fewer_than_one_iteration_is_refused(iterations):
    with pytest.raises(OptionError, match="iterations must be at least 1"):
        gpuilu.gauss_seidel(T3, iterations=iterations)
