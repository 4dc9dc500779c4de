"""`gpuilu.relax` against the textbook loops: every method, sweep, dtype, layout and kind of row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import DTYPES, poisson, random_values, tridiagonal, unsymmetric

import gpuilu

SWEEPS = ("forward", "backward", "symmetric")
T3, B3 = tridiagonal(), np.array([1.0, 2.0, 3.0])


def zero_diagonal(stored):
    """Row 1 has a zero diagonal, stored or not."""
    entries = [(0, 0, 2.0), (0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 2.0)]
    if stored:
        entries.append((1, 1, 0.0))
    row, column, value = zip(*entries, strict=True)
    return sp.csr_array((value, (row, column)), shape=(3, 3))


def order(n, sweep):
    return {
        "forward": [*range(n)],
        "backward": [*range(n)][::-1],
        "symmetric": [*range(n), *range(n)[::-1]],
    }[sweep]


def relaxed(A, x, b, method, sweep="forward", omega=1.0, k=1):
    """The textbook, unknown after unknown (or block after block), on dense matrices."""
    A, x = A.toarray(), x.copy()
    blocks = len(A) // k
    for I in order(blocks, sweep) if method != "jacobi" else [range(blocks)]:
        old = x.copy()
        for J in np.atleast_1d(I):
            at = slice(J * k, J * k + k)
            r = b[at] - A[at] @ old + A[at, at] @ old[at]
            if k > 1:
                new = np.linalg.pinv(A[at, at]) @ r
            elif A[J, J] != 0:
                new = r / A[J, J]
            else:
                continue
            x[at] = (1 - omega) * old[at] + omega * new
    return x


def assert_close(x, expected):
    eps = np.finfo(x.dtype).eps
    np.testing.assert_allclose(x, expected, rtol=200 * eps, atol=200 * eps * abs(expected).max())


@pytest.mark.parametrize("stored", [True, False])
def test_a_row_whose_diagonal_is_zero_or_absent_is_skipped_and_counted(stored, device):
    x = np.array([0.0, 5.0, 0.0])
    options = {"method": "gauss_seidel", "sweep": "forward", "device": device}
    assert gpuilu.relax(zero_diagonal(stored), x, B3, **options) == 1
    assert x.tolist() == [-2, 5, -1]


@pytest.mark.parametrize("method", ["gauss_seidel", "sor", "jacobi"])
@pytest.mark.parametrize("stored", [True, False])
def test_such_a_row_can_be_an_error_that_names_it(stored, method):
    x = np.array([0.0, 5.0, 0.0])
    with pytest.raises(gpuilu.ZeroPivotError, match="row 1") as caught:
        gpuilu.relax(zero_diagonal(stored), x, B3, method=method, zero_diagonal="raise")
    assert caught.value.row == 1
    assert x.tolist() == [0, 5, 0]


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("method", ["gauss_seidel", "sor", "jacobi", "block_gauss_seidel"])
@pytest.mark.parametrize("iterations", [2, 3])
def test_k_sweeps_are_the_k_fold_composition_of_one(method, sweep, iterations, device):
    A = unsymmetric(30)
    rng = np.random.default_rng(0)
    b, start = rng.random(30), rng.random(30)
    options = {"method": method, "sweep": sweep, "device": device}
    options |= {"omega": 1.3} if method in ("sor", "jacobi") else {}
    options |= {"blocksize": 3} if method == "block_gauss_seidel" else {}
    once, at_once = start.copy(), start.copy()
    for _ in range(iterations):
        gpuilu.relax(A, once, b, **options)
    gpuilu.relax(A, at_once, b, iterations=iterations, **options)
    np.testing.assert_array_equal(once, at_once)


def test_hand_worked_sweeps_of_a_tridiagonal_matrix():
    for sweep, expected in (
        ("forward", [0.25, 0.5625, 0.890625]),
        ("symmetric", [0.4462890625, 0.78515625, 0.890625]),
    ):
        x = np.zeros(3)
        gpuilu.relax(T3, x, B3, sweep=sweep)
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize(
    ("method", "omega"), [("gauss_seidel", 1.0), ("sor", 0.7), ("sor", 1.6), ("jacobi", 0.7)]
)
def test_every_point_method_is_the_textbook_loop(method, omega, sweep, dtype, device):
    A = unsymmetric(40, dtype)
    A.data[A.indices == 7] = 0  # rows that depend on x_7 no longer do; row 7 is skipped
    rng = np.random.default_rng(1)
    x, b = (random_values(rng, 40, dtype) for _ in range(2))
    expected = relaxed(A, x, b, method, sweep, omega)
    assert gpuilu.relax(A, x, b, method=method, sweep=sweep, omega=omega, device=device) == 1
    assert x.dtype == dtype
    assert_close(x, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("sweep", SWEEPS)
def test_block_gauss_seidel_is_the_textbook_loop_over_blocks(sweep, k, dtype, device):
    A = unsymmetric(30, dtype).tobsr(blocksize=(k, k))
    rng = np.random.default_rng(k)
    x, b = (random_values(rng, 30, dtype) for _ in range(2))
    expected = relaxed(A, x, b, "block_gauss_seidel", sweep, k=k)
    gpuilu.relax(A, x, b, method="block_gauss_seidel", sweep=sweep, device=device)
    assert_close(x, expected)


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_block_jacobi_is_the_textbook_loop_over_blocks(k, singular):
    A = unsymmetric(30).toarray()
    if singular:
        A[6 * k : 7 * k, 6 * k : 7 * k] = np.ones((k, k))
        A[7 * k : 8 * k, 7 * k : 8 * k] = 0
    A = sp.bsr_array(A, blocksize=(k, k))
    rng = np.random.default_rng(k)
    x, b = rng.random(30), rng.random(30)
    expected = x.copy()
    D = A.toarray()
    for J in range(30 // k):
        at = slice(J * k, J * k + k)
        r = b[at] - D[at] @ x + D[at, at] @ x[at]
        expected[at] = 0.4 * x[at] + 0.6 * np.linalg.pinv(D[at, at]) @ r
    gpuilu.relax(A, x, b, method="block_jacobi", omega=0.6)
    assert_close(x, expected)


def test_ssor_is_a_forward_and_a_backward_sweep_with_its_omega():
    A, b = poisson(6, 5), np.arange(30.0)
    x, y = np.ones(30), np.ones(30)
    gpuilu.relax(A, x, b, method="ssor", omega=1.5)
    for sweep in ("forward", "backward"):
        gpuilu.relax(A, y, b, method="sor", omega=1.5, sweep=sweep)
    np.testing.assert_array_equal(x, y)
    z = np.zeros(30)
    gpuilu.relax(A, z, b, method="ssor", omega=1.5)
    np.testing.assert_allclose(z, gpuilu.ssor(A, omega=1.5) @ b, rtol=1e-13)


def test_ilu0_corrects_by_its_solve():
    A, b, x = poisson(6, 5), np.arange(30.0), np.ones(30)
    expected = x + gpuilu.ilu0(A) @ (b - A @ x)
    gpuilu.relax(A, x, b, method="ilu0")
    np.testing.assert_allclose(x, expected, rtol=1e-14)


@pytest.mark.parametrize("method", ["gauss_seidel", "jacobi", "block_jacobi", "ilu0"])
def test_the_solution_is_a_fixed_point(method):
    A = unsymmetric(30)
    x = np.linspace(-1, 1, 30)
    b, start = A @ x, x.copy()
    gpuilu.relax(A, x, b, method=method, iterations=5)
    np.testing.assert_allclose(x, start, atol=1e-14)


def layouts():
    rng = np.random.default_rng(5)
    wide = rng.random((30, 8))
    yield "strided", rng.random(60)[::2]
    yield "reversed", rng.random(30)[::-1]
    yield "column", wide[:, 3]
    yield "one column", wide[:, 2:3]
    yield "block", wide[:, 4:7]
    yield "Fortran order", np.asfortranarray(rng.random((30, 3)))


@pytest.mark.parametrize(("name", "x"), [*layouts()], ids=[name for name, _ in layouts()])
def test_x_may_have_any_layout_and_is_changed_in_place(name, x):
    A, b = unsymmetric(30), np.random.default_rng(6).random(x.shape)
    columns, right = x.reshape(30, -1), b.reshape(30, -1)
    expected = [
        relaxed(A, columns[:, c], right[:, c], "gauss_seidel") for c in range(columns.shape[1])
    ]
    gpuilu.relax(A, x, b)
    np.testing.assert_allclose(x.reshape(30, -1), np.transpose(expected), rtol=1e-12)


@pytest.mark.parametrize("form", ["csc", "coo", "dia", "lil", "bsr"])
def test_every_format_gives_the_same(form):
    A, b = poisson(5, 6), np.arange(30.0)
    x, y = np.zeros(30), np.zeros(30)
    gpuilu.relax(A, x, b)
    gpuilu.relax(A.asformat(form), y, b)
    np.testing.assert_array_equal(x, y)


def test_duplicate_entries_are_summed():
    A = sp.coo_array(([1.0, 3.0, 2.0, 1.0], ([0, 0, 1, 1], [0, 0, 1, 0])), shape=(2, 2))
    x = np.zeros(2)
    gpuilu.relax(A, x, [4.0, 4.0])
    assert x.tolist() == [1.0, 1.5]


def test_nothing_of_the_callers_but_x_is_changed():
    A, b = unsymmetric(20), np.ones(20)
    kept = A.copy()
    gpuilu.relax(A, np.zeros(20), b, sweep="symmetric", iterations=2)
    assert (b == 1).all()
    np.testing.assert_array_equal(A.data, kept.data)


def test_no_rows_and_no_columns_are_legal():
    assert gpuilu.relax(sp.csr_array((0, 0)), np.zeros(0), np.zeros(0)) == 0
    x = np.zeros((3, 0))
    gpuilu.relax(T3, x, np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("x", "b", "error"),
    [
        (np.zeros(4), np.zeros(4), gpuilu.ShapeMismatchError),
        (np.zeros(3), np.zeros((3, 1)), gpuilu.ShapeMismatchError),
        (np.zeros((3, 1, 1)), np.zeros((3, 1, 1)), gpuilu.ShapeMismatchError),
        (np.zeros(3, int), np.zeros(3), gpuilu.UnsupportedDtypeError),
        (np.zeros(3, np.float32), np.zeros(3), gpuilu.UnsupportedDtypeError),
        (np.zeros(3), np.zeros(3, complex), gpuilu.UnsupportedDtypeError),
        ([0.0, 0.0, 0.0], np.zeros(3), gpuilu.UnsupportedDtypeError),
    ],
)
def test_vectors_that_do_not_fit_raise(x, b, error):
    with pytest.raises(error):
        gpuilu.relax(T3, x, b)


def test_a_read_only_x_raises():
    x = np.zeros(3)
    x.flags.writeable = False
    with pytest.raises(gpuilu.ShapeMismatchError, match="read-only"):
        gpuilu.relax(T3, x, B3)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "newton"},
        {"sweep": "up"},
        {"omega": 1.5},
        {"method": "sor", "omega": 2.0},
        {"method": "ssor", "omega": 0.0},
        {"iterations": 0},
        {"iterations": 1.5},
        {"zero_diagonal": "ignore"},
        {"method": "block_jacobi", "blocksize": 2},
        {"method": "ilu0", "omega": 0.5},
    ],
)
def test_options_that_cannot_be_honoured_raise(options):
    with pytest.raises(gpuilu.OptionError):
        gpuilu.relax(T3, np.zeros(3), B3, **options)


def test_a_nan_in_b_spreads_along_the_sweep_alone():
    x = np.zeros(4)
    gpuilu.relax(tridiagonal(4), x, [1.0, np.nan, 1.0, 1.0])
    assert np.isnan(x).tolist() == [False, True, True, True]


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["gauss_seidel", "sor", "jacobi", "block_gauss_seidel", "ilu0"])
def test_cupy_arrays_are_relaxed_where_they_are(cp, csp, method):
    A, start = poisson(20, 15), np.random.default_rng(3).random(300)
    b = np.ones(300)
    omega = {"omega": 0.9} if method in ("sor", "jacobi") else {}
    x, y = cp.asarray(start), start.copy()
    gpuilu.relax(csp.csr_matrix(A), x, cp.asarray(b), method=method, iterations=2, **omega)
    gpuilu.relax(A, y, b, method=method, iterations=2, **omega)
    np.testing.assert_allclose(x.get(), y, rtol=1e-12)
