"""x_j = s_j / t_jj, then s_i -= t_ij x_j for all i: columns, each once its s_j is complete.

SLFC of Li (2017), algorithm 4: one warp a column, columns in level order, no barrier; s = x is b at
first. Terms are subtracted by atomics, so the last bits vary from solve to solve.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import in_degree, levels
from gpuilu.triangle import Triangle
from gpuilu.trsv import waiting
from gpuilu.trsv.columns import Columns
from gpuilu.trsv.waiting import LEVELS_AHEAD, WaitingPlan, blocks_in_flight

__all__ = ["SelfScheduledColumns"]


class SelfScheduledColumns(WaitingPlan):
    """Set-up: levels, in-degrees and the transpose.

    Memory: the strict triangle by columns, three words a row; for each stream a counter a row.
    """

    name = "selfsched_col"
    deterministic = False
    source = "Li 2017, algorithm 4 (SLFC)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        found = levels(T)
        self._wanted_warps = LEVELS_AHEAD * T.n // max(found.n_levels, 1)
        self._order = found.level_order
        self._in_degree = in_degree(T)[self._order]
        self._columns = C = Columns(T, self._order)
        self._matrix = cuda.struct(T.n, self._order, C.indptr, C.indices, C.data, T.diag)

    def refresh(self) -> None:
        self._columns.refresh()

    def solve(self, x: Any, b: Any = None) -> None:
        if b is not None:
            x[...] = b
        super().solve(x)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return 4 * self.T.n

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks = self._configuration(char, nrhs)
        arguments = (self._matrix, self._in_degree, x, y, width, launch)
        return scratch.prepare(function, blocks, waiting.THREADS, *arguments)

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, int]:
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        one = str(nrhs == 1).lower()
        function = cuda.kernel("selfsched_col", f"selfsched_columns<{factor},{vector},{one}>")
        return function, blocks_in_flight(function, waiting.THREADS, self._wanted_warps, self.T.n)
