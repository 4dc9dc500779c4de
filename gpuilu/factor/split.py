"""A = L + D + U: the strict triangles of a matrix as patterns made once and values copied out."""

from __future__ import annotations

import numpy as np

from gpuilu.backend.cpu import njit
from gpuilu.factor.base import PatternFactorization
from gpuilu.triangle import Triangle

__all__ = ["Split"]


class Split:
    """The strict lower and strict upper part of a kept pattern."""

    def __init__(self, A: PatternFactorization) -> None:
        self._indptr, self._diagonal = A.indptr, A.diagonal
        lower, upper = _split_pattern(A.indptr, A.indices, A.diagonal)
        self._lower, self._upper = lower, upper

    def lower(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict lower part of the values `data` on the whole pattern, with the diagonal given."""
        return Triangle(True, *self._lower, self._copy(data, lower=True), diag)

    def upper(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict upper part of the values `data` on the whole pattern, with the diagonal given."""
        return Triangle(False, *self._upper, self._copy(data, lower=False), diag)

    def _copy(self, data: np.ndarray, lower: bool) -> np.ndarray:
        indptr = (self._lower if lower else self._upper)[0]
        first = self._indptr[:-1] if lower else self._diagonal + np.int32(1)
        return _gather_rows(indptr, first, data)


@njit
def _split_pattern(indptr, indices, diagonal):
    """((indptr, indices) of the strict lower triangle, (indptr, indices) of the strict upper)."""
    n = len(diagonal)
    L_indptr, U_indptr = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    for i in range(n):
        L_indptr[i + 1] = L_indptr[i] + diagonal[i] - indptr[i]
        U_indptr[i + 1] = U_indptr[i] + indptr[i + 1] - diagonal[i] - 1
    L_indices = _gather_rows(L_indptr, indptr[:-1], indices)
    U_indices = _gather_rows(U_indptr, diagonal + np.int32(1), indices)
    return (L_indptr, L_indices), (U_indptr, U_indices)


@njit
def _gather_rows(indptr, first, source):
    """Row i of the result is a run of `source` that begins at first[i]."""
    result = np.empty(indptr[-1], source.dtype)
    for i in range(len(first)):
        for p in range(indptr[i], indptr[i + 1]):
            result[p] = source[first[i] + p - indptr[i]]
    return result
