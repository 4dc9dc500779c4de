"""The strips, alone or two in a row: the launches of `blocked`.

A sweep reads b where it is and has its results by position; between two of them nothing is put in
the order of rows. After the last one x is, in a pass of its own or, of one column, by the blocks of
the sweep as they run out of strips. Where gatherers copy, b goes to the order of positions
before, in a pass that also resets what the sweep needs reset. For all other sweeps a memset does
that, before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.trsv.waiting import PlanPair, columns_at_once

__all__ = ["StripsPair", "scratch_bytes", "sweeps"]

THREADS = 256  # of a block of the passes from one order to the other
EACH = 4  # positions or entries of a thread of these, as blocked.cu has it


class StripsPair(PlanPair):
    """x <- second^-1 first^-1 b, the second sweep reading what the first has left.

    Memory: a number for each position, and scratch for each stream: two vectors for each right-hand
    side, of several their number filled up as `blocked` does; a third where gatherers copy b,
    unless x has room for it.
    """

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self._plans = first, second
        self._row = first._row, _crossing(first._row, second._row, first.T.n)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return scratch_bytes(self._plans, char, nrhs, in_place)

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        return sweeps(scratch, self._plans, self._row, char, nrhs, in_place)


def scratch_bytes(plans: Sequence[Any], char: str, nrhs: int, in_place: bool) -> int:
    """Bytes of scratch for these sweeps: a vector for each, and one for b where that is moved."""
    moved = _moved(plans, char, nrhs, in_place)
    return (len(plans) + moved) * _vector_bytes(plans, char, nrhs)


def _moved(plans: Sequence[Any], char: str, nrhs: int, in_place: bool) -> bool:
    """Whether b is copied to scratch: x overwrites it or what is copied of it, by position."""
    leaves = plans[-1].leaves(nrhs)
    if any(plan.copies(char, nrhs) for plan in plans):
        return in_place or leaves
    return in_place and leaves and len(plans) == 1


def sweeps(
    scratch: Any, plans: Sequence[Any], row: Sequence[Any], char: str, nrhs: int, in_place: bool
) -> list[Any]:
    """The launches of one sweep after the other.

    row[k] is, for each position of the k-th, the row of b or the position of the sweep before; -1
    for a segment.
    """
    C = columns_at_once(char, nrhs)
    copies = [plan.copies(char, nrhs) for plan in plans]
    nbytes = scratch_bytes(plans, char, nrhs, in_place)
    vector = _vector_bytes(plans, char, nrhs)
    parts = scratch.parts(vector, nbytes // vector)
    leaves, moved = plans[-1].leaves(nrhs), len(parts) > len(plans)
    placed = parts[-1] if moved else cuda.GIVEN_X
    calls = [] if all(copies) else [scratch.marking(len(plans) * vector)]
    b, apart, group = cuda.GIVEN_B, nrhs, C  # a row from the next, a group of columns from the next
    if moved and not any(copies):
        b = placed
        calls.append(scratch.copying(b, plans[0].T.n * nrhs * np.dtype(char).itemsize))
    for k, (plan, launch) in enumerate(zip(plans, scratch.launches, strict=True)):
        source, x = (row[k], apart, group), cuda.GIVEN_X if plan is plans[-1] and leaves else None
        if copies[k]:
            calls.append(_enter(scratch, row[k], b, placed, parts[k], launch, char))
            b, source = placed, (None, 1, 1)
        calls.append(plan.sweep(scratch, b, cuda.struct(*source), parts[k], x, launch, char, nrhs))
        b, apart, group = parts[k], C, len(plan._row) * C
    return calls if leaves else [*calls, _leave(scratch, plans[-1], b, char, nrhs)]


def _vector_bytes(plans: Sequence[Any], char: str, nrhs: int) -> int:
    """Bytes of values by position of any of these, columns filled up to whole groups."""
    C, most = columns_at_once(char, nrhs), max(len(plan._row) for plan in plans)
    return most * -(-nrhs // C) * C * np.dtype(char).itemsize


def _enter(scratch: Any, row: Any, b: Any, placed: Any, y: Any, launch: Any, char: str) -> Any:
    """placed = b[row], y "not ready", and the control words of the sweep to come reset."""
    function = cuda.kernel("blocked", f"strips_enter<{cuda.value_type(np.dtype(char))}>")
    blocks = -(-len(row) // (THREADS * EACH))
    return scratch.prepare(function, blocks, THREADS, len(row), row, b, placed, y, launch)


def _leave(scratch: Any, plan: Any, y: Any, char: str, nrhs: int) -> Any:
    """x = y in the order of rows."""
    types = f"<{cuda.value_type(np.dtype(char))},{columns_at_once(char, nrhs)}>"
    function, n = cuda.kernel("blocked", f"strips_scatter{types}"), len(plan._row)
    arguments = n, plan._row, y, cuda.GIVEN_X, np.int32(nrhs)
    blocks = -(-n * nrhs // (THREADS * EACH))
    return scratch.prepare(function, blocks, THREADS, *arguments)


def _crossing(first: Any, second: Any, n: int) -> Any:
    """For each position of `second` that of the same row in `first`; -1 for a segment."""
    xp = namespace(first)
    position = xp.empty(n, np.int32)
    at = xp.flatnonzero(first >= 0).astype(np.int32)
    position[first[at]] = at
    return xp.where(second < 0, np.int32(-1), position[xp.maximum(second, 0)])
