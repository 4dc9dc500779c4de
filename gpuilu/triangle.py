"""T = strict + D: a triangular matrix held as its strict part in CSR and its diagonal."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gpuilu.backend.cpu import njit

__all__ = ["Triangle", "Transposed"]


@dataclass(frozen=True, eq=False)
class Triangle:
    """T = strict + D, where D is the identity if `diag` is None.

    Parameters
    ----------
    lower : bool
        Which triangle the strict part lies in.
    indptr, indices : int32 ndarray, shapes (n + 1,) and (nnz_strict,)
        Pattern of the strict part, columns ascending in each row.
    data : ndarray, shape (nnz_strict,)
    diag : ndarray, shape (n,), or None
        The diagonal; None means a unit diagonal.
    """

    lower: bool
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    diag: np.ndarray | None

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

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

    @property
    def nbytes(self) -> int:
        diag = 0 if self.diag is None else self.diag.nbytes
        return self.indptr.nbytes + self.indices.nbytes + self.data.nbytes + diag

    def astype(self, dtype: np.dtype) -> Triangle:
        """The same triangle with values of another dtype (itself where nothing changes)."""
        if dtype == self.dtype:
            return self
        diag = None if self.diag is None else self.diag.astype(dtype)
        return replace(self, data=self.data.astype(dtype), diag=diag)

    def assign(self, other: Triangle) -> None:
        """Copy the values of a triangle of the same pattern into this one's arrays."""
        self.data[...] = other.data
        if self.diag is not None:
            self.diag[...] = other.diag

    def copy(self) -> Triangle:
        diag = None if self.diag is None else self.diag.copy()
        return replace(
            self,
            indptr=self.indptr.copy(),
            indices=self.indices.copy(),
            data=self.data.copy(),
            diag=diag,
        )

    def to_csr(self) -> sp.csr_array:
        """The whole triangle, diagonal included, as a new canonical `csr_array`."""
        n, diag = self.n, self.diag
        if diag is None:
            diag = np.ones(n, self.dtype)
        shift = np.arange(n + 1, dtype=np.int32)
        indptr = self.indptr + shift
        at = indptr[1:] - 1 if self.lower else indptr[:-1]
        strict = np.ones(len(self.indices) + n, bool)
        strict[at] = False
        indices = np.empty(len(strict), np.int32)
        data = np.empty(len(strict), self.dtype)
        indices[strict], indices[at] = self.indices, shift[:-1]
        data[strict], data[at] = self.data, diag
        return sp.csr_array((data, indices, indptr), shape=(n, n))


class Transposed:
    """T^T or T^H as a triangle of its own, refilled from T when T's values change."""

    def __init__(self, source: Triangle, conjugate: bool) -> None:
        self._source = source
        self._conjugate = conjugate and np.issubdtype(source.dtype, np.complexfloating)
        indptr, indices, self._position = _transpose(source.indptr, source.indices)
        diag = None if source.diag is None else np.empty_like(source.diag)
        data = np.empty_like(source.data)
        self.triangle = Triangle(not source.lower, indptr, indices, data, diag)
        self.refill()

    @property
    def nbytes(self) -> int:
        return self.triangle.nbytes + self._position.nbytes

    def refill(self) -> None:
        """Copy the source's present values."""
        source, T = self._source, self.triangle
        np.take(source.data, self._position, out=T.data)
        if T.diag is not None:
            T.diag[...] = source.diag
        if self._conjugate:
            np.conjugate(T.data, out=T.data)
            if T.diag is not None:
                np.conjugate(T.diag, out=T.diag)


@njit
def _transpose(indptr, indices):
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
