"""x_I = D_I^-1 (b_I - sum_{J != I} T_IJ x_J), 16 rows I at a time, with no barrier between them.

A warp takes a row of 16x16 tiles and waits only for the tiles that it reads; the value itself is
the ready mark (kernels/tile_syncfree.cu). Sums come in one order: no atomics, the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import count_levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.tiles import ValuedTiles
from gpuilu.trsv.waiting import WaitingPlan, blocks_in_flight, columns_at_once

__all__ = ["TileSyncfree"]

THREADS = 128  # of a block: four warps
LEVELS_AHEAD = 16  # levels of tile rows that the warps in flight should cover


class TileSyncfree(WaitingPlan):
    """Self-scheduled rows of 16x16 tiles, a warp each.

    Memory: the triangle once more, in tiles, and a vector of scratch for each stream.
    """

    name = "tile_syncfree"
    divides = False
    source = "Lu and Liu 2023 (TileSpTRSV), algorithm 7"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._tiles = ValuedTiles(T)
        self._n_tile_rows = self._tiles.tiles.n_tile_rows
        n_levels = count_levels(self._tiles.tiles.dependencies())
        self._wanted_warps = LEVELS_AHEAD * self._n_tile_rows // max(n_levels, 1)

    def refresh(self) -> None:
        self._tiles.refresh()

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return len(self._tiles.tiles.row) * nrhs * np.dtype(char).itemsize

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks = self._configuration(char, nrhs)
        arguments = (self._tiles.argument, b, x, y, width, launch)
        return scratch.prepare(function, blocks, THREADS, *arguments)

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, int]:
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        columns = columns_at_once(dtype.char, nrhs)
        function = cuda.kernel("tile_syncfree", f"solve_tile_rows<{factor},{vector},{columns}>")
        blocks = blocks_in_flight(function, THREADS, self._wanted_warps, self._n_tile_rows)
        return function, blocks
