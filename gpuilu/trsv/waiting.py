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


class Waiting:
    """Launches that wait, and what they share. One thread at a time resets scratch and launches.

    What is enqueued depends on the stream and on the kind of vectors: the char of their dtype, the
    number of columns, and whether b is x. It is made at the first solve and then only called.
    """

    def __init__(self, launches: int = 1) -> None:
        self._launcher = cuda.Launcher()
        self._workspaces = cuda.Workspaces(self._launcher, launches)
        self._enqueueing = threading.Lock()

    def check(self) -> None:
        """Raise what earlier solves ran into, if it is known already."""
        self._launcher.raise_if_stalled()

    def solve(self, x: Any, b: Any = None) -> None:
        """x <- what is solved for b, or for x without b; does not check what earlier solves did."""
        kind = (x.dtype.char, 1 if x.ndim == 1 else x.shape[1], b is None)
        with self._enqueueing:
            enqueue = self._workspaces.prepared(kind, self._nbytes, self._prepare)
            enqueue(x if b is None else b, x)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        """Bytes of scratch for vectors of that kind."""
        raise NotImplementedError

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        """What to call, one after the other; each enqueues something."""
        raise NotImplementedError


class WaitingPlan(Waiting, Plan):
    """A plan that waits; as it stands here, in one launch whose scratch is all marked before."""

    device = "cuda"

    def __init__(self, T: Triangle) -> None:
        Plan.__init__(self, T)
        Waiting.__init__(self)
        self._configurations: dict[Any, Any] = {}

    def solve(self, x: Any, b: Any = None) -> None:
        self.check()
        Waiting.solve(self, x, b)

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        mark = scratch.marking(self._nbytes(char, nrhs, in_place))
        B, X = cuda.GIVEN_B, cuda.GIVEN_X
        return [mark, self._launch(scratch, B, X, scratch.data, scratch.launch, char, nrhs)]

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        """The launch with these arguments: b, x, scratch memory and the struct `Launch`."""
        raise NotImplementedError

    def _configuration(self, char: str, nrhs: int) -> Any:
        """What `_configure` gives for right-hand sides of that kind, made once.

        Before it stands the number as kernels take it.
        """
        found = self._configurations.get((char, nrhs))
        if found is None:
            found = np.int32(nrhs), *self._configure(np.dtype(char), nrhs)
            self._configurations[char, nrhs] = found
        return found

    def _configure(self, dtype: np.dtype, nrhs: int) -> Any:
        """(kernel, blocks, ...) for so many right-hand sides of that dtype."""
        raise NotImplementedError


class PlanPair(Waiting):
    """Two solves one after the other; whoever applies it has checked."""

    def __init__(self) -> None:
        super().__init__(2)


def columns_at_once(vector: str, nrhs: int = 2) -> int:
    """Of one or several right-hand sides those that most kernels solve together, by dtype char."""
    if nrhs == 1:
        return 1
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
