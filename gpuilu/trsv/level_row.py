"""x_i = (b_i - sum_{j != i} t_ij x_j) / t_ii, level by level, the rows of a level in one launch.

LEVR of Li (2017), algorithm 1: one warp a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.level_launches import LAUNCH_US, launch_levels
from gpuilu.trsv.waiting import columns_at_once

__all__ = ["LevelRows"]


class LevelRows(Plan):
    """Set-up: levels. Memory: the level order. A solve costs the host one launch a level."""

    name = "level_row"
    device = "cuda"
    source = "Li 2017, algorithm 1 (LEVR); Anderson and Saad 1989"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        found = levels(T)
        self._order = found.level_order
        self._level_ptr = cuda.to_host(found.level_ptr)
        self._matrix = cuda.struct(T.n, self._order, T.indptr, T.indices, T.data, T.diag)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return LAUNCH_US * levels(T).n_levels

    def solve(self, x: Any, b: Any = None) -> None:
        b = x if b is None else b
        nrhs = 1 if x.ndim == 1 else x.shape[1]
        columns = columns_at_once(x.dtype.char, nrhs)
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(x.dtype)
        function = cuda.kernel("level_row", f"level_rows<{factor},{vector},{columns}>")
        launch_levels(function, self._level_ptr, self._matrix, b, x, np.int32(nrhs))
