"""A = L + D + U: the strict triangles of a matrix as patterns made once and values copied out."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.triangle import Pattern, Triangle, gather_rows

__all__ = ["Split"]


class Split:
    """The strict lower or upper part, or both, of a pattern with a full diagonal.

    Parameters
    ----------
    indptr, indices : int32 array
        The whole pattern, canonical.
    diagonal : int32 array, shape (n,)
        Positions of its diagonal entries; not kept, since the patterns imply them.
    sides : str
        "L", "U" or "LU": the triangles that will be asked for.
    """

    def __init__(self, indptr: Any, indices: Any, diagonal: Any, sides: str) -> None:
        self._indptr = indptr
        self._patterns: dict[bool, Pattern] = {}
        for lower in (side == "L" for side in sides):
            first = indptr[:-1] if lower else diagonal + np.int32(1)
            after = diagonal if lower else indptr[1:]
            own = namespace(indptr).zeros(len(indptr), np.int32)
            own[1:] = (after - first).cumsum()
            self._patterns[lower] = Pattern(lower, own, gather_rows(own, first, indices))

    @property
    def diagonal(self) -> Any:
        """Positions of the diagonal entries in the whole pattern, a new int32 array."""
        lower = True in self._patterns
        own = self._patterns[lower].indptr
        length = own[1:] - own[:-1]
        if lower:
            return self._indptr[:-1] + length
        return self._indptr[1:] - length - np.int32(1)

    def pattern(self, lower: bool) -> Pattern:
        """The pattern of one strict triangle."""
        return self._patterns[lower]

    def lower(self, data: Any, diag: Any) -> Triangle:
        """Strict lower part of the values `data` on the whole pattern, with the diagonal given."""
        return self._triangle(True, self._indptr[:-1], data, diag)

    def upper(self, data: Any, diag: Any) -> Triangle:
        """Strict upper part of the values `data` on the whole pattern, with the diagonal given."""
        return self._triangle(False, self.diagonal + np.int32(1), data, diag)

    def _triangle(self, lower: bool, first: Any, data: Any, diag: Any) -> Triangle:
        P = self._patterns[lower]
        values = gather_rows(P.indptr, first, data)
        return Triangle(lower, P.indptr, P.indices, values, diag)
