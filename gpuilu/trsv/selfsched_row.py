"""x_i = (b_i - sum_{j != i} t_ij x_j) / t_ii once a counter says that every x_j is there, by rows.

SLFR of Li (2017), algorithm 3: one warp a row, rows in level order, no barrier. A row that is
solved counts up the rows that depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import levels
from gpuilu.triangle import Triangle, transpose_pattern
from gpuilu.trsv import waiting
from gpuilu.trsv.waiting import LEVELS_AHEAD, WaitingPlan, blocks_in_flight, columns_at_once

__all__ = ["SelfScheduledRows"]


class SelfScheduledRows(WaitingPlan):
    """Set-up: levels and the pattern of the transpose.

    Memory: that pattern and the level order; for each stream a counter a row.
    """

    name = "selfsched_row"
    source = "Li 2017, algorithm 3 (SLFR)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        found = levels(T)
        self._wanted_warps = LEVELS_AHEAD * T.n // max(found.n_levels, 1)
        self._order = found.level_order
        self._t_indptr, self._t_indices, _ = transpose_pattern(T.indptr, T.indices)
        self._matrix = cuda.struct(T.n, self._order, T.indptr, T.indices, T.data, T.diag)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return 4 * self.T.n

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks = self._configuration(char, nrhs)
        pattern = (self._t_indptr, self._t_indices)
        arguments = (self._matrix, *pattern, b, x, y, width, launch)
        return scratch.prepare(function, blocks, waiting.THREADS, *arguments)

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, int]:
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        columns = columns_at_once(dtype.char, nrhs)
        function = cuda.kernel("selfsched_row", f"selfsched_rows<{factor},{vector},{columns}>")
        return function, blocks_in_flight(function, waiting.THREADS, self._wanted_warps, self.T.n)
