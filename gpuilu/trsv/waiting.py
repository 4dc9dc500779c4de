"""T x = b by kernels that wait: scratch for each stream, patience, and how many blocks to run."""

from __future__ import annotations

import threading
from typing import Any

from gpuilu.backend import cuda
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan

__all__ = ["THREADS", "WaitingPlan", "blocks_in_flight"]

THREADS = 256  # of a block: eight warps
LEVELS_AHEAD = 4  # levels that the warps in flight should cover
FEWEST_BLOCKS = 2  # on each multiprocessor


class WaitingPlan(Plan):
    """A plan with what its launches share. One thread at a time resets scratch and launches."""

    device = "cuda"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._launcher = cuda.Launcher()
        self._workspaces = cuda.Workspaces(self._launcher)
        self._enqueueing = threading.Lock()

    def check(self) -> None:
        self._launcher.raise_if_stalled()


def blocks_in_flight(function: Any, n: int, n_levels: int) -> int:
    """Few warps, one for each of n rows, where levels are narrow: many pollers slow each other."""
    full = cuda.full_grid(function, THREADS)
    fewest = FEWEST_BLOCKS * full // cuda.resident_blocks(function, THREADS)
    warps = THREADS // cuda.WARP
    wanted = LEVELS_AHEAD * n // max(n_levels, 1) // warps
    return max(1, min(full, max(fewest, wanted), -(-n // warps)))
