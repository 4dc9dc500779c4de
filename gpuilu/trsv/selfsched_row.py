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
from gpuilu.trsv.waiting import WaitingPlan, blocks_in_flight

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
        self._n_levels = found.n_levels
        self._order = found.level_order
        self._t_indptr, self._t_indices, _ = transpose_pattern(T.indptr, T.indices)
        self._matrix = cuda.struct(T.n, self._order, T.indptr, T.indices, T.data, T.diag)

    def solve(self, x: Any, b: Any = None) -> None:
        self.check()
        b = x if b is None else b
        nrhs = 1 if x.ndim == 1 else x.shape[1]
        columns = 1 if nrhs == 1 else columns_at_once(x.dtype.char)
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(x.dtype)
        function = cuda.kernel("selfsched_row", f"selfsched_rows<{factor},{vector},{columns}>")
        blocks = blocks_in_flight(function, self.T.n, self._n_levels)
        with self._enqueueing:
            scratch = self._workspaces.get(4 * self.T.n)
            scratch.fill_marks(4 * self.T.n)
            vectors = (b, x, scratch.data, np.int32(nrhs), scratch.launch)
            arguments = (self._matrix, self._t_indptr, self._t_indices, *vectors)
            function((blocks,), (waiting.THREADS,), arguments)


def columns_at_once(vector: str) -> int:
    """Right-hand sides of a block that one pass over a row serves, by the char of their dtype."""
    return 2 if vector == "D" else 4
