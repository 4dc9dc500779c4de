"""b to positions, the strips, and back to rows: the launches of `blocked`, alone or two in a row.

Between two solves x is never put back in the order of rows: one pass takes it from the positions of
the first triangle to those of the second (`strips_enter` reads the first's values as its b).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.trsv.waiting import PlanPair

__all__ = ["StripsLaunches", "StripsPair"]


class StripsLaunches:
    """What a plan launches for vectors of one dtype and number; n is their length by position."""

    def __init__(
        self,
        dtype: np.dtype,
        n: int,
        strips: Any,
        row: Any,
        width: Any,
        function: Any,
        grid: tuple[int, ...],
        block: tuple[int, ...],
    ) -> None:
        self.n, self._length = n, np.int64(n)
        self._strips, self._row, self._width = strips, row, width
        self._solve, self._grid, self._block = function, grid, block
        value = cuda.value_type(dtype)
        self._enter = cuda.each("blocked", f"strips_enter<{value}>", n)
        self._leave = cuda.each("blocked", f"strips_leave<{value}>", n)

    def enter(self, row: Any, b: Any, by_position: Any, y: Any) -> None:
        """by_position = b[row], and y "not ready"."""
        self._enter(self._length, row, b, by_position, y, self._width)

    def sweep(self, by_position: Any, y: Any, launch: Any) -> None:
        """Solve, by position."""
        self._solve(self._grid, self._block, (self._strips, by_position, y, self._width, launch))

    def leave(self, y: Any, x: Any) -> None:
        """x = y in the order of rows."""
        self._leave(self._length, self._row, y, x, self._width)


class StripsPair(PlanPair):
    """x <- second^-1 first^-1 b with one pass between the two.

    Memory: a number for each position, and two or three vectors of scratch for each stream.
    """

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self._first, self._second = first, second
        self._crossing = _crossing(first._row, second._row, first.T.n)

    def solve(self, x: Any, b: Any = None) -> None:
        self.check()
        first, second = self._first.launches(x), self._second.launches(x)
        n = max(first.n, second.n)
        spare = [x] if b is not None and n == x.size else []
        vectors, nbytes = 3 - len(spare), n * x.itemsize
        with self._enqueueing:
            scratch = self._workspaces.get(vectors * nbytes)
            scratch.fill_marks(0)
            y, z, by_position = scratch.parts(nbytes, vectors) + spare
            one, two = scratch.launches
            first.enter(self._first._row, x if b is None else b, by_position, y)
            first.sweep(by_position, y, one)
            second.enter(self._crossing, y, by_position, z)
            second.sweep(by_position, z, two)
            second.leave(z, x)


def _crossing(first: Any, second: Any, n: int) -> Any:
    """For each position of `second` that of the same row in `first`; -1 for a segment."""
    xp = namespace(first)
    place = xp.empty(n, np.int32)
    at = xp.flatnonzero(first >= 0).astype(np.int32)
    place[first[at]] = at
    return xp.where(second < 0, np.int32(-1), place[xp.maximum(second, 0)])
