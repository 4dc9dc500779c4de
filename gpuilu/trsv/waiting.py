"""T x = b by kernels that wait: scratch for each stream, patience, and how many blocks to run."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gpuilu.backend import cuda
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan

__all__ = ["THREADS", "PlanPair", "WaitingPlan", "blocks_in_flight", "columns_at_once"]

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
        self._configurations: dict[Any, Any] = {}
        self._enqueueing = threading.Lock()

    def check(self) -> None:
        self._launcher.raise_if_stalled()

    def _configuration(self, dtype: np.dtype, nrhs: int) -> Any:
        """What `_configure` gives for right-hand sides of that dtype and number, made once.

        Before it stands the number as kernels take it.
        """
        found = self._configurations.get((dtype.char, nrhs))
        if found is None:
            columns = 1 if nrhs == 1 else columns_at_once(dtype.char)
            found = np.int32(nrhs), *self._configure(dtype, columns)
            self._configurations[dtype.char, nrhs] = found
        return found

    def _configure(self, dtype: np.dtype, columns: int) -> Any:
        """(kernel, blocks, ...) for vectors of that dtype, so many columns at once."""
        raise NotImplementedError


class PlanPair:
    """Two solves one after the other, with what their launches share."""

    def __init__(self) -> None:
        self._launcher = cuda.Launcher()
        self._workspaces = cuda.Workspaces(self._launcher, 2)
        self._enqueueing = threading.Lock()

    def check(self) -> None:
        self._launcher.raise_if_stalled()


def columns_at_once(vector: str) -> int:
    """Right-hand sides of a block that one pass over a row serves, by the char of their dtype."""
    return 2 if vector == "D" else 4


def blocks_in_flight(
    function: Any, threads: int, wanted_warps: float, most_warps: int, fewest: int = FEWEST_BLOCKS
) -> int:
    """Few warps where levels are narrow, for many pollers slow each other; all where wide.

    `fewest` blocks on each multiprocessor, but no more than there is work for.
    """
    warps = threads // cuda.WARP
    full = cuda.full_grid(function, threads)
    least = fewest * full // cuda.resident_blocks(function, threads)
    return max(1, min(full, max(least, int(wanted_warps / warps)), -(-most_warps // warps)))
