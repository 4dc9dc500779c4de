"""A = L + D + U: the strict triangles of a matrix as patterns made once and values copied out."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.factor.base import PatternFactorization
from gpuilu.triangle import Pattern, Triangle, gather_rows

__all__ = ["Split"]


class Split:
    """The strict lower and strict upper part of a kept pattern."""

    def __init__(self, A: PatternFactorization) -> None:
        self._indptr, self._indices, self._diagonal = A.indptr, A.indices, A.diagonal
        self._patterns: dict[bool, Pattern] = {}

    def pattern(self, lower: bool) -> Pattern:
        """The pattern of one strict triangle, made at its first use."""
        if lower not in self._patterns:
            first = self._first(lower)
            after = self._diagonal if lower else self._indptr[1:]
            indptr = namespace(first).zeros(len(first) + 1, np.int32)
            indptr[1:] = (after - first).cumsum()
            self._patterns[lower] = Pattern(
                lower, indptr, gather_rows(indptr, first, self._indices)
            )
        return self._patterns[lower]

    def lower(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict lower part of the values `data` on the whole pattern, with the diagonal given."""
        return self._triangle(True, data, diag)

    def upper(self, data: np.ndarray, diag: np.ndarray | None) -> Triangle:
        """Strict upper part of the values `data` on the whole pattern, with the diagonal given."""
        return self._triangle(False, data, diag)

    def _triangle(self, lower: bool, data: Any, diag: Any) -> Triangle:
        P = self.pattern(lower)
        values = gather_rows(P.indptr, self._first(lower), data)
        return Triangle(lower, P.indptr, P.indices, values, diag)

    def _first(self, lower: bool) -> Any:
        """Where each row of the triangle begins in the whole pattern."""
        return self._indptr[:-1] if lower else self._diagonal + np.int32(1)
