"""x_I = D_I^-1 (b_I - sum_{J != I} T_IJ x_J), 16 rows I at a time, level of tile rows by level.

A warp takes a row of 16x16 tiles (kernels/tile_level.cu) and solves with its diagonal tile too.
Where a level holds many tile rows, 1/8 of the card's cores on average, a second launch does the
latter, with one thread for each diagonal tile; both give the same bits. Otherwise runs of narrow
levels are one launch of one block, with a barrier between levels: a launch costs more than a narrow
level.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import cuda, on_gpu
from gpuilu.dag import levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.tiles import ValuedTiles
from gpuilu.trsv.waiting import columns_at_once

__all__ = ["TileLevel"]

THREADS = 256  # of a block: eight warps
WARPS = THREADS // cuda.WARP
CORES = 128  # of a multiprocessor
CORES_A_TILE_ROW = 8  # from which on the thread-level solve leaves no core idle


@dataclass(frozen=True)
class _Launch:
    """Levels first to last (not included), which hold the tile rows order[begin:end]."""

    first: np.int32
    last: np.int32
    begin: np.int32
    end: np.int32
    blocks: int


class TileLevel(Plan):
    """Level-scheduled rows of 16x16 tiles, a warp each.

    Memory: the triangle once more, in tiles, and a vector of scratch for each stream. A solve takes
    a launch for each level of more than eight tile rows, and one for each run of other levels.
    """

    name = "tile_level"
    device = "cuda"
    divides = False
    source = "Lu and Liu 2023 (TileSpTRSV), algorithm 6"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._tiles = ValuedTiles(T)
        found = levels(self._tiles.tiles.dependencies())
        self._order, self._level_ptr = found.level_order, found.level_ptr
        mean_width = self._tiles.tiles.n_tile_rows / max(found.n_levels, 1)
        self.by_threads = CORES_A_TILE_ROW * mean_width >= _cores()
        level_ptr = found.level_ptr
        host_ptr = cuda.to_host(level_ptr) if on_gpu(level_ptr) else level_ptr
        self._launches = list(_launches(host_ptr, 0 if self.by_threads else WARPS))
        self._workspaces = cuda.Workspaces(cuda.Launcher())
        self._enqueueing = threading.Lock()

    def refresh(self) -> None:
        self._tiles.refresh()

    def solve(self, x: Any, b: Any = None) -> None:
        b = x if b is None else b
        nrhs = 1 if x.ndim == 1 else x.shape[1]
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(x.dtype)
        columns = columns_at_once(x.dtype.char, nrhs)
        function = cuda.kernel("tile_level", f"solve_levels<{factor},{vector},{columns}>")
        matrix = (self._tiles.argument, self._order)
        with self._enqueueing:
            y = self._workspaces.get(len(self._tiles.tiles.row) * nrhs * x.itemsize).data
            vectors = (np.int32(not self.by_threads), b, x, y, np.int32(nrhs))
            for part in self._launches:
                arguments = (*matrix, self._level_ptr, part.first, part.last, *vectors)
                function((part.blocks,), (THREADS,), arguments)
                if self.by_threads:
                    threads = int(part.end - part.begin) * nrhs
                    kernel = f"solve_diagonals<{factor},{vector}>"
                    rest = (threads, *matrix, part.begin, x, y, nrhs)
                    cuda.for_each("tile_level", kernel, threads, *rest)


def _cores() -> int:
    device = int(cuda.cupy().cuda.runtime.getDevice())
    return CORES * cuda.multiprocessors(device)


def _launches(level_ptr: np.ndarray, narrow: int) -> Iterator[_Launch]:
    """A launch for each level of more than `narrow` tile rows, and for each run of other levels."""
    wide = np.diff(level_ptr) > narrow
    cut = np.ones(len(level_ptr), bool)
    cut[1:-1] = wide[1:] | wide[:-1]
    bounds = np.flatnonzero(cut).astype(np.int32)
    for first, last in itertools.pairwise(bounds):
        begin, end = level_ptr[first], level_ptr[last]
        blocks = -(-int(end - begin) // WARPS) if wide[first] else 1
        yield _Launch(first, last, begin, end, blocks)
