"""One triangle: literals, the options that change what is solved, wrong triangles, NaN and Inf."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from cases import (
    DTYPES,
    all_patterns,
    chain,
    every_algorithm,
    forced,
    layered,
    skipped_where_refused,
    triangle,
)

import gpuilu
from gpuilu.trsv.base import algorithms

SOLVABLE = [[1.0, 0, 0], [2, 3, 0], [4, 5, 6]]
B = np.array([[1.0, 7], [8, 26], [32, 74]])
X = np.array([[1.0, 7], [2, 4], [3, 13 / 3]])


def solver(T, *, lower=True, unit_diagonal=False, **keywords):
    T = T if sp.issparse(T) else sp.csr_array(np.array(T))
    return gpuilu.TriangularSolver(T, lower=lower, unit_diagonal=unit_diagonal, **keywords)


# ---- exact answers -------------------------------------------------------------------------------


MINUTES_A_CHAIN = {"level_row", "level_col", "cusparse"}  # launches, or waits, for each row


@pytest.mark.parametrize("n", [2, 31, 32, 33, 1023, 1024, 1025, 100_003, 2_000_000])
@every_algorithm
def test_a_chain_counts_its_rows_exactly_in_both_directions(name, device, n):
    if n > 1_000_000 and name in MINUTES_A_CHAIN:
        pytest.skip(f"{name} takes a minute or two for {n} levels")
    L, counted = -chain(n), np.arange(1.0, n + 1)
    keywords = {"unit_diagonal": True, **forced(name, device)}
    with skipped_where_refused(name, device):
        S = solver(L, **keywords)
    np.testing.assert_array_equal(S @ np.ones(n), counted)
    U = sp.csr_array(L.T)
    np.testing.assert_array_equal(solver(U, lower=False, **keywords) @ np.ones(n), counted[::-1])


@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("n", [2, 3])
@every_algorithm
def test_every_pattern_of_dependencies_among_two_or_three_rows_is_solved_exactly(
    name, device, n, lower
):
    for P in all_patterns(n):
        L = np.eye(n) - P.toarray()
        # Counts the paths that end in each row: x_i = 1 + sum of x_j over what row i depends on.
        x = np.ones(n)
        for i in range(n):
            x[i] += P.toarray()[i] @ np.where(np.arange(n) < i, x, 0)
        T, x = (L, x) if lower else (L[::-1, ::-1], x[::-1])
        found = solver(T, lower=lower, **forced(name, device)).solve(np.ones(n))
        np.testing.assert_array_equal(found, x)


@every_algorithm
def test_pivots_that_are_powers_of_two_are_divided_by_exactly(name, device):
    S = solver([[1.0, 0, 0], [2, 4, 0], [4, 6, 8]], **forced(name, device))
    np.testing.assert_array_equal(S.solve([[1, 7], [10, 30], [40, 156]]), [[1, 7], [2, 4], [3, 13]])


def test_a_dependency_between_neighbouring_rows_by_hand():
    assert solver([[1.0, 0], [-1, 1]]).solve([1, 1]).tolist() == [1, 2]
    assert solver([[1.0, 0, 0], [-1, 1, 0], [0, -1, 1]]).solve([1, 1, 1]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("lower", [True, False])
def test_a_diagonal_matrix_divides_unless_its_diagonal_is_taken_as_ones(lower):
    b = np.array([4.0, 6.0, 8.0])
    D = sp.diags_array([2.0, 4.0, 5.0])
    np.testing.assert_array_equal(solver(D, lower=lower) @ b, b / [2, 4, 5])
    np.testing.assert_array_equal(solver(D, lower=lower, unit_diagonal=True) @ b, b)


def test_a_unit_diagonal_need_not_be_stored_and_is_ignored_where_it_is():
    strict = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0]])
    for stored in (strict, strict + 7 * np.eye(3), strict + np.diag([0, np.nan, 7])):
        assert solver(stored, unit_diagonal=True).solve([1, 2, 3]).tolist() == [1, 1, 1]


def test_a_transposed_solve_with_a_unit_diagonal():
    i, j, t = [1, 2, 3], [0, 1, 1], [2.6085, 0.1871, 0.9922]
    L = sp.csr_array((t, (i, j)), shape=(4, 4))
    x = solver(L, unit_diagonal=True).solve([1, 2, 3, 4], "T")
    np.testing.assert_allclose(x, [7.59976585, -2.5301, 3, 4], rtol=1e-14)


def test_the_adjoint_of_a_real_triangle_is_its_transpose():
    T, b = triangle(layered(4, 20)), np.random.default_rng(0).random(80)
    for dtype in (np.float64, np.complex128):
        S = solver(T)
        np.testing.assert_array_equal(S.solve(b.astype(dtype), "H"), S.solve(b.astype(dtype), "T"))
    assert np.all(solver(T).solve(1j * b, "T").real == 0)


def test_the_identity_of_a_million_rows_has_one_level_and_returns_its_argument():
    n = 1_000_000
    S, b = solver(sp.eye_array(n, format="csr")), np.random.default_rng(0).random(n)
    np.testing.assert_array_equal(S @ b, b)
    assert (S.info.n_levels_lower, S.info.n_levels_upper) == (1, None)


# ---- right-hand sides of any layout --------------------------------------------------------------


def laid_out(values, layout):
    """(a view that holds `values` in a strange layout, the whole buffer it lies in)."""
    if layout == "C":
        buffer = values.copy()
        return buffer, buffer
    if layout == "F":
        buffer = np.asfortranarray(values)
        return buffer, buffer
    if layout == "rows apart":
        buffer = np.full((3, 5), -1.0)
        view = buffer[:, 1:3]
    elif layout == "columns apart":
        buffer = np.full((7, 2), -1.0, order="F")
        view = buffer[2:5]
    else:
        buffer = np.full((3, 2), -1.0)
        view = buffer[::-1, ::-1]
    view[...] = values
    return view, buffer


def assert_solved(name, device, x):
    """X, every bit of it; up to a few roundings where reciprocals of the diagonal are rounded."""
    if algorithms()[name, device].divides:
        np.testing.assert_array_equal(x, X)
    else:
        np.testing.assert_array_max_ulp(x, X, maxulp=4)


LAYOUTS = ["C", "F", "rows apart", "columns apart", "reversed"]


@pytest.mark.parametrize("out_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
@every_algorithm
def test_any_layout_of_b_and_out_gives_the_same_bits_and_leaves_the_padding(
    name, device, b_layout, out_layout
):
    S = solver(SOLVABLE, **forced(name, device))
    (b, b_buffer), (out, buffer) = (
        laid_out(B, b_layout),
        laid_out(np.full((3, 2), np.nan), out_layout),
    )
    unchanged, padding = b_buffer.copy(), ~np.isnan(buffer)
    expected = S.solve(B, out=np.full((3, 2), np.nan))
    assert_solved(name, device, expected)
    np.testing.assert_array_equal(S.solve(b), expected)
    assert S.solve(b, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(b_buffer, unchanged)
    assert np.all(buffer[padding] == -1)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("T", "lower", "entry"),
    [
        ([[1, 2], [3, 4]], True, "(0, 1)"),
        ([[1, 2], [3, 4]], False, "(1, 0)"),
        ([[1, 0, 0], [2, 3, 4], [5, 6, 7]], True, "(1, 2)"),
        ([[1, 2, 3], [0, 4, 5], [6, 7, 8]], False, "(2, 0)"),
    ],
)
def test_an_entry_in_the_wrong_triangle_is_named_not_waited_for(T, lower, entry):
    with pytest.raises(gpuilu.NotTriangularError) as raised:
        solver(T, lower=lower)
    assert entry in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("n", [20, 1000, 20_000])
def test_a_full_matrix_is_refused_as_a_triangle_whatever_its_size(n):
    A = sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, n // 2], shape=(n, n)).tocsr()
    with pytest.raises(gpuilu.NotTriangularError, match=rf"\(0, {n // 2}\)"):
        solver(A)
    with pytest.raises(gpuilu.NotTriangularError, match=r"\(1, 0\)"):
        solver(A, lower=False)


def test_an_explicit_zero_in_the_wrong_triangle_is_an_entry_too():
    T = sp.csr_array((np.array([1.0, 0.0, 1.0]), [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(gpuilu.NotTriangularError, match=r"\(0, 1\)"):
        solver(T)


def test_either_triangle_of_a_full_matrix_is_solved_once_it_is_taken_out():
    A = sp.csr_array([[0.431663, 0.955176, 0.925239], [0.0283651, 0.569277, 0], [0, 0, 0.48015]])
    b = [0.48200423, 0.39379725, 0.75963706]
    upper = solver(sp.triu(A), lower=False).solve(b)
    np.testing.assert_allclose(upper, [-3.8051519, 0.6917498, 1.5820828], rtol=2e-7)
    lower = solver(sp.tril(A)).solve(b)
    np.testing.assert_allclose(lower, [1.1166216, 0.6361124, 1.5820828], rtol=2e-7)


def test_a_missing_diagonal_entry_is_an_error_unless_the_diagonal_is_taken_as_ones():
    T = sp.csr_array((np.array([1.0, 1.0]), [0, 0], [0, 1, 2]), shape=(2, 2))
    with pytest.raises(gpuilu.MissingDiagonalError) as raised:
        solver(T)
    assert raised.value.row == 1
    assert "missing_diagonal" not in str(raised.value), "advises a keyword that it does not take"
    assert solver(T, unit_diagonal=True).solve([2, 5]).tolist() == [2, 3]


def test_an_unknown_option_is_an_error():
    with pytest.raises(TypeError):
        gpuilu.TriangularSolver(sp.eye_array(3), upper=True)
    with pytest.raises(TypeError):
        gpuilu.TriangularSolver(sp.eye_array(3), True)


# ---- NaN and Inf ---------------------------------------------------------------------------------

# Bit patterns that some solvers keep for themselves as a mark of "not yet solved".
PRIVATE_BITS = {
    "float64": [0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF],
    "float32": [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF],
}


@pytest.mark.parametrize("dtype", DTYPES)
@every_algorithm
def test_private_bit_patterns_in_b_are_ordinary_nan(name, device, dtype):
    S = solver(np.array([[1, 0, 0], [-1, 1, 0], [0, 0, 1]], dtype), **forced(name, device))
    real = np.dtype(dtype).type(0).real.dtype
    for bits in PRIVATE_BITS[str(real)]:
        b = np.array([0, 1, 5], dtype)
        b[:1].view(f"u{real.itemsize}")[:] = bits
        assert np.isnan(b[0])
        for rhs in (b, np.column_stack([b, b])):
            x = S.solve(rhs)
            assert np.isnan(x).T.tolist() in ([True, True, False], [[True, True, False]] * 2)
            assert np.all(x[2] == 5)


@pytest.mark.parametrize(
    ("b", "x"),
    [
        ([np.nan, 1, 5], [np.nan, np.nan, 5]),
        ([np.inf, 1, 5], [np.inf, np.inf, 5]),
        ([-np.inf, 1, 5], [-np.inf, -np.inf, 5]),
        ([np.inf, -np.inf, 5], [np.inf, np.nan, 5]),
        ([1, np.nan, np.inf], [1, np.nan, np.inf]),
    ],
)
@every_algorithm
def test_nan_and_inf_in_b_go_where_substitution_takes_them(name, device, b, x):
    S = solver([[1.0, 0, 0], [-1, 1, 0], [0, 0, 1]], **forced(name, device))
    np.testing.assert_array_equal(S.solve(b), x)
    np.testing.assert_array_equal(S.solve(np.array([b, [1, 1, 1]]).T).T, [x, [1, 2, 1]])


def with_small_integers(dtype):
    """A layered triangle whose finite solutions are exact: entries and pivots 1 or -1."""
    rng = np.random.default_rng(3)
    T = triangle(layered(5, 12), dtype)
    T.data = rng.choice([-1, 1], T.nnz).astype(dtype)
    return T


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@every_algorithm
def test_nan_and_inf_propagate_position_by_position_as_in_plain_substitution(
    name, device, dtype, trans
):
    T = with_small_integers(dtype)
    rng = np.random.default_rng(5)
    b = rng.integers(-3, 4, (60, 8)).astype(dtype)
    b[rng.integers(0, 60, 8), np.arange(8)] = [np.nan, np.inf, -np.inf, np.nan] * 2
    T.data[[4, 30, 77]] = [np.nan, np.inf, 0]
    with np.errstate(invalid="ignore"):
        expected = reference.substitute(reference.op(reference.dense(T), trans), b, trans == "N")
    x = solver(T, **forced(name, device)).solve(b, trans)
    assert np.isnan(x).any()
    assert np.isfinite(x).any()
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("value", [np.nan, complex(0, np.nan), np.inf])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@every_algorithm
def test_complex_entries_that_are_not_finite_spoil_the_rows_that_depend_on_them(
    name, device, dtype, value
):
    T = with_small_integers(dtype)
    b = np.random.default_rng(5).integers(-3, 4, (60, 2)).astype(dtype)
    b[7, 0] = value
    with np.errstate(invalid="ignore"):
        expected = reference.substitute(reference.dense(T), b)
    x = solver(T, **forced(name, device)).solve(b)
    finite = np.isfinite(expected)
    assert not finite[:, 0].all()
    np.testing.assert_array_equal(np.isfinite(x), finite)
    np.testing.assert_array_equal(x[finite], expected[finite])


@pytest.mark.parametrize("dtype", DTYPES)
@every_algorithm
def test_a_zero_on_the_diagonal_is_divided_by_and_stops_no_other_row(name, device, dtype):
    T = sp.csr_array(
        (np.array([2, 0, 1, 1, 4], dtype), [0, 1, 1, 2, 3], [0, 1, 2, 4, 5]), shape=(4, 4)
    )
    S = solver(T, **forced(name, device))
    for b in (np.array([2, 1, 1, 8], dtype), np.array([[2, 1, 1, 8]] * 3, dtype).T):
        x = S.solve(b)
        assert np.all(x[0] == 1)
        assert not np.isfinite(x[1:3]).any()
        assert np.all(x[3] == 2)


def test_a_triangle_with_nan_propagates_it_in_a_narrower_factor_dtype_too():
    T = [[1.0, 0, 0], [np.nan, 1, 0], [0, 0, 2]]
    for factor_dtype in (None, np.float32):
        S = solver(T, factor_dtype=factor_dtype)
        np.testing.assert_array_equal(S.solve([1.0, 1.0, 4.0]), [1, np.nan, 2])
