"""The input gate: any sparse matrix in, one validated, canonical, square CSR matrix out.

Canonical means 32-bit indices, columns ascending in each row and no column twice. The user's arrays
are never changed; what is already canonical is shared, not copied. A cupyx matrix is checked and
sorted on its GPU; only the verdict comes to the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import by_device, cuda, is_cupy, map_arrays, namespace, on_gpu
from gpuilu.backend.cpu import njit
from gpuilu.errors import InvalidMatrixError, MissingDiagonalError, UnsupportedDtypeError

__all__ = ["CSR", "canonical", "inexact_dtype", "with_diagonal"]

INDEX_MAX = np.iinfo(np.int32).max
VALUE_DTYPES = tuple(np.dtype(t) for t in "fdFD")


@dataclass(frozen=True, eq=False)
class CSR:
    """A canonical square CSR matrix.

    Parameters
    ----------
    indptr, indices : int32 ndarray, shapes (n + 1,) and (nnz,)
    data : ndarray, shape (nnz,)
    diagonal : int32 ndarray, shape (n,)
        Position of each row's diagonal entry in `indices`, -1 where none is stored.
    kept : int32 ndarray or None
        Where diagonal entries were inserted: the positions of the entries that came from the user.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    diagonal: np.ndarray
    kept: np.ndarray | None = None

    @property
    def n(self) -> int:
        return len(self.diagonal)

    @property
    def nnz(self) -> int:
        return len(self.indices)

    def with_data(self, data: np.ndarray) -> CSR:
        return replace(self, data=data)

    @property
    def device(self) -> str:
        """Where the arrays are: "cpu", or "cuda:0" and so on."""
        return cuda.place_of(self.data)

    def to(self, device: str) -> CSR:
        """The same matrix on another device (itself if it is there)."""
        if device == self.device:
            return self
        return map_arrays(self, cuda.mover(device))

    def owned(self, device: str, dtype: Any = None) -> CSR:
        """A copy on a device, in another dtype if one is given: nothing is shared."""
        C = self.with_data(self.data.astype(dtype or self.data.dtype, copy=False))
        return C.to(device) if device != C.device else map_arrays(C, lambda a: a.copy())


def inexact_dtype(dtype: Any) -> np.dtype:
    """The value dtype for a matrix or vector of `dtype`: integers and bool become float64."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        return np.dtype(np.float64)
    if dtype.newbyteorder("=") in VALUE_DTYPES:
        return dtype.newbyteorder("=")
    raise UnsupportedDtypeError(
        f"dtype {dtype} is not supported: expected float32, float64, complex64, complex128, "
        "or integers, which are taken as float64; convert with .astype(...)"
    )


def canonical(A: Any) -> CSR:
    """Validate A and bring it into canonical CSR form.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any format. Duplicate entries are summed in the value dtype; explicit zeros are kept (but
        for DIA, whose conversion drops them).

    Raises
    ------
    InvalidMatrixError
        If A is not sparse, not square, too large for 32-bit indices, or has broken index arrays.
    UnsupportedDtypeError
        If the entries are not numbers of a supported precision.
    """
    if not is_sparse(A):
        raise InvalidMatrixError(
            f"expected a sparse matrix, found {type(A).__name__}; "
            "wrap a dense array as scipy.sparse.csr_array(A)"
        )
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidMatrixError(f"expected a square matrix, found shape {A.shape}")
    dtype = inexact_dtype(A.dtype)
    if not is_cupy(A):
        return _canonical(A, A.shape[0], dtype)
    with cuda.use(cuda.device_of(A.data)):
        return _canonical(A, A.shape[0], dtype)


def is_sparse(A: Any) -> bool:
    """Whether A is a sparse matrix of SciPy or of CuPy."""
    return sp.issparse(A) or (is_cupy(A) and hasattr(A, "tocsr"))


def _canonical(A: Any, n: int, dtype: np.dtype) -> CSR:
    indptr, indices, data = _csr_arrays(A, dtype)
    xp = namespace(data)
    data = xp.ascontiguousarray(data, dtype=dtype)
    is_canonical, diagonal = _check_compressed(indptr, indices, n, n, "row", "column")
    indptr = indptr.astype(np.int32, copy=False)
    indices = indices.astype(np.int32, copy=False)
    if not is_canonical:
        indptr, indices, data = _summed(data, indices, indptr, n)
        diagonal = _scan(indptr, indices, n)[3]
    return CSR(indptr, indices, data, diagonal)


def _summed(data: Any, indices: Any, indptr: Any, n: int) -> tuple[Any, Any, Any]:
    """Sorted copies with duplicates summed."""
    make = cuda.csr_matrix if on_gpu(data) else sp.csr_array
    copy = make((data.copy(), indices.copy(), indptr.copy()), shape=(n, n))
    copy.sum_duplicates()
    return copy.indptr.astype(np.int32), copy.indices.astype(np.int32), copy.data


INSERT = "pass missing_diagonal='insert' to put an explicit zero there"


def with_diagonal(A: CSR, missing: str, remedy: str = INSERT) -> CSR:
    """A with every diagonal entry in its pattern: as it is, with zeros inserted, or an error."""
    absent = A.diagonal < 0
    n_absent = int(absent.sum())
    if n_absent == 0:
        return A
    if missing == "raise":
        row = int(absent.argmax())
        raise MissingDiagonalError(
            f"row {row} has no stored diagonal entry (a structural zero; {n_absent} of "
            f"{A.n} rows); {remedy}, or permute the matrix so that its diagonal is free of zeros "
            "(scipy.sparse.csgraph.maximum_bipartite_matching)",
            row,
        )
    indptr, indices, diagonal, kept = _insert_diagonal(A.indptr, A.indices, absent)
    data = namespace(A.data).zeros(len(indices), A.data.dtype)
    data[kept] = A.data
    return CSR(indptr, indices, data, diagonal, kept)


def row_of_entries(indptr: Any, nnz: int) -> Any:
    """The row of each entry, shape (nnz,)."""
    if not on_gpu(indptr):
        return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    xp = namespace(indptr)
    return xp.searchsorted(indptr[1:], xp.arange(nnz), side="right").astype(np.int32)


def _csr_arrays(A: Any, dtype: np.dtype) -> tuple[Any, Any, Any]:
    """(indptr, indices, data) of A by rows; structure is checked before SciPy converts it."""
    if A.format == "csr":
        data = _checked_data(A)
        _require_32_bits(A.shape[0], len(data))
        return _index_array(A.indptr), _index_array(A.indices), data
    if check := STRUCTURE.get(A.format):
        _require_32_bits(A.shape[0], check(A))
    try:
        _require_32_bits(A.shape[0], A.nnz)
        if A.format == "coo" and A.dtype != dtype:
            A = A.astype(dtype)  # before duplicates are summed
        R = A.tocsr()
    except InvalidMatrixError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidMatrixError(f"the {A.format} matrix is malformed: {error}") from error
    return _index_array(R.indptr), _index_array(R.indices), R.data


def _require_32_bits(n: int, nnz: int) -> None:
    if nnz + n > INDEX_MAX:
        raise InvalidMatrixError(
            f"n = {n} with {nnz} entries does not fit 32-bit indices "
            f"(entries and diagonal together at most {INDEX_MAX})"
        )


def _index_array(a: Any) -> np.ndarray:
    a = a if is_cupy(a) else np.asarray(a)
    if a.ndim != 1 or a.dtype.kind not in "iu":
        raise InvalidMatrixError(
            f"index arrays must be one-dimensional integers, found {a.ndim}-d {a.dtype}"
        )
    dtype = np.int32 if a.dtype == np.int32 else np.int64
    return namespace(a).ascontiguousarray(a, dtype=dtype)


def _checked_data(A: Any) -> Any:
    data = A.data if is_cupy(A) else np.asarray(A.data)
    if data.ndim != 1 or len(data) != len(A.indices):
        raise InvalidMatrixError(
            f"found {len(A.indices)} indices but values of shape {data.shape}; "
            "they must be as many, in one dimension"
        )
    return data


def _check_compressed(
    indptr: np.ndarray, indices: np.ndarray, n_major: int, n_minor: int, major: str, minor: str
) -> tuple[bool, np.ndarray]:
    """Raise unless well formed; (is it canonical, positions of the diagonal)."""
    nnz = len(indices)
    first, last = (int(end) for end in indptr[[0, -1]]) if len(indptr) else (-1, -1)
    if len(indptr) != n_major + 1 or first != 0:
        raise InvalidMatrixError(
            f"indptr must have {n_major + 1} entries and begin with 0, found {len(indptr)} "
            f"entries beginning with {first if len(indptr) else 'none'}"
        )
    if last != nnz:
        raise InvalidMatrixError(
            f"indptr ends with {last} but there are {nnz} indices; "
            "call prune() if the surplus is meant to be dropped"
        )
    bad, where, is_canonical, diagonal = _scan(indptr, indices, n_minor)
    if bad >= 0 and where < 0:
        raise InvalidMatrixError(f"indptr decreases or exceeds {nnz} at {major} {bad}")
    if bad >= 0:
        raise InvalidMatrixError(
            f"{major} {bad} has {minor} index {int(indices[where])}, outside 0 to {n_minor - 1}"
        )
    return is_canonical, diagonal


# What SciPy's conversions rely on, by format: each returns the number of entries, or raises.
def _check_columns(A: Any) -> int:
    data = _checked_data(A)
    indptr, indices = _index_array(A.indptr), _index_array(A.indices)
    _check_compressed(indptr, indices, A.shape[1], A.shape[0], "column", "row")
    return len(data)


def _check_blocks(A: Any) -> int:
    if A.data.ndim != 3 or len(A.data) != len(A.indices):
        raise InvalidMatrixError("a BSR matrix needs one block of values for each block index")
    R, C = A.data.shape[1:]
    rows, columns = A.shape[0] // R, A.shape[1] // C
    indptr, indices = _index_array(A.indptr), _index_array(A.indices)
    _check_compressed(indptr, indices, rows, columns, "block row", "block column")
    return A.data.size


def _check_coordinates(A: Any) -> int:
    indices = {"row": A.row, "column": A.col}
    if any(index.shape != A.data.shape for index in indices.values()) or A.data.ndim != 1:
        raise InvalidMatrixError("row, col and data of a COO matrix must be as long as each other")
    for name, index in indices.items():
        if index.dtype.kind not in "iu":
            raise InvalidMatrixError(f"{name} indices must be integers, found {index.dtype}")
        bad = (index < 0) | (index >= A.shape[0])
        if bad.any():
            p = int(bad.argmax())
            raise InvalidMatrixError(
                f"entry {p} has {name} index {int(index[p])}, outside 0 to {A.shape[0] - 1}"
            )
    return len(A.data)


def _check_diagonals(A: Any) -> int:
    if A.data.ndim != 2 or len(A.data) != len(A.offsets):
        raise InvalidMatrixError(
            f"found {len(A.offsets)} offsets but values of shape {A.data.shape}; "
            "a DIA matrix needs one row of values for each offset"
        )
    return A.data.size


def _check_lists(A: Any) -> int:
    for i, (columns, values) in enumerate(zip(A.rows, A.data, strict=True)):
        if len(columns) != len(values):
            raise InvalidMatrixError(
                f"row {i} has {len(columns)} column indices but {len(values)} values"
            )
    return sum(map(len, A.rows))


STRUCTURE = {
    "csc": _check_columns,
    "bsr": _check_blocks,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
}


@njit
def _scan_cpu(indptr, indices, n_minor):
    """(bad row, bad position, is canonical, diagonal positions); -1 for what is not bad."""
    n = len(indptr) - 1
    nnz = len(indices)
    diagonal = np.full(n, -1, np.int32)
    is_canonical = True
    for i in range(n):
        if indptr[i + 1] < indptr[i] or indptr[i + 1] > nnz:
            return i, -1, False, diagonal
        previous = -1
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if j < 0 or j >= n_minor:
                return i, p, False, diagonal
            if j <= previous:
                is_canonical = False
            if j == i:
                diagonal[i] = p
            previous = j
    return -1, -1, is_canonical, diagonal


def _scan_cuda(indptr: Any, indices: Any, n_minor: int) -> tuple[int, int, bool, Any]:
    xp, n = namespace(indptr), len(indptr) - 1
    diagonal, found = xp.empty(n, np.int32), cuda.marked(3)
    index = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}[indices.dtype]
    extents = indptr.astype(indices.dtype, copy=False)
    cuda.for_each(
        "pattern",
        f"scan_rows<{index}>",
        n,
        n,
        np.int64(len(indices)),
        n_minor,
        extents,
        indices,
        diagonal,
        found,
    )
    extent, column, unsorted = (int(row) for row in cuda.to_host(found).view(np.int32))
    if extent >= 0:
        return extent, -1, False, diagonal
    if column >= 0:
        begin, end = (int(p) for p in indptr[column : column + 2])
        outside = (indices[begin:end] < 0) | (indices[begin:end] >= n_minor)
        return column, begin + int(outside.argmax()), False, diagonal
    return -1, -1, unsorted < 0, diagonal


_scan = by_device(_scan_cpu, _scan_cuda)


def _insert_diagonal(indptr: Any, indices: Any, absent: Any) -> tuple[Any, Any, Any, Any]:
    """Pattern with the absent diagonal entries inserted, and where each old entry went."""
    xp, n = namespace(indptr), len(indptr) - 1
    inserted = xp.zeros(n + 1, np.int32)
    inserted[1:] = xp.cumsum(absent)
    row = row_of_entries(indptr, len(indices))
    behind = absent[row] & (indices > row)
    kept = (xp.arange(len(indices), dtype=np.int32) + inserted[row] + behind).astype(np.int32)
    new_indptr = indptr + inserted
    new_indices = xp.full(len(indices) + int(inserted[-1]), -1, np.int32)
    new_indices[kept] = indices
    free = xp.flatnonzero(new_indices < 0)
    new_indices[free] = xp.flatnonzero(absent)
    new_diagonal = _scan(new_indptr, new_indices, n)[3]
    return new_indptr, new_indices, new_diagonal, kept
