"""T = sum_j (column j) e_j^T: a strict triangle by columns, in any order of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.triangle import Triangle, gather_rows, transpose_pattern

__all__ = ["Columns"]


class Columns:
    """Column k is column order[k] of the strict part of T; its rows ascend.

    Parameters
    ----------
    T : Triangle
    order : int32 array, shape (n,), or None
        None for the natural order.

    Attributes
    ----------
    indptr, indices, data
        Compressed columns; `indices` are rows of T.
    """

    def __init__(self, T: Triangle, order: Any = None) -> None:
        xp = namespace(T.indptr)
        self._T = T
        indptr, self.indices, self._source = transpose_pattern(T.indptr, T.indices)
        self.indptr = indptr
        if order is not None:
            first = indptr[order]
            self.indptr = xp.zeros(T.n + 1, np.int32)
            self.indptr[1:] = xp.cumsum(indptr[order + 1] - first)
            self.indices = gather_rows(self.indptr, first, self.indices)
            self._source = gather_rows(self.indptr, first, self._source)
        self.data = xp.empty(len(self.indices), T.dtype)
        self.refresh()

    def refresh(self) -> None:
        """Take up T's present values."""
        self._T.data.take(self._source, out=self.data)
