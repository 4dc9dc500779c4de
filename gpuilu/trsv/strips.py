"""Rows in strips, strips in steps: where each row of a triangle goes, and what it needs from where.

A strip is a range of consecutive rows. Its rows are taken in the order of their levels, 32 at a
time, never across two levels; such a step is 32 *positions*, the last of a level padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.csr import row_of_entries
from gpuilu.dag import Levels
from gpuilu.triangle import Pattern

__all__ = ["Split", "Steps", "in_steps", "split_entries"]

LANES = 32  # positions of a step
PAD = 8  # a strip's steps are a multiple of this
WINDOW = 1024  # positions of its strip that a block of blocked.cu remembers


@dataclass(frozen=True, eq=False)
class Steps:
    """The order in which the rows of a triangle are solved.

    Parameters
    ----------
    step_ptr : int32 array, shape (n_strips + 1,)
        Strip t is the steps `step_ptr[t]:step_ptr[t + 1]`.
    position : int32 array, shape (n,)
        Row i is solved by lane position[i] % 32 in step position[i] // 32.
    strip : int32 array, shape (n,)
        The strip of each row.
    """

    step_ptr: Any
    position: Any
    strip: Any

    @property
    def n_positions(self) -> int:
        """Positions of all steps, with PAD empty steps at the end."""
        return LANES * (int(self.step_ptr[-1]) + PAD)


def in_steps(P: Pattern, found: Levels, n_strips: int) -> Steps:
    """Cut the rows of P into `n_strips` ranges of about the same length, and those into steps."""
    xp, n = namespace(P.indptr), P.n
    rank = xp.arange(n, dtype=np.int64)
    if not P.lower:
        rank = rank[::-1]
    strip = (rank * n_strips // max(n, 1)).astype(np.int32)
    run = strip.astype(np.int64) * found.n_levels + found.level  # rows of one strip and level
    order = xp.argsort(run, kind="stable").astype(np.int32)
    run = run[order]
    begins = xp.ones(n, bool)
    begins[1:] = run[1:] != run[:-1]
    first = xp.flatnonzero(begins)
    length = xp.diff(first, append=xp.asarray([n]))
    steps = -(-length // LANES)
    strip_of_run = strip[order[first]]
    used = xp.bincount(strip_of_run, weights=steps, minlength=n_strips).astype(np.int64)
    step_ptr = xp.zeros(n_strips + 1, np.int32)
    step_ptr[1:] = xp.cumsum(-(-used // PAD) * PAD)
    before = xp.cumsum(used) - used  # steps of earlier strips, without their padding
    step_of_run = xp.cumsum(steps) - steps - before[strip_of_run] + step_ptr[strip_of_run]
    which = xp.cumsum(begins) - 1
    position = xp.empty(n, np.int32)
    position[order] = LANES * step_of_run[which] + xp.arange(n) - first[which]
    return Steps(step_ptr, position, strip)


@dataclass(frozen=True, eq=False)
class Split:
    """The entries of a triangle by how a strip's block comes to the value.

    Parameters
    ----------
    near_slot : uint16 array, shape (n_positions, K)
        Where in the block's window the value is; WINDOW where there is no entry.
    near_source : int32 array, shape (n_positions, K)
        The entry of the triangle, or -1.
    far_ptr : int32 array, shape (n_positions + 1,)
    far_position, far_source : int32 arrays
        Position of the value and the entry of the triangle.
    """

    near_slot: Any
    near_source: Any
    far_ptr: Any
    far_position: Any
    far_source: Any


def split_entries(P: Pattern, found: Levels, steps: Steps, widths: tuple[int, ...]) -> Split:
    """The K latest dependencies of a row in its own strip are near; K is one of `widths`."""
    xp = namespace(P.indptr)
    row = row_of_entries(P.indptr, len(P.indices))
    at, of = steps.position[row], steps.position[P.indices]
    near = (steps.strip[row] == steps.strip[P.indices]) & (at - at % LANES - of <= WINDOW - LANES)
    # By position; near entries first, the latest of them first; far ones in the order of need.
    level = found.level[P.indices].astype(np.int64)
    n_levels = max(found.n_levels, 1)
    rank_key = xp.where(near, n_levels - 1 - level, n_levels + level)
    order = xp.argsort(at.astype(np.int64) * (2 * n_levels) + rank_key, kind="stable")
    at, of, near = at[order], of[order], near[order]
    ptr = xp.zeros(steps.n_positions + 1, np.int32)
    ptr[1:] = xp.cumsum(xp.bincount(at, minlength=steps.n_positions))
    rank = xp.arange(len(at), dtype=np.int32) - ptr[at]
    K = _width(near, rank, widths)
    near &= rank < K
    slot = xp.full((steps.n_positions, K), WINDOW, np.uint16)
    source = xp.full((steps.n_positions, K), -1, np.int32)
    slot[at[near], rank[near]] = of[near] % WINDOW
    source[at[near], rank[near]] = order[near]
    far = ~near
    far_ptr = xp.zeros(steps.n_positions + 1, np.int32)
    far_ptr[1:] = xp.cumsum(xp.bincount(at[far], minlength=steps.n_positions))
    return Split(slot, source, far_ptr, of[far].astype(np.int32), order[far].astype(np.int32))


def _width(near: Any, rank: Any, widths: tuple[int, ...]) -> int:
    """The smallest K that leaves at most one in fifty near entries to the gatherers."""
    total = int(near.sum())
    for K in widths[:-1]:
        if int((near & (rank >= K)).sum()) * 50 <= total:
            return K
    return widths[-1]
