"""T = sum_j (column j) e_j^T: a strict triangle by columns, in any order of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.triangle import Triangle, gather_rows, transpose_pattern

__all__ = ["Columns"]


class Columns:
    """Column k is column order[k] of the strict part of T; its rows ascend.

    Parameters
    ----------
    T : Triangle
    order : int32 array, shape (n,), or None
        None for the natural order.
    by_position : bool
        Whether `indices` are places in `order` instead.

    Attributes
    ----------
    indptr, indices, data
        Compressed columns; `indices` are rows of T.
    """

    def __init__(self, T: Triangle, order: Any = None, by_position: bool = False) -> None:
        xp = namespace(T.indptr)
        self._T, self._order, self._by_position = T, order, by_position
        indptr, self.indices, _ = transpose_pattern(T.indptr, T.indices)
        self.indptr = indptr
        if order is not None:
            first = indptr[order]
            self.indptr = xp.zeros(T.n + 1, np.int32)
            self.indptr[1:] = xp.cumsum(indptr[order + 1] - first)
            self.indices = gather_rows(self.indptr, first, self.indices)
        if by_position:
            position = xp.empty(T.n, np.int32)
            position[order] = xp.arange(T.n, dtype=np.int32)
            self.indices = position[self.indices]
        self.data = xp.empty(len(self.indices), T.dtype)
        self.refresh()

    def refresh(self) -> None:
        """Take up T's present values."""
        T, threads = self._T, cuda.WARP * self._T.n
        order = np.uint64(0) if self._order is None else self._order
        kernel = f"column_values<{cuda.value_type(T.dtype)}>"
        mine = (self.indptr, self.indices, T.indptr, T.indices, T.data, self.data)
        places = int(self._by_position)
        cuda.for_each("transpose", kernel, threads, T.n, order, places, *mine)
