"""T = strict + D: a triangular matrix held as its strict part in CSR and its diagonal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import by_device, cuda, namespace, on_gpu
from gpuilu.backend.cpu import njit

__all__ = ["Pattern", "Transposed", "Triangle", "gather_rows", "transpose_pattern"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pattern of a strict triangle.

    Parameters
    ----------
    lower : bool
        Which triangle it lies in.
    indptr, indices : int32 ndarray, shapes (n + 1,) and (nnz_strict,)
        Columns ascending in each row.
    """

    lower: bool
    indptr: np.ndarray
    indices: np.ndarray

    @property
    def n(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True, eq=False)
class Triangle(Pattern):
    """T = strict + D, where D is the identity if `diag` is None.

    Parameters
    ----------
    lower, indptr, indices
        The pattern of the strict part.
    data : ndarray, shape (nnz_strict,)
    diag : ndarray, shape (n,), or None
        The diagonal; None means a unit diagonal.
    """

    data: np.ndarray
    diag: np.ndarray | None

    @property
    def nnz(self) -> int:
        """Stored entries, the diagonal included (a unit diagonal too)."""
        return len(self.indices) + self.n

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def unit_diagonal(self) -> bool:
        return self.diag is None

    def astype(self, dtype: np.dtype) -> Triangle:
        """The same triangle with values of another dtype (itself where nothing changes)."""
        if dtype == self.dtype:
            return self
        with np.errstate(over="ignore", invalid="ignore"):
            diag = None if self.diag is None else self.diag.astype(dtype)
            return replace(self, data=self.data.astype(dtype), diag=diag)

    def assign(self, other: Triangle) -> None:
        """Copy the values of a triangle of the same pattern into this one's arrays."""
        self.data[...] = other.data
        if self.diag is not None:
            self.diag[...] = other.diag

    def copy(self) -> Triangle:
        """The same triangle with values of its own; the pattern, which never changes, is shared."""
        diag = None if self.diag is None else self.diag.copy()
        return replace(self, data=self.data.copy(), diag=diag)

    def to_csr(self) -> Any:
        """The whole triangle, diagonal included, as a new canonical sparse matrix where T lives."""
        xp, n, diag = namespace(self.data), self.n, self.diag
        if diag is None:
            diag = xp.ones(n, self.dtype)
        shift = xp.arange(n + 1, dtype=np.int32)
        indptr = self.indptr + shift
        at = indptr[1:] - 1 if self.lower else indptr[:-1]
        strict = xp.ones(len(self.indices) + n, bool)
        strict[at] = False
        indices = xp.empty(len(strict), np.int32)
        data = xp.empty(len(strict), self.dtype)
        indices[strict], indices[at] = self.indices, shift[:-1]
        data[strict], data[at] = self.data, diag
        make = cuda.csr_matrix if on_gpu(data) else sp.csr_array
        return make((data, indices, indptr), shape=(n, n))


class Transposed:
    """T^T or T^H as a triangle of its own, refilled from T when T's values change."""

    def __init__(self, source: Triangle, conjugate: bool) -> None:
        self._source = source
        self._conjugate = conjugate and np.issubdtype(source.dtype, np.complexfloating)
        indptr, indices, self._position = transpose_pattern(source.indptr, source.indices)
        diag = None if source.diag is None else np.empty_like(source.diag)
        data = np.empty_like(source.data)
        self.triangle = Triangle(not source.lower, indptr, indices, data, diag)
        self.refill()

    def refill(self) -> None:
        """Copy the source's present values."""
        source, T = self._source, self.triangle
        source.data.take(self._position, out=T.data)
        if T.diag is not None:
            T.diag[...] = source.diag
        if self._conjugate:
            np.conjugate(T.data, out=T.data)
            if T.diag is not None:
                np.conjugate(T.diag, out=T.diag)


@njit
def _transpose_cpu(indptr, indices):
    """Pattern of the transpose, and for each of its entries the position it came from."""
    n, nnz = len(indptr) - 1, len(indices)
    t_indptr = np.zeros(n + 1, np.int32)
    for p in range(nnz):
        t_indptr[indices[p] + 1] += 1
    for j in range(n):
        t_indptr[j + 1] += t_indptr[j]
    fill = t_indptr[:-1].copy()
    t_indices = np.empty(nnz, np.int32)
    position = np.empty(nnz, np.int32)
    for i in range(n):
        for p in range(indptr[i], indptr[i + 1]):
            q = fill[indices[p]]
            fill[indices[p]] = q + 1
            t_indices[q] = i
            position[q] = p
    return t_indptr, t_indices, position


LANES = 8  # a row in transpose.cu
READS = 128  # on average an entry may make, to find its place in its column by reading all of it


def _transpose_cuda(indptr: Any, indices: Any) -> tuple[Any, Any, Any]:
    xp, n, nnz = namespace(indptr), len(indptr) - 1, len(indices)
    counts = xp.zeros(n, np.uint32)
    cuda.for_each("transpose", "count_columns", nnz, nnz, indices, counts)
    t_indptr = xp.zeros(n + 1, np.int32)
    t_indptr[1:] = xp.cumsum(counts, dtype=np.int32)
    if float((counts.astype(np.float64) ** 2).sum()) > READS * nnz:
        return t_indptr, *_sorted_by_column(indptr, indices)
    fill, scattered = t_indptr[:-1].copy(), xp.empty(nnz, np.uint64)
    rows = LANES * n if nnz else 0
    cuda.for_each("transpose", "scatter_entries", rows, n, indptr, indices, fill, scattered)
    t_indices, position = xp.empty(nnz, np.int32), xp.empty(nnz, np.int32)
    made = (t_indptr, scattered, t_indices, position)
    cuda.for_each("transpose", "rank_entries", nnz, nnz, indices, *made)
    return t_indptr, t_indices, position


def _sorted_by_column(indptr: Any, indices: Any) -> tuple[Any, Any]:
    """Row and position of every entry, column after column."""
    xp = namespace(indptr)
    position = xp.argsort(indices, kind="stable").astype(np.int32)
    row = xp.searchsorted(indptr[1:], xp.arange(len(indices), dtype=np.int32), side="right")
    return row.astype(np.int32)[position], position


transpose_pattern = by_device(_transpose_cpu, _transpose_cuda)


@njit
def _gather_rows_cpu(indptr, first, source):
    """Row i of the result is the run of `source` that begins at first[i]."""
    result = np.empty(indptr[-1], source.dtype)
    for i in range(len(first)):
        for p in range(indptr[i], indptr[i + 1]):
            result[p] = source[first[i] + p - indptr[i]]
    return result


def _gather_rows_cuda(indptr: Any, first: Any, source: Any) -> Any:
    xp = namespace(indptr)
    result = xp.empty(int(indptr[-1]), source.dtype)
    cuda.gather_rows(indptr, first, source, result)
    return result


gather_rows = by_device(_gather_rows_cpu, _gather_rows_cuda)
