"""A = L + D + U: the strict triangles of a matrix as patterns made once and values copied out."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.factor.base import PatternFactorization
from gpuilu.triangle import Triangle, gather_rows

__all__ = ["Split"]


class Split:
    """The strict lower and strict upper part of a kept pattern."""

    def __init__(self, A: PatternFactorization) -> None:
        self._indptr, self._diagonal = A.indptr, A.diagonal
        lower, upper = _split_pattern(A.indptr, A.indices, A.diagonal)
        self._lower, self._upper = lower, upper

    @property
    def lower_pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """(indptr, indices) of the strict lower part."""
        return self._lower

    def lower(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict lower part of the values `data` on the whole pattern, with the diagonal given."""
        return Triangle(True, *self._lower, self._copy(data, lower=True), diag)

    def upper(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict upper part of the values `data` on the whole pattern, with the diagonal given."""
        return Triangle(False, *self._upper, self._copy(data, lower=False), diag)

    def _copy(self, data: np.ndarray, lower: bool) -> np.ndarray:
        indptr = (self._lower if lower else self._upper)[0]
        first = self._indptr[:-1] if lower else self._diagonal + np.int32(1)
        return gather_rows(indptr, first, data)


def _split_pattern(indptr: Any, indices: Any, diagonal: Any) -> tuple[tuple[Any, Any], ...]:
    """((indptr, indices) of the strict lower triangle, (indptr, indices) of the strict upper)."""
    xp, n = namespace(indptr), len(diagonal)
    L_indptr, U_indptr = xp.zeros(n + 1, np.int32), xp.zeros(n + 1, np.int32)
    L_indptr[1:] = xp.cumsum(diagonal - indptr[:-1])
    U_indptr[1:] = xp.cumsum(indptr[1:] - diagonal - np.int32(1))
    L_indices = gather_rows(L_indptr, indptr[:-1], indices)
    U_indices = gather_rows(U_indptr, diagonal + np.int32(1), indices)
    return (L_indptr, L_indices), (U_indptr, U_indices)
