"""Rows in strips, strips in steps: where each row of a triangle goes, and what it needs from where.

Strips depend on earlier strips only. They are ranges of consecutive rows, or, on a grid whose
unknowns are numbered axis by axis, columns along the slowest axis, or what strips_grow.py has for
irregular patterns. The rows of a strip are taken in the order of their levels, 32 at a time, never
across two levels: such a step is what one warp solves at once. Here all of it is said in array
operations, on the CPU; strips_pack.py has kernels for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuilu.csr import row_of_entries
from gpuilu.dag import Levels, row_shapes
from gpuilu.triangle import Pattern

__all__ = [
    "Axis",
    "Split",
    "Steps",
    "Strips",
    "columns",
    "grid_axes",
    "grid_cuts",
    "in_lexicographic_order",
    "in_steps",
    "ranges",
    "split_entries",
    "width",
    "with_shares",
]

LANES = 32  # rows of a step, at most
MOST_OF_LANE, SHARE_OF_LANE = 8, 4  # near entries of a lane; the same where a row has several
WINDOW = 2048  # positions of its strip that a block of strips.cuh remembers
MOST_AXES = 4  # of a grid
THINNEST = 2  # side of a column


@dataclass(frozen=True, eq=False)
class Steps:
    """The order in which the rows of a triangle are solved.

    Parameters
    ----------
    step_ptr : int32 array, shape (n_strips + 1,)
        Strip t is the steps `step_ptr[t]:step_ptr[t + 1]`.
    step_start : int32 array, shape (n_steps + 1,)
        Step q is the positions `step_start[q]:step_start[q + 1]`.
    position : int32 array, shape (n,)
        Of each row.
    strip : int32 array, shape (n,)
        Of each row.
    row : int32 array, shape (n,)
        At each position.
    shares : int32 array, shape (n_steps,), or None
        s where 2^s lanes have a row; None where one has.
    """

    step_ptr: Any
    step_start: Any
    position: Any
    strip: Any
    row: Any
    shares: Any = None


@dataclass(frozen=True, eq=False)
class Strips:
    """A strip for each row, never before the strip of a row it depends on.

    Parameters
    ----------
    count : int
    of_row : int32 array, shape (n,)
    hops : int
        From strip to strip on the longest way through them.
    """

    count: int
    of_row: Any
    hops: int


def ranges(P: Pattern, count: int) -> Strips:
    """Consecutive rows, about the same number in each strip."""
    n = P.n
    rank = np.arange(n) if P.lower else np.arange(n - 1, -1, -1)
    return Strips(count, (rank * count // max(n, 1)).astype(np.int32), count - 1)


def columns(P: Pattern, most: int) -> list[Strips]:
    """Columns of a grid, in twos, fours, ... up to `most`; none where the rows are not one's.

    Coordinates that no entry lowers (of a lower triangle), such as those of a 5- or 7-point grid,
    may be cut anywhere.
    """
    axes = grid_axes(P)
    rows = row_of_entries(P.indptr, len(P.indices)) if axes else P.indices
    for axis in axes:
        step = axis.of(rows) - axis.of(P.indices)
        if not np.all(step >= 0 if P.lower else step <= 0):
            return []
    return [_blocks(P, axes, cuts) for cuts in grid_cuts(axes, most)]


def grid_cuts(axes: list[Axis], most: int) -> list[list[int]]:
    """In how many parts each axis is cut, twice as many columns each time, up to `most`."""
    cuts = [1] * len(axes)
    found: list[list[int]] = []
    while axes:
        widest = max(range(len(axes)), key=lambda k: axes[k].length / cuts[k])
        cuts[widest] *= 2
        if np.prod(cuts) > most or axes[widest].length < THINNEST * cuts[widest]:
            break
        found.append(list(cuts))
    return found


@dataclass(frozen=True, eq=False)
class Axis:
    """Coordinate row // stride % length of each row."""

    stride: int
    length: int

    def of(self, rows: Any) -> Any:
        return rows // self.stride % self.length


def grid_axes(P: Pattern) -> list[Axis]:
    """The axes of a grid but the slowest, as its longest row shows them; all or none."""
    if len(P.indices) == 0 or row_shapes(P).longest > MOST_AXES:
        return []
    longest = int((P.indptr[1:] - P.indptr[:-1]).argmax())
    begin, end = P.indptr[longest : longest + 2].tolist()
    strides = sorted({abs(longest - column) for column in P.indices[begin:end].tolist()} | {1})
    pairs = list(pairwise(strides))
    if any(after % stride for stride, after in pairs):
        return []
    return [Axis(stride, after // stride) for stride, after in pairs]


def _blocks(P: Pattern, axes: list[Axis], cuts: list[int]) -> Strips:
    """Each axis cut into so many parts; strips in lexicographic order of them."""
    rows, strip = np.arange(P.n, dtype=np.int32), np.zeros(P.n, np.int32)
    for axis, parts in zip(axes, cuts, strict=True):
        part = axis.of(rows) * parts // axis.length
        strip = strip * parts + (part if P.lower else parts - 1 - part)
    return in_lexicographic_order(strip, cuts)


def in_lexicographic_order(strip: Any, cuts: list[int]) -> Strips:
    """Strips that are numbered through the parts of the first axis, then of the second, ..."""
    return Strips(int(np.prod(cuts)), strip, sum(cuts) - len(cuts))


def in_steps(P: Pattern, found: Levels, strips: Strips) -> Steps:
    """Order the rows by strip, level and index, and cut them into steps."""
    n = P.n
    n_strips, strip = strips.count, strips.of_row
    run = strip.astype(np.int64) * found.n_levels + found.level  # rows of one strip and level
    order = np.argsort(run, kind="stable").astype(np.int32)
    run = run[order]
    position = np.empty(n, np.int32)
    position[order] = np.arange(n, dtype=np.int32)
    step_ptr, step_start = _cut(run, LANES, strip[order], n_strips)
    return Steps(step_ptr, step_start, position, strip, order)


def _cut(run: Any, lanes: Any, strip: Any, n_strips: int) -> tuple[Any, Any]:
    """(step_ptr, step_start) of runs of equal numbers, cut every `lanes` positions."""
    n = len(run)
    begins = np.ones(n, bool)
    begins[1:] = run[1:] != run[:-1]
    first = np.flatnonzero(begins)
    since = np.arange(n) - first[np.cumsum(begins) - 1]
    step_start = np.flatnonzero(since % lanes == 0).astype(np.int32)
    steps = np.bincount(strip[step_start], minlength=n_strips)
    step_ptr = np.zeros(n_strips + 1, np.int32)
    step_ptr[1:] = np.cumsum(steps)
    return step_ptr, np.concatenate((step_start, np.asarray([n], np.int32)))


def with_shares(found: Levels, steps: Steps, split: Split) -> Steps:
    """Steps of fewer rows where these need several lanes each, SHARE_OF_LANE near entries a lane.

    All rows of one strip and level have as many lanes as the one that needs most.
    """
    strip, n_strips = steps.strip[steps.row], len(steps.step_ptr) - 1
    key = strip.astype(np.int64) * found.n_levels + found.level[steps.row]
    run = np.cumsum(np.diff(key, prepend=key[:1]) != 0)
    most = np.zeros(len(run), np.int64)
    np.maximum.at(most, run, (split.near_source != -2).sum(axis=1))
    shares = np.zeros(len(run), np.int32)
    for s in range(1, 1 + LANES.bit_length()):
        shares += SHARE_OF_LANE << s - 1 < most
    step_ptr, step_start = _cut(run, LANES >> shares[run], strip, n_strips)
    by_step = shares[run[step_start[:-1]]]
    return Steps(step_ptr, step_start, steps.position, steps.strip, steps.row, by_step)


@dataclass(frozen=True, eq=False)
class Split:
    """The entries of a triangle by how a strip's block comes to the value.

    Parameters
    ----------
    near_slot : uint16 array, shape (n, K)
        Where in the block's window the value is; WINDOW where there is no entry.
    near_source : int32 array, shape (n, K)
        The entry of the triangle, or -2.
    far_ptr : int32 array, shape (n + 1,)
    far_position, far_source : int32 arrays
        Position of the value and the entry of the triangle.
    """

    near_slot: Any
    near_source: Any
    far_ptr: Any
    far_position: Any
    far_source: Any


def split_entries(P: Pattern, found: Levels, steps: Steps, widths: tuple[int, ...]) -> Split:
    """The K latest dependencies of a row in its own strip are near; K is one of `widths`.

    Near entries come with the latest first, far ones in ascending level, as a row needs them, and
    by column in one level.
    """
    n, nnz = P.n, len(P.indices)
    row = row_of_entries(P.indptr, nnz)
    at, of = steps.position[row], steps.position[P.indices]
    near = (steps.strip[row] == steps.strip[P.indices]) & (at - of <= WINDOW - 2 * LANES)
    latest = np.lexsort((-of, ~near, at))
    rank = np.empty(nnz, np.int32)
    rank[latest] = np.arange(nnz, dtype=np.int32) - _offsets(at, n)[at[latest]]
    could = np.bincount(at[near], minlength=n)
    K = width(could.sum(), [np.count_nonzero(could >= m + 1) for m in range(widths[-1])], widths)
    near &= rank < K
    slot = np.full((n, K), WINDOW, np.uint16)
    source = np.full((n, K), -2, np.int32)
    slot[at[near], rank[near]] = of[near] % WINDOW
    source[at[near], rank[near]] = np.flatnonzero(near)
    far = np.flatnonzero(~near).astype(np.int32)
    far = far[np.lexsort((far, found.level[P.indices[far]], at[far]))]
    return Split(slot, source, _offsets(at[far], n), of[far], far)


def _offsets(at: Any, n: int) -> Any:
    """Where the entries of each position begin, if they are in the order of positions."""
    ptr = np.zeros(n + 1, np.int32)
    if len(at):
        ptr[1:] = np.cumsum(np.bincount(at, minlength=n))
    return ptr


def width(total: int, rows_with: Any, widths: tuple[int, ...]) -> int:
    """The smallest K that leaves at most one in a thousand near entries to the gatherers.

    There are `total` near entries; rows_with[m] rows have more than m of them.
    """
    for K in widths[:-1]:
        if (total - sum(rows_with[:K])) * 1000 <= total:
            return K
    return widths[-1]
