"""Bad pivots in ILU(0): which are errors, in which row; what "boost" and "shift" make of them."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import gpuilu
from gpuilu.csr import canonical
from gpuilu.errors import MissingDiagonalError, ZeroPivotError
from gpuilu.factor.ilu0 import ILU0

DTYPES = ["f", "d", "F", "D"]


def stored(dense, dtype=np.float64):
    """Every entry of `dense` that is not None, explicit zeros included."""
    entries = [(i, j, v) for i, row in enumerate(dense) for j, v in enumerate(row) if v is not None]
    i, j, v = zip(*entries, strict=True)
    return sp.coo_array((np.array(v, dtype), (i, j)), shape=(len(dense),) * 2).tocsr()


def factors(A, **options):
    return ILU0(canonical(A), **options).factorize(A)


def diagonal(*values):
    k = np.arange(len(values))
    return sp.csr_array((np.array(values), k, np.arange(len(k) + 1)), shape=(len(k),) * 2)


# ---- errors -------------------------------------------------------------------------------------


SINGULAR = {
    "first row": (0, [[0, 1], [1, 1]]),
    "last row of two": (1, [[1, 1], [1, 1]]),
    "last row of three": (2, [[1, 1, None], [1, 2, 1], [None, 1, 1]]),
    "rows one and three": (1, np.kron(np.eye(2), np.ones((2, 2)))),
    "order one": (0, [[0]]),
    "all zeros": (0, [[0, 0, 0]] * 3),
    "a row of zeros": (1, [[1, None, 2], [0, 0, 0], [1, None, 5]]),
    "a column of zeros": (1, [[1, 0, 2], [3, 0, 4], [1, 0, 5]]),
}


@pytest.mark.parametrize("kind", SINGULAR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_smallest_row_with_a_zero_pivot_is_named(kind, dtype):
    row, dense = SINGULAR[kind]
    with pytest.raises(ZeroPivotError) as caught:
        factors(stored(dense, dtype))
    assert (caught.value.row, caught.value.value) == (row, 0)
    assert f"row {row} " in str(caught.value)


def test_a_zero_pivot_error_says_what_kind_it_is_and_what_helps():
    with pytest.raises(ZeroPivotError, match="numerical") as caught:
        gpuilu.ilu0(stored([[1, 1], [1, 1]]))
    for cure in ("pivot='boost'", "pivot='shift'", "permute"):
        assert cure in str(caught.value)


def test_a_random_matrix_without_its_diagonal_is_refused_with_row_kind_and_cure():
    A = sp.random_array((200, 200), density=0.05, rng=np.random.default_rng(11), format="csr")
    with pytest.raises(MissingDiagonalError, match="structural") as caught:
        gpuilu.ilu0(A)
    row = np.flatnonzero(A.diagonal() == 0)[0]
    assert caught.value.row == row
    for word in (f"row {row} ", "missing_diagonal='insert'", "permute"):
        assert word in str(caught.value)


def test_the_missing_diagonal_is_reported_before_a_zero_pivot_in_an_earlier_row():
    with pytest.raises(MissingDiagonalError) as caught:
        factors(stored([[0, 1, None], [1, 1, 1], [None, 1, None]]))
    assert caught.value.row == 2


@pytest.mark.parametrize("pivot", ["raise", "boost", "shift"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [(0, 0), (0, 2), (1, 0), (1, 1), (2, 0), (2, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_entry_that_is_not_finite_is_an_error_in_its_row(dtype, at, bad, pivot):
    A = np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]], dtype)
    A[at] = bad
    with pytest.raises(ZeroPivotError, match=f"row {at[0]} .*not finite.*NaN or Inf") as caught:
        factors(sp.csr_array(A), pivot=pivot)
    assert caught.value.row == at[0]
    assert not np.isfinite(caught.value.value)


@pytest.mark.parametrize(
    ("dense", "row"),
    [
        ([[1e-200, 1], [1e200, 1]], 1),
        ([[1, 1e200], [1e200, 1]], 1),
        ([[1, None, None], [1, 1e-300, 1], [1, 1e10, 1]], 2),
        ([[1e-310, 1], [1, 1]], 1),
    ],
    ids=["in L", "in U", "in the last row", "subnormal pivot"],
)
def test_factors_that_overflow_are_an_error_in_the_row_where_it_happens(dense, row):
    with pytest.raises(ZeroPivotError, match=f"row {row} .*not finite") as caught:
        factors(stored(dense))
    assert caught.value.row == row


def test_the_next_matrix_is_factored_as_if_nothing_had_failed():
    A = reference.random_matrix(np.random.default_rng(12), 30)
    before = factors(A)
    for bad in (np.nan, np.inf, 0.0):
        with pytest.raises(ZeroPivotError):
            factors(stored([[bad, 1], [1, 1]]))
    after = factors(A)
    assert_array_equal(after.L.data, before.L.data)
    assert_array_equal(after.U.data, before.U.data)


def outcome(A, **options):
    """(factors, None), or (None, the row that the error names)."""
    try:
        return factors(A, **options), None
    except ZeroPivotError as error:
        return None, error.row


def wild_matrices(count):
    """Entries of very different sizes, explicit zeros on and off a full diagonal."""
    rng = np.random.default_rng(13)
    values = [-2, -1, -0.5, 0, 0, 0.5, 1, 1, 2, 1e-160, 1e160, -1e308]
    for _ in range(count):
        n = int(rng.integers(1, 9))
        dense = rng.choice(values, (n, n))
        kept = (rng.random((n, n)) < 0.5) | np.eye(n, dtype=bool)
        yield sp.csr_array(sp.coo_array((dense[kept], np.nonzero(kept)), shape=(n, n)))


def test_a_thousand_wild_matrices_give_finite_factors_or_name_the_first_bad_row():
    n_factored = 0
    for A in wild_matrices(1000):
        with np.errstate(all="ignore"):
            expected = reference.ilu0(A)
        bad = (expected.diagonal() == 0) | ~np.isfinite(expected).all(axis=1)
        first_bad = int(np.argmax(bad)) if bad.any() else None
        found = {pivot: outcome(A, pivot=pivot) for pivot in ("raise", "boost", "shift")}
        assert found["raise"][1] == first_bad
        assert first_bad is not None or found["shift"][1] is None
        n_factored += first_bad is None
        for F, _ in found.values():
            if F is not None:
                assert all(np.isfinite(a).all() for a in (F.L.data, F.U.data, F.U.diag))
                assert F.U.diag.all()
    assert 100 < n_factored < 900


# ---- boost --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "pivot", "boosted"),
    [
        ("d", 0.0, 1),
        ("d", 1e-300, 1),
        ("d", -1e-300, -1),
        ("d", 1e-16, 1),
        ("d", -1e-16, -1),
        ("d", 5e-324, 1),
        ("d", -5e-324, -1),
        ("f", 0.0, 1),
        ("f", -1e-10, -1),
        ("f", 1e-45, 1),
        ("D", 0.0, 1),
        ("D", 3e-20 + 4e-20j, 0.6 + 0.8j),
        ("D", -1e-300j, -1j),
        ("D", 5e-324j, 1j),
        ("D", -5e-324, -1),
        ("F", 3e-10 - 4e-10j, 0.6 - 0.8j),
        ("F", 1e-45j, 1j),
    ],
)
def test_a_small_pivot_is_raised_to_the_floor_of_its_row_with_its_sign_or_phase(
    dtype, pivot, boosted
):
    F = factors(stored([[2, 1, None], [None, pivot, 8], [None, None, 3]], dtype), pivot="boost")
    floor = 8 * np.sqrt(np.finfo(dtype).eps)
    assert_allclose(F.U.diag, [2, boosted * floor, 3], rtol=4 * np.finfo(dtype).eps)
    assert F.n_boosted == 1
    assert F.first_zero_pivot == (1 if pivot == 0 else None)
    assert F.shift == 0


def test_a_pivot_at_the_floor_or_above_is_left_alone():
    floor = np.sqrt(np.finfo(float).eps)
    F = factors(diagonal(1.0, 2.0, 3.0), pivot="boost")
    assert F.n_boosted == 0
    F = factors(stored([[floor, 1], [None, -floor]]), pivot="boost")
    assert F.n_boosted == 0
    assert F.U.diag.tolist() == [floor, -floor]
    F = factors(stored([[np.nextafter(floor, 0), 1], [None, 1]]), pivot="boost")
    assert F.n_boosted == 1


def test_every_boosted_pivot_is_counted_and_the_first_zero_one_is_named():
    A = stored(np.diag([1, -1e-12, 0, 1e-20, 2]) + np.eye(5, k=1))
    F = factors(A, pivot="boost")
    assert F.n_boosted == 3
    assert F.first_zero_pivot == 2
    assert gpuilu.ilu0(A, pivot="boost").info.n_boosted == 3
    assert gpuilu.ilu0(A, pivot="boost").info.first_zero_pivot == 2


def test_the_elimination_goes_on_with_the_boosted_pivot():
    floor = np.sqrt(np.finfo(float).eps)
    F = factors(stored([[0, 1], [1, 1]]), pivot="boost")
    assert_array_equal(F.U.diag, [floor, 1 - 1 / floor])
    assert_array_equal(F.L.data, [1 / floor])


def test_a_row_of_zeros_is_boosted_relative_to_the_whole_matrix():
    F = factors(diagonal(-4.0, 0.0, 1.0), pivot="boost")
    assert_allclose(F.U.diag, [-4, 4 * np.sqrt(np.finfo(float).eps), 1])
    F = factors(diagonal(0.0, 0.0), pivot="boost")
    assert F.n_boosted == 2
    assert F.U.diag.all()


@pytest.mark.parametrize("tiny", [1e-310, 5e-324])
def test_no_pivot_stays_zero_in_a_row_of_subnormal_entries(tiny):
    F = factors(stored([[0, tiny], [None, 1]]), pivot="boost")
    assert F.U.diag.all()
    assert F.n_boosted == 1


@pytest.mark.parametrize("pivot", ["boost", "shift"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_good_pivots_are_not_touched_by_any_rule(dtype, pivot):
    A = reference.random_matrix(np.random.default_rng(14), 40, dtype, 0.1, 4.0)
    F, expected = factors(A, pivot=pivot), factors(A)
    assert_array_equal(F.L.data, expected.L.data)
    assert_array_equal(F.U.data, expected.U.data)
    assert_array_equal(F.U.diag, expected.U.diag)
    assert (F.n_boosted, F.shift, F.first_zero_pivot) == (0, 0, None)


# ---- shift --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "shift"),
    [((1.0, 2, 1000), 0), ((0.0, 1, 1000), 1), ((0.0, -1, 1000), 2), ((0.0, -1, -2, 1000), 4)],
)
def test_the_first_shift_that_works_is_taken(values, shift):
    F = factors(diagonal(*values), pivot="shift")
    assert F.shift == shift
    assert F.U.diag.tolist() == [v + shift for v in values]
    assert F.first_zero_pivot == (0 if shift else None)
    assert F.n_boosted == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifted_factors_are_those_of_the_shifted_matrix(dtype):
    A = reference.random_matrix(np.random.default_rng(15), 30, dtype, 0.2)
    A.data[A.indptr[3] : A.indptr[4]] = 0
    F = factors(A, pivot="shift")
    assert F.shift > 0
    assert F.first_zero_pivot == 3
    expected = factors(sp.csr_array(A + F.shift * sp.eye_array(30)).astype(dtype))
    assert_allclose(F.U.diag, expected.U.diag, rtol=0, atol=100 * np.finfo(dtype).eps)


def test_the_shift_is_reported():
    M = gpuilu.ilu0(stored([[1, 1], [1, 1]]), pivot="shift")
    assert M.info.shift == 1e-3
    assert M.info.first_zero_pivot == 1
    assert_allclose(M.U.diagonal(), [1.001, 1.001 - 1 / 1.001])


def test_a_zero_matrix_cannot_be_shifted():
    with pytest.raises(ZeroPivotError, match="no shift") as caught:
        factors(diagonal(0.0, 0.0), pivot="shift")
    assert caught.value.row == 0


# ---- rounding to another dtype ------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e300, -1e39])
def test_factors_that_overflow_when_they_are_rounded_are_an_error(value):
    with pytest.raises(ZeroPivotError, match=r"row 1 .*after rounding to float32") as caught:
        gpuilu.ilu0(diagonal(1.0, value), factor_dtype="f4")
    assert caught.value.row == 1


def test_a_pivot_that_rounds_to_zero_is_an_error():
    with pytest.raises(ZeroPivotError) as caught:
        gpuilu.ilu0(diagonal(1.0, 1e-300), factor_dtype="f4")
    assert caught.value.row == 1


@pytest.mark.parametrize("value", [1e-300, 1e300])
def test_an_update_whose_pivot_does_not_survive_rounding_changes_nothing(value):
    M = gpuilu.ilu0(diagonal(1.0, 2.0), factor_dtype="f4")
    with pytest.raises(ZeroPivotError):
        M.update(np.array([1.0, value]))
    assert M.matvec([1.0, 1.0]).tolist() == [1, 0.5]
