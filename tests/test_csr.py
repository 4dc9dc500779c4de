"""The input gate: every kind of sparse matrix in, one canonical CSR matrix out."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from gpuilu.csr import canonical, with_diagonal
from gpuilu.errors import MissingDiagonalError

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
T3 = np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]])
# Unsymmetric in pattern and values; row 2 is empty but for its last entry.
B4 = np.array([[1.0, 2, 0, 3], [0, 4, 5, 0], [0, 0, 0, 6], [7, 0, 8, 9]])


def sparse(dense, fmt, kind="array"):
    options = {"blocksize": (1, 1)} if fmt == "bsr" else {}
    return getattr(sp, f"{fmt}_{kind}")(dense, **options)


def assert_is(C, dense):
    """C is canonical and holds `dense`, whose zeros are not stored."""
    assert C.indptr.dtype == C.indices.dtype == C.diagonal.dtype == np.int32
    expected = sp.csr_array(dense)
    assert_array_equal(C.indptr, expected.indptr)
    assert_array_equal(C.indices, expected.indices)
    assert_array_equal(C.data, expected.data)
    found = [[p for p in range(*C.indptr[i : i + 2]) if C.indices[p] == i] for i in range(C.n)]
    assert_array_equal(C.diagonal, [p[0] if p else -1 for p in found])
    assert C.n == len(dense)
    assert C.nnz == len(C.indices)


def unsummed(n, entries, fmt="csr", dtype=np.float64):
    """A matrix that stores (i, j, value) as they come, duplicates and all, columns in any order."""
    major = 1 if fmt == "csc" else 0
    if fmt != "coo":
        entries = sorted(entries, key=lambda entry: entry[major])  # stable
    i, j, v = (np.array([e[k] for e in entries], dtype=t) for k, t in enumerate((int, int, dtype)))
    if fmt == "coo":
        return sp.coo_array((v, (i, j)), shape=(n, n))
    indptr = np.searchsorted((i, j)[major], np.arange(n + 1))
    minor = (j, i)[major]
    data = v.reshape(-1, 1, 1) if fmt == "bsr" else v
    return getattr(sp, f"{fmt}_array")((data, minor, indptr), shape=(n, n))


def arrays(A):
    """Bytes of everything that A stores."""
    held = {}
    for name, value in vars(A).items():
        for k, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(part, np.ndarray):
                held[name, k] = part.tolist() if part.dtype == object else part.tobytes()
    return held or dict(A.items())


# ---- what is taken ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_every_format_and_class_gives_the_same_matrix_and_is_left_as_it_was(fmt, kind):
    A = sparse(B4, fmt, kind)
    before = arrays(A)
    assert_is(canonical(A), B4)
    assert arrays(A) == before


def test_a_literal_matrix_has_the_arrays_worked_out_by_hand():
    C = canonical(sp.csr_array(B4))
    assert C.indptr.tolist() == [0, 3, 5, 6, 9]
    assert C.indices.tolist() == [0, 1, 3, 1, 2, 3, 0, 2, 3]
    assert C.data.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert C.diagonal.tolist() == [0, 3, -1, 8]
    assert C.kept is None


def test_zeros_inside_stored_blocks_belong_to_the_pattern():
    C = canonical(sp.bsr_array(np.diag([1.0, 2, 3, 4]), blocksize=(2, 2)))
    assert C.indptr.tolist() == [0, 2, 4, 6, 8]
    assert C.indices.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert C.data.tolist() == [1, 0, 0, 2, 3, 0, 0, 4]


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "bsr"])
def test_explicit_zeros_are_kept(fmt):
    C = canonical(unsummed(2, [(0, 0, 0.0), (0, 1, 0.0), (1, 1, 2.0)], fmt))
    assert C.indices.tolist() == [0, 1, 1]
    assert C.data.tolist() == [0, 0, 2]


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "bsr"])
def test_columns_in_any_order_are_sorted_on_a_copy(fmt):
    rows = {0: (1, 0), 1: (2, 1, 0), 2: (2, 1)}
    A = unsummed(3, [(i, j, T3[i, j]) for i in rows for j in rows[i]], fmt)
    before = arrays(A)
    assert_is(canonical(A), T3)
    assert arrays(A) == before


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "bsr"])
def test_duplicates_are_summed_on_a_copy(fmt, dtype):
    entries = [(0, 0, 1.0), (0, 1, -1), (0, 0, 3), (1, 0, -1), (1, 1, 4), (1, 2, -1), (2, 1, -1)]
    A = unsummed(3, [*entries, (2, 2, 2), (2, 2, 1), (2, 2, 1)], fmt, dtype)
    before = arrays(A)
    C = canonical(A)
    assert_is(C, T3)
    assert C.data.dtype == dtype
    assert arrays(A) == before


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize(
    ("dtype", "value", "total"), [(np.int8, 100, 200), (np.uint8, 200, 400), (bool, True, 2)]
)
def test_duplicates_of_narrow_integers_are_summed_in_float64(fmt, dtype, value, total):
    C = canonical(unsummed(2, [(0, 0, value), (0, 0, value), (1, 1, 1)], fmt, dtype))
    assert C.data.dtype == np.float64
    assert C.data.tolist() == [total, 1]


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "bsr"])
def test_a_flag_that_calls_unsorted_duplicates_canonical_is_not_believed(fmt):
    A = unsummed(3, [(0, 1, -1), (0, 0, 1), (0, 0, 3), (1, 1, 5), (1, 0, 6), (2, 2, 7)], fmt)
    A.has_canonical_format = True
    A.has_sorted_indices = True
    assert_is(canonical(A), np.array([[4.0, -1, 0], [6, 5, 0], [0, 0, 7]]))


def readonly(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def strided(a):
    return np.repeat(a, 2)[::2]


@pytest.mark.parametrize(
    "change",
    [
        readonly,
        strided,
        lambda a: a[::-1].copy()[::-1],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: a.astype(np.int64) if a.dtype.kind == "i" else a,
        lambda a: a.astype(np.uint64) if a.dtype.kind == "i" else a,
        lambda a: a.astype(np.int16) if a.dtype.kind == "i" else a,
    ],
    ids=["read-only", "strided", "reversed", "big-endian", "int64", "uint64", "int16"],
)
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_arrays_of_any_layout_and_index_width_are_taken(fmt, change):
    A = sparse(B4, fmt)
    A.data = change(A.data)
    if fmt == "coo":
        A.coords = tuple(change(index) for index in A.coords)
    else:
        A.indptr, A.indices = change(A.indptr), change(A.indices)
    before = arrays(A)
    C = canonical(A)
    assert_is(C, B4)
    assert C.data.dtype.isnative
    assert arrays(A) == before


def test_what_is_canonical_already_is_shared_not_copied():
    A = sp.csr_array(B4)
    C = canonical(A)
    for mine, theirs in ((C.indptr, A.indptr), (C.indices, A.indices), (C.data, A.data)):
        assert np.shares_memory(mine, theirs)


@pytest.mark.parametrize("fmt", ["bsr", "coo", "csc", "csr", "dok", "lil"])
def test_an_empty_and_a_one_by_one_matrix_are_legal(fmt):
    assert_is(canonical(sparse((0, 0), fmt)), np.zeros((0, 0)))
    assert_is(canonical(sparse(np.array([[5.0]]), fmt)), np.array([[5.0]]))
    assert_is(canonical(sparse((1, 1), fmt)), np.zeros((1, 1)))


@pytest.mark.parametrize("fmt", FORMATS)
def test_empty_rows_are_legal(fmt):
    assert_is(canonical(sparse((3, 3), fmt)), np.zeros((3, 3)))
    middle = np.array([[1.0, 0, 2], [0, 0, 0], [0, 0, 3]])
    assert_is(canonical(sparse(middle, fmt)), middle)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.data())
def test_any_triplets_become_what_scipy_sums_them_to(data):
    n = data.draw(st.integers(1, 6))
    index = st.integers(0, n - 1)
    triplets = data.draw(st.lists(st.tuples(index, index, st.integers(-8, 8)), max_size=20))
    fmt = data.draw(st.sampled_from(["coo", "csr", "csc", "bsr"]))
    C = canonical(unsummed(n, triplets, fmt))
    rows = np.repeat(np.arange(n), np.diff(C.indptr))
    assert list(zip(rows, C.indices, strict=True)) == sorted({(i, j) for i, j, _ in triplets})
    expected = np.zeros((n, n))
    for i, j, v in triplets:
        expected[i, j] += v
    assert_array_equal(C.data, expected[rows, C.indices])
    stored = np.flatnonzero(C.diagonal >= 0)
    assert_array_equal(C.indices[C.diagonal[stored]], stored)
    assert set(stored) == {i for i, j, _ in triplets if i == j}


# ---- dtypes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D", ">f4", ">f8", ">c8", ">c16"])
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_the_four_value_dtypes_are_kept_in_native_order(fmt, dtype):
    A = sparse(T3, fmt)
    A.data = A.data.astype(dtype)
    C = canonical(A)
    assert C.data.dtype == np.dtype(dtype).newbyteorder("=")
    assert_is(C, T3)


@pytest.mark.parametrize("dtype", "?bBhHiIlLqQ")
@pytest.mark.parametrize("fmt", FORMATS)
def test_integers_and_booleans_become_float64(fmt, dtype):
    C = canonical(sparse((T3 != 0).astype(dtype), fmt))
    assert C.data.dtype == np.float64
    assert_is(C, (T3 != 0).astype(float))


def test_complex_values_are_not_conjugated_or_truncated():
    A = np.array([[1 + 2j, 3j], [0, 4 - 5j]])
    for fmt in FORMATS:
        assert_is(canonical(sparse(A, fmt)), A)


def test_nan_and_inf_pass_the_gate_unchanged():
    A = np.array([[np.nan, np.inf], [-np.inf, 1.0]])
    for fmt in FORMATS:
        assert_is(canonical(sparse(A, fmt)), A)


# ---- missing diagonal entries -------------------------------------------------------------------


def entry_missing():
    """[[2, 1, 0], [1, ., 1], [0, 1, 2]]."""
    return sp.csr_array(np.array([[2.0, 1, 0], [1, 0, 1], [0, 1, 2]]))


def test_a_missing_diagonal_entry_raises_and_says_what_helps():
    with pytest.raises(MissingDiagonalError, match=r"row 1 .*structural.*'insert'") as caught:
        with_diagonal(canonical(entry_missing()), "raise")
    assert caught.value.row == 1


@pytest.mark.parametrize("absent", [[0], [3], [1, 3], [3, 2], [0, 1, 2, 3]])
def test_the_smallest_row_without_a_diagonal_entry_is_named(absent):
    A = np.ones((4, 4))
    A[absent, absent] = 0
    with pytest.raises(MissingDiagonalError, match=f"{len(absent)} of 4") as caught:
        with_diagonal(canonical(sp.csr_array(A)), "raise")
    assert caught.value.row == min(absent)


def test_an_inserted_diagonal_entry_is_an_explicit_zero_in_its_place():
    C = with_diagonal(canonical(entry_missing()), "insert")
    assert C.indptr.tolist() == [0, 2, 5, 7]
    assert C.indices.tolist() == [0, 1, 0, 1, 2, 1, 2]
    assert C.data.tolist() == [2, 1, 1, 0, 1, 1, 2]
    assert C.diagonal.tolist() == [0, 3, 6]
    assert C.kept.tolist() == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("missing", ["raise", "insert"])
def test_a_full_diagonal_is_left_as_it_is(missing):
    C = canonical(sp.csr_array(T3))
    assert with_diagonal(C, missing) is C
    empty = canonical(sp.csr_array((0, 0)))
    assert with_diagonal(empty, missing) is empty


def test_an_explicit_zero_on_the_diagonal_is_not_missing():
    C = canonical(unsummed(2, [(0, 0, 0.0), (1, 1, 0.0)]))
    assert with_diagonal(C, "raise") is C


def test_a_matrix_without_entries_misses_row_zero_and_can_be_filled():
    C = canonical(sp.csr_array((3, 3)))
    with pytest.raises(MissingDiagonalError) as caught:
        with_diagonal(C, "raise")
    assert caught.value.row == 0
    filled = with_diagonal(C, "insert")
    assert filled.indices.tolist() == filled.diagonal.tolist() == [0, 1, 2]
    assert filled.data.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["f", "D"])
def test_insertion_adds_nothing_but_the_missing_diagonal_entries(dtype):
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 40):
        A = sp.random_array((n, n), density=0.2, rng=rng, dtype=dtype, format="csr")
        C = with_diagonal(canonical(A), "insert")
        assert_array_equal(sp.csr_array((C.data, C.indices, C.indptr)).toarray(), A.toarray())
        assert_array_equal(C.indices[C.diagonal], np.arange(n))
        ones = sp.csr_array((np.ones(C.nnz), C.indices, C.indptr), shape=(n, n)).toarray()
        assert_array_equal(ones != 0, (A.toarray() != 0) | np.eye(n, dtype=bool))
        assert C.data.dtype == dtype
