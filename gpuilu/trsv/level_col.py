"""x_j = s_j / t_jj, then s_i -= t_ij x_j for all i, level by level, one launch each.

LEVC of Li (2017), algorithm 2: one warp a column; s = x is b at first. Terms are subtracted by
atomics, so the last bits vary from solve to solve.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.columns import Columns
from gpuilu.trsv.level_launches import LAUNCH_US, launch_levels

__all__ = ["LevelColumns"]


class LevelColumns(Plan):
    """Set-up: levels and the transpose. A solve costs the host one launch a level.

    Memory: the strict triangle by columns and the level order.
    """

    name = "level_col"
    device = "cuda"
    deterministic = False
    source = "Li 2017, algorithm 2 (LEVC)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        found = levels(T)
        self._order = found.level_order
        self._level_ptr = cuda.to_host(found.level_ptr)
        self._columns = C = Columns(T, self._order)
        self._matrix = cuda.struct(T.n, self._order, C.indptr, C.indices, C.data, T.diag)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return LAUNCH_US * levels(T).n_levels

    def refresh(self) -> None:
        self._columns.refresh()

    def solve(self, x: Any, b: Any = None) -> None:
        if b is not None:
            x[...] = b
        nrhs = 1 if x.ndim == 1 else x.shape[1]
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(x.dtype)
        one = str(nrhs == 1).lower()
        function = cuda.kernel("level_col", f"level_columns<{factor},{vector},{one}>")
        launch_levels(function, self._level_ptr, self._matrix, x, np.int32(nrhs))
