"""How long a solve in strips will take: steps on the longest path, hops between strips, traffic.

What is counted of strips is counted here in array operations, on the CPU; strips_pack.py has
kernels for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.csr import row_of_entries
from gpuilu.dag import Levels
from gpuilu.triangle import Pattern
from gpuilu.trsv.strips import LANES, MOST_OF_LANE, SHARE_OF_LANE, Strips

__all__ = [
    "CLOSE",
    "CROWDED",
    "FULL",
    "MOST_STAGED",
    "Counts",
    "counted",
    "most_runs",
    "of_strips",
    "predicted_us",
    "waits_long",
]

CLOSE, CROWDED = SHARE_OF_LANE, MOST_OF_LANE  # entries of a row in its own strip: few, and many
SHARED_ROWS = LANES // 4  # so many rows have room in a step where several lanes share one
MOST_STAGED = 64  # far entries of a step that are copied with it, as strips_copied.cuh has it
FULL = 1.1  # lanes of all steps for one row, at most, that steps are said to be nearly full
MOST_RUNS, RUNS_A_ROW = 10_000_000, 16  # strips times levels up to which runs are counted


@dataclass(frozen=True)
class Counts:
    """What strips make of a triangle.

    Parameters
    ----------
    strips : int
        How many.
    hops : int
        From strip to strip on the longest way through them.
    path, shared_path : int
        Steps of 32 and of SHARED_ROWS rows on the longest path: those of the widest strip in each
        level.
    steps : int
        Of 32 rows, in all strips.
    far : int
        Entries that lead to another strip.
    beyond : int
        Entries of rows in their own strip beyond the CLOSE nearest.
    crowded : int
        Rows with more than CROWDED entries in their own strip.
    """

    strips: int
    hops: int
    path: int
    shared_path: int
    steps: int
    far: int
    beyond: int
    crowded: int


def most_runs(P: Pattern) -> int:
    """Strips times levels up to which runs are counted.

    On a GPU they take four bytes each; all numbers of ranges together twice as many as the largest.
    """
    return max(MOST_RUNS, RUNS_A_ROW * P.n)


def counted(P: Pattern, found: Levels, strips: Strips) -> Counts | None:
    """What some strips make of a triangle; None where that takes too many runs."""
    n_strips, strip = strips.count, strips.of_row
    if n_strips * found.n_levels > most_runs(P) or P.n == 0:
        return None
    run = strip.astype(np.int64) * found.n_levels + found.level
    rows = np.bincount(run, minlength=n_strips * found.n_levels).reshape(n_strips, -1)
    row = row_of_entries(P.indptr, len(P.indices))
    is_near = strip[P.indices] == strip[row]
    inside = np.bincount(row[is_near], minlength=P.n)
    beyond, crowded = np.maximum(inside - CLOSE, 0).sum(), np.count_nonzero(inside > CROWDED)
    sums = (-(-rows // LANES)).sum(), np.count_nonzero(~is_near), beyond, crowded
    return of_strips(n_strips, strips.hops, sums, rows.max(axis=0))


def of_strips(strips: int, hops: int, sums: Any, widest: Any) -> Counts:
    """The same, from the counts behind the paths and the rows of the widest strip in each level."""
    path, shared_path = (int((-(-widest // rows)).sum()) for rows in (LANES, SHARED_ROWS))
    steps, far, beyond, crowded = (int(k) for k in sums)
    return Counts(strips, hops, path, shared_path, steps, far, beyond, crowded)


# Fitted to what an H200 took for 394 choices of strips: see docs/notes/strips.rst. A step, its far
# entries for each row, and a hop: of strips whose static data are copied, of others, of rows with
# many near entries, and of rows that lanes share.
COPIED, LOADED = (0.06, 0.0, 1.8), (0.095, 0.005, 0.95)
LONG, SHARED = (0.115, 0.0, 1.45), (0.2, 0.0, 0.4)
SINGLE = 0.9  # of all these in single precision
STRIP_US, ROW_US, ENTRY_US_A_BYTE = 0.06, 2.2e-5, 2.2e-7
# Entries of a row on average from and up to which static data may be copied: with fewer the copies
# take too much memory, with more too many are far.
FEWEST, FEW = 1.5, 4
BEYOND, MANY = 4e-3, 0.02  # a share of the entries, and of the rows, that tells
MOST_TOLD = 48  # entries of a row on average; `row` is faster on a band of 64 and dense triangles
AT_ONCE = 132  # strips: multiprocessors of that card
LONG_WAIT = 2  # times as long as a step a level


def predicted_us(P: Pattern, found: Levels, counts: Counts | None, itemsize: int) -> float:
    """Time of a solve with values of `itemsize` bytes; infinite where it is not known."""
    if counts is None or P.n == 0:
        return np.inf
    nnz, path, rows = len(P.indices), counts.path, LANES
    if counts.crowded > MANY * P.n:
        kind, path, rows = SHARED, counts.shared_path, SHARED_ROWS
        if nnz > MOST_TOLD * P.n:
            return np.inf
    elif counts.beyond > BEYOND * nnz:
        kind = LONG
    else:
        kind = COPIED if _copied(P, counts, itemsize) else LOADED
    step, far, hop = kind
    rounds = -(-counts.strips // AT_ONCE)  # of blocks, where not all strips are at work at once
    busy = rounds * max(counts.steps, P.n / rows) / counts.strips
    waiting = (step + far * counts.far / P.n) * max(path, busy) + hop * _hops(P, found, counts)
    single = SINGLE if itemsize == 4 else 1
    return single * waiting + STRIP_US * counts.strips + _traffic_us(P, itemsize)


def _traffic_us(P: Pattern, itemsize: int) -> float:
    return ROW_US * P.n + ENTRY_US_A_BYTE * (4 + itemsize) * len(P.indices)


def waits_long(P: Pattern, found: Levels, counted: Sequence[Counts | None]) -> bool:
    """Whether the best of these takes far longer than a step a level, which hardly any can save.

    Not where nothing is known of them.
    """
    best = min(predicted_us(P, found, counts, itemsize=8) for counts in counted)
    least = LOADED[0] * found.n_levels + _traffic_us(P, itemsize=8)
    return LONG_WAIT * least < best < np.inf


def _copied(P: Pattern, counts: Counts, itemsize: int) -> bool:
    """Whether gatherers are likely to copy: steps are nearly full, and few of their entries far."""
    nnz, full = len(P.indices), LANES * counts.steps <= FULL * P.n
    few = FEWEST * P.n <= nnz <= FEW * P.n and counts.far <= MOST_STAGED * counts.steps
    return full and few and itemsize <= 8


def _hops(P: Pattern, found: Levels, counts: Counts) -> float:
    """Hops on the longest path, as many of its dependencies being far as of all."""
    far = found.n_levels * counts.far / max(len(P.indices), 1)
    return min(counts.hops, found.n_levels - 1, 1 + far)
