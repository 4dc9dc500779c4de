"""The input gate refuses what is not a well-formed square sparse matrix, before it allocates."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from gpuilu import csr
from gpuilu.csr import canonical
from gpuilu.errors import InvalidMatrixError, UnsupportedDtypeError

T3 = np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]])
B4 = np.array([[1.0, 2, 0, 3], [0, 4, 5, 0], [0, 0, 0, 6], [7, 0, 8, 9]])


def sparse(dense, fmt):
    return getattr(sp, f"{fmt}_array")(dense)


@pytest.mark.parametrize("fmt", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (0, 1)])
def test_a_rectangular_matrix_is_refused_with_its_shape(fmt, shape):
    with pytest.raises(InvalidMatrixError, match=rf"square.*\({shape[0]}, {shape[1]}\)"):
        canonical(sparse(shape, fmt))


def test_a_one_dimensional_sparse_array_is_refused():
    with pytest.raises(InvalidMatrixError, match="square"):
        canonical(sp.coo_array(np.ones(4)))


@pytest.mark.parametrize(
    "A",
    [T3, np.matrix(T3), T3.tolist(), None, aslinearoperator(T3)],
    ids=lambda A: type(A).__name__,
)
def test_what_is_not_sparse_is_refused_with_the_cure(A):
    with pytest.raises(InvalidMatrixError, match=r"sparse matrix, found .*csr_array\(A\)"):
        canonical(A)


# What is done to the arrays of a valid matrix; a function that returns arrays replaces them.
CORRUPTIONS = {
    "an index equal to n": ("indices", lambda a, A: put(a, -1, len(A.indptr) - 1)),
    "a huge index": ("indices", lambda a, A: a.astype(np.int64) + 2**40),
    "an index of -1": ("indices", lambda a, A: put(a, 0, -1)),
    "fractional indices": ("indices", lambda a, A: a + 0.5),
    "two-dimensional indices": ("indices", lambda a, A: a.reshape(1, -1)),
    "too few indices": ("indices", lambda a, A: a[:-1]),
    "indptr below zero": ("indptr", lambda a, A: put(a, 1, -1)),
    "indptr beyond the entries": ("indptr", lambda a, A: put(a, 1, a[-1] + 1)),
    "indptr that ends too early": ("indptr", lambda a, A: put(a, -1, a[-1] - 1)),
    "indptr that ends too late": ("indptr", lambda a, A: put(a, -1, a[-1] + 1)),
    "indptr that ends below zero": ("indptr", lambda a, A: put(a, -1, -1)),
    "indptr that begins with 1": ("indptr", lambda a, A: put(a, 0, 1)),
    "too few entries in indptr": ("indptr", lambda a, A: a[:-1]),
    "too many entries in indptr": ("indptr", lambda a, A: np.append(a, a[-1])),
    "no entry in indptr": ("indptr", lambda a, A: a[:0]),
    "fractional indptr": ("indptr", lambda a, A: a + 0.5),
    "two-dimensional indptr": ("indptr", lambda a, A: a.reshape(-1, 1)),
    "too few values": ("data", lambda a, A: a[:-1]),
    "too many values": ("data", lambda a, A: np.concatenate([a, a])),
    "values of another dimension": ("data", lambda a, A: a.reshape(len(a), -1, 1, 1)),
}


def put(a, at, value):
    a[at] = value
    return a


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
def test_broken_compressed_arrays_are_refused(fmt, corruption):
    A = sp.bsr_array(B4, blocksize=(2, 2)) if fmt == "bsr" else sparse(B4, fmt)
    name, change = CORRUPTIONS[corruption]
    setattr(A, name, change(getattr(A, name), A))
    with pytest.raises(InvalidMatrixError):
        canonical(A)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_a_decreasing_indptr_is_refused(fmt):
    A = sparse(B4, fmt)
    A.indptr[1:3] = A.indptr[2:0:-1]
    with pytest.raises(InvalidMatrixError, match="decreases"):
        canonical(A)


def test_blocks_of_another_shape_than_the_pattern_was_made_for_are_refused():
    A = sp.bsr_array(B4, blocksize=(2, 2))
    A.data = np.ones((len(A.indices), 3, 3))
    with pytest.raises(InvalidMatrixError):
        canonical(A)


COO_CORRUPTIONS = {
    "a row index equal to n": lambda row, col, data: (put(row, 0, 4), col, data),
    "a column index equal to n": lambda row, col, data: (row, put(col, 0, 4), data),
    "a row index of -1": lambda row, col, data: (put(row, -1, -1), col, data),
    "a column index of -1": lambda row, col, data: (row, put(col, -1, -1), data),
    "an index beyond 32 bits": lambda row, col, data: (row.astype("l") + 2**32, col, data),
    "fractional rows": lambda row, col, data: (row + 0.5, col, data),
    "fractional columns": lambda row, col, data: (row, col + 0.5, data),
    "too few rows": lambda row, col, data: (row[:-1], col, data),
    "too few columns": lambda row, col, data: (row, col[:-1], data),
    "too few values": lambda row, col, data: (row, col, data[:-1]),
    "two-dimensional values": lambda row, col, data: (row, col, data.reshape(-1, 1)),
}


@pytest.mark.parametrize("corruption", COO_CORRUPTIONS)
def test_broken_coordinates_are_refused(corruption):
    A = sp.coo_array(B4)
    *A.coords, A.data = COO_CORRUPTIONS[corruption](*A.coords, A.data)
    with pytest.raises(InvalidMatrixError):
        canonical(A)


def test_more_diagonals_than_values_are_refused():
    A = sp.dia_array((np.ones((1, 4)), [0]), shape=(4, 4))
    A.offsets = np.array([0, 1])
    with pytest.raises(InvalidMatrixError):
        canonical(A)


def test_list_rows_with_more_values_than_columns_are_refused_before_they_harm_the_process():
    code = (
        "import numpy as np, scipy.sparse as sp, gpuilu\n"
        "A = sp.lil_array(np.eye(3)); A.data[0] = [1.0, 2.0] * 1000\n"
        "try: gpuilu.ilu0(A)\n"
        "except gpuilu.InvalidMatrixError: print('refused')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "refused"), ran.stderr


def test_an_index_error_says_where_it_is_and_what_is_allowed():
    A = sp.csr_array(B4)
    A.indices[4] = 7
    with pytest.raises(InvalidMatrixError, match="row 1 has column index 7, outside 0 to 3"):
        canonical(A)
    A = sp.csc_array(B4)
    A.indices[0] = -2
    with pytest.raises(InvalidMatrixError, match="column 0 has row index -2, outside 0 to 3"):
        canonical(A)
    A = sp.coo_array(B4)
    A.coords[1][5] = 9
    with pytest.raises(InvalidMatrixError, match="entry 5 has column index 9, outside 0 to 3"):
        canonical(A)


def huge_rows():
    """2^31 entries in one row, of which only one is in memory."""
    A = sp.csr_array((1, 1))
    A.indptr = np.array([0, 2**31])
    A.indices = np.broadcast_to(np.int64(0), 2**31)
    A.data = np.broadcast_to(1.0, 2**31)
    return A


@pytest.mark.parametrize(
    "make",
    [huge_rows, lambda: sp.coo_array((2**31, 2**31)), lambda: sp.dia_array((2**31, 2**31))],
    ids=["entries", "order", "order of a band matrix"],
)
def test_what_does_not_fit_32_bit_indices_is_refused_before_any_allocation(make):
    A = make()
    tracemalloc.start()
    with pytest.raises(InvalidMatrixError, match="32-bit"):
        canonical(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_the_limit_counts_the_entries_and_a_diagonal_that_may_be_inserted(monkeypatch):
    monkeypatch.setattr(csr, "INDEX_MAX", 10)
    assert canonical(sp.csr_array(T3)).nnz == 7  # 7 entries and 3 rows
    monkeypatch.setattr(csr, "INDEX_MAX", 9)
    with pytest.raises(InvalidMatrixError, match="n = 3 with 7 entries"):
        canonical(sp.csr_array(T3))


@pytest.mark.parametrize(
    "dtype", ["f2", "longdouble", "clongdouble", "O", "U3", "M8[s]", "m8[s]", "V8"]
)
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_values_that_are_not_numbers_of_a_supported_precision_are_refused(fmt, dtype):
    A = sparse(np.eye(3), fmt)
    A.data = np.zeros(3, dtype)
    with pytest.raises(UnsupportedDtypeError, match=r"float32, float64, .*convert with"):
        canonical(A)
