"""b to positions, the strips, and back to rows: the launches of `blocked`, alone or two in a row.

Between two solves x is never put back in the order of rows: one pass takes it from the positions of
the first triangle to those of the second (`strips_enter` reads the first's values as its b). There
is no memset: the pass before a sweep resets what the sweep needs reset.

Of several right-hand sides the columns of a row lie side by side, so that a sweep itself reads them
where they are, and a memset before all sweeps resets what they need reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.trsv.waiting import PlanPair, columns_at_once

__all__ = [
    "StripsPair",
    "by_position",
    "by_row",
    "enter",
    "leave",
    "spares",
    "vector_bytes",
]

THREADS = 256  # of a block of the passes from one order to another, a thread an entry


class StripsPair(PlanPair):
    """x <- second^-1 first^-1 b with one pass between the two, or none for several columns.

    Memory: a number for each position, and scratch for each stream: two or three vectors; of
    several right-hand sides two for each, their number filled up as `blocked` does.
    """

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self._first, self._second = first, second
        self._crossing = _crossing(first._row, second._row, first.T.n)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        count = 2 if nrhs > 1 or self._spares(in_place) else 3
        return count * vector_bytes(self._positions(), char, nrhs)

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        first, second, crossing = self._first, self._second, self._crossing
        nbytes = self._nbytes(char, nrhs, in_place)
        vector = vector_bytes(self._positions(), char, nrhs)
        y, z, *rest = scratch.parts(vector, nbytes // vector)
        one, two = scratch.launches
        last = leave(scratch, second._row, z, cuda.GIVEN_X, char, nrhs)
        if nrhs > 1:
            given = by_row(first._row, char, nrhs)
            crossed = in_groups(crossing, char, nrhs, len(first._row))
            return [
                scratch.marking(nbytes),
                first.sweep(scratch, cuda.GIVEN_B, given, y, one, char, nrhs),
                second.sweep(scratch, y, crossed, z, two, char, nrhs),
                last,
            ]
        b = rest[0] if rest else cuda.GIVEN_X
        return [
            enter(scratch, first._row, cuda.GIVEN_B, b, y, one, char),
            first.sweep(scratch, b, by_position(), y, one, char, nrhs),
            enter(scratch, crossing, y, b, z, two, char),
            second.sweep(scratch, b, by_position(), z, two, char, nrhs),
            last,
        ]

    def _positions(self) -> int:
        return max(len(self._first._row), len(self._second._row))

    def _spares(self, in_place: bool) -> bool:
        return spares(self._positions(), self._first.T.n, in_place)


def spares(n_positions: int, n: int, in_place: bool) -> bool:
    """Whether x can hold b by position until it is needed: b is elsewhere and x long enough."""
    return not in_place and n_positions == n


def vector_bytes(n_positions: int, char: str, nrhs: int) -> int:
    """Bytes of scratch for values by position, columns filled up to whole groups."""
    C = columns_at_once(char, nrhs)
    return n_positions * -(-nrhs // C) * C * np.dtype(char).itemsize


def by_position() -> Any:
    """The struct `Source` of one right-hand side, which lies by position."""
    return cuda.struct(None, 1, 1)


def by_row(row: Any, char: str, nrhs: int) -> Any:
    """The same of the columns of an array (n, nrhs)."""
    return cuda.struct(row, nrhs, columns_at_once(char, nrhs))


def in_groups(place: Any, char: str, nrhs: int, n_positions: int) -> Any:
    """The same of what another sweep has left, of so many positions."""
    C = columns_at_once(char, nrhs)
    return cuda.struct(place, C, n_positions * C)


def enter(scratch: Any, row: Any, b: Any, placed: Any, y: Any, launch: Any, char: str) -> Any:
    """placed = b[row], y "not ready", and the control words of the sweep to come reset."""
    kernel = f"strips_enter<{cuda.value_type(np.dtype(char))}>"
    return _pass(scratch, kernel, len(row), len(row), row, b, placed, y, launch)


def leave(scratch: Any, row: Any, y: Any, x: Any, char: str, nrhs: int) -> Any:
    """x = y in the order of rows."""
    C = columns_at_once(char, nrhs)
    kernel = f"strips_leave<{cuda.value_type(np.dtype(char))},{C}>"
    return _pass(scratch, kernel, len(row) * nrhs, len(row), row, y, x, np.int32(nrhs))


def _pass(scratch: Any, kernel: str, threads: int, *arguments: Any) -> Any:
    blocks = -(-threads // THREADS)
    return scratch.prepare(cuda.kernel("blocked", kernel), blocks, THREADS, *arguments)


def _crossing(first: Any, second: Any, n: int) -> Any:
    """For each position of `second` that of the same row in `first`; -1 for a segment."""
    xp = namespace(first)
    place = xp.empty(n, np.int32)
    at = xp.flatnonzero(first >= 0).astype(np.int32)
    place[first[at]] = at
    return xp.where(second < 0, np.int32(-1), place[xp.maximum(second, 0)])
