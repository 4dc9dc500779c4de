"""The strips, alone or two in a row, and x back to the order of rows: the launches of `blocked`.

A sweep reads b where it is and leaves x by position; between two of them x is never put back in the
order of rows. Where gatherers copy, b goes to the order of positions before, in a pass that also
resets what the sweep needs reset. For all other sweeps a memset does that, before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.trsv.waiting import PlanPair, columns_at_once

__all__ = ["StripsPair", "positions_of", "scratch_bytes", "sweeps"]

THREADS = 256  # of a block of the passes from one order to the other
EACH = 4  # entries of a thread there, as blocked.cu has it


class StripsPair(PlanPair):
    """x <- second^-1 first^-1 b, the second sweep reading what the first has left.

    Memory: a number for each position, and scratch for each stream: two vectors for each right-hand
    side, of several their number filled up as `blocked` does; a third in place where
    gatherers copy.
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
    """Bytes of scratch for these sweeps: a vector for each, and one for b if x cannot hold it."""
    placed = in_place and any(plan.copies(char, nrhs) for plan in plans)
    return (len(plans) + placed) * _vector_bytes(plans, char, nrhs)


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
    placed = parts[-1] if in_place else cuda.GIVEN_X
    calls = [] if all(copies) else [scratch.marking(nbytes)]
    b, apart, group = cuda.GIVEN_B, nrhs, C  # a row from the next, a group of columns from the next
    for k, (plan, launch) in enumerate(zip(plans, scratch.launches, strict=True)):
        source = row[k], apart, group
        if copies[k]:
            calls.append(_enter(scratch, row[k], b, placed, parts[k], launch, char))
            b, source = placed, (None, 1, 1)
        calls.append(plan.sweep(scratch, b, cuda.struct(*source), parts[k], launch, char, nrhs))
        b, apart, group = parts[k], C, len(plan._row) * C
    return [*calls, _leave(scratch, plans[-1], b, char, nrhs)]


def _vector_bytes(plans: Sequence[Any], char: str, nrhs: int) -> int:
    """Bytes of values by position of any of these, columns filled up to whole groups."""
    C, most = columns_at_once(char, nrhs), max(len(plan._row) for plan in plans)
    return most * -(-nrhs // C) * C * np.dtype(char).itemsize


def _enter(scratch: Any, row: Any, b: Any, placed: Any, y: Any, launch: Any, char: str) -> Any:
    """placed = b[row], y "not ready", and the control words of the sweep to come reset."""
    kernel = f"strips_enter<{cuda.value_type(np.dtype(char))}>"
    return _pass(scratch, kernel, len(row), len(row), row, b, placed, y, launch)


def _leave(scratch: Any, plan: Any, y: Any, char: str, nrhs: int) -> Any:
    """x = y in the order of rows: gathered where the plan knows the positions of rows."""
    types = f"<{cuda.value_type(np.dtype(char))},{columns_at_once(char, nrhs)}>"
    row, place, columns = plan._row, plan._place, np.int32(nrhs)
    if place is None:
        to_rows = len(row), row, y, cuda.GIVEN_X, columns
        return _pass(scratch, f"strips_scatter{types}", len(row) * nrhs, *to_rows, each=1)
    by_rows = len(place), place, y, len(row), cuda.GIVEN_X, columns
    return _pass(scratch, f"strips_gather{types}", len(place) * nrhs, *by_rows)


def _pass(scratch: Any, kernel: str, entries: int, *arguments: Any, each: int = EACH) -> Any:
    blocks = -(-entries // (THREADS * each))
    return scratch.prepare(cuda.kernel("blocked", kernel), blocks, THREADS, *arguments)


def positions_of(row: Any, n: int) -> Any:
    """The position of each of n rows, of which `row` has each once and -1 for segments."""
    xp = namespace(row)
    position = xp.empty(n, np.int32)
    at = xp.flatnonzero(row >= 0).astype(np.int32)
    position[row[at]] = at
    return position


def _crossing(first: Any, second: Any, n: int) -> Any:
    """For each position of `second` that of the same row in `first`; -1 for a segment."""
    xp = namespace(first)
    return xp.where(second < 0, np.int32(-1), positions_of(first, n)[xp.maximum(second, 0)])
