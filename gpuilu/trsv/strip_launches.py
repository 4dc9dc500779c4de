"""b to positions, the strips, and back to rows: the launches of `blocked`, alone or two in a row.

Between two solves x is never put back in the order of rows: one pass takes it from the positions of
the first triangle to those of the second (`strips_enter` reads the first's values as its b). There
is no memset: the pass before a sweep resets what the sweep needs reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.trsv.waiting import PlanPair

__all__ = ["StripsPair", "enter", "leave", "spares"]


THREADS = 256  # of a block of the passes from one order to another, a thread an entry


class StripsPair(PlanPair):
    """x <- second^-1 first^-1 b with one pass between the two.

    Memory: a number for each position, and two or three vectors of scratch for each stream.
    """

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self._first, self._second = first, second
        self._crossing = _crossing(first._row, second._row, first.T.n)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        nbytes = self._positions() * nrhs * np.dtype(char).itemsize
        return (2 if self._spares(in_place) else 3) * nbytes

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        nbytes = self._positions() * nrhs * np.dtype(char).itemsize
        y, z, *rest = scratch.parts(nbytes, 2 if self._spares(in_place) else 3)
        by_position = rest[0] if rest else cuda.GIVEN_X
        first, second = self._first, self._second
        one, two = scratch.launches
        return [
            enter(scratch, first._row, cuda.GIVEN_B, by_position, y, one, char, nrhs),
            first.sweep(scratch, by_position, y, one, char, nrhs),
            enter(scratch, self._crossing, y, by_position, z, two, char, nrhs),
            second.sweep(scratch, by_position, z, two, char, nrhs),
            leave(scratch, second._row, z, cuda.GIVEN_X, char, nrhs),
        ]

    def _positions(self) -> int:
        return max(len(self._first._row), len(self._second._row))

    def _spares(self, in_place: bool) -> bool:
        return spares(self._positions(), self._first.T.n, in_place)


def spares(n_positions: int, n: int, in_place: bool) -> bool:
    """Whether x can hold b by position until it is needed: b is elsewhere and x long enough."""
    return not in_place and n_positions == n


def enter(
    scratch: Any, row: Any, b: Any, by_position: Any, y: Any, launch: Any, char: str, nrhs: int
) -> Any:
    """by_position = b[row], y "not ready", and the control words of the sweep to come reset."""
    arguments = (row, b, by_position, y, np.int32(nrhs), launch)
    return _pass(scratch, "strips_enter", len(row), char, nrhs, *arguments)


def leave(scratch: Any, row: Any, y: Any, x: Any, char: str, nrhs: int) -> Any:
    """x = y in the order of rows."""
    return _pass(scratch, "strips_leave", len(row), char, nrhs, row, y, x, np.int32(nrhs))


def _pass(scratch: Any, name: str, n: int, char: str, nrhs: int, *arguments: Any) -> Any:
    function = cuda.kernel("blocked", f"{name}<{cuda.value_type(np.dtype(char))}>")
    entries = n * nrhs
    blocks = -(-entries // THREADS)
    return scratch.prepare(function, blocks, THREADS, np.int64(entries), *arguments)


def _crossing(first: Any, second: Any, n: int) -> Any:
    """For each position of `second` that of the same row in `first`; -1 for a segment."""
    xp = namespace(first)
    place = xp.empty(n, np.int32)
    at = xp.flatnonzero(first >= 0).astype(np.int32)
    place[first[at]] = at
    return xp.where(second < 0, np.int32(-1), place[xp.maximum(second, 0)])
