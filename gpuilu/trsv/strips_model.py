"""How long a solve in strips will take: steps on the longest path, hops between strips, traffic.

What is counted of strips is counted here in array operations, on the CPU; strips_pack.py has
kernels for a GPU.
"""

from __future__ import annotations

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
    "MOST_RUNS",
    "Counts",
    "counted",
    "of_strips",
    "predicted_us",
]

CLOSE, CROWDED = SHARE_OF_LANE, MOST_OF_LANE  # entries of a row in its own strip: few, and many
SHARED_ROWS = LANES // 4  # so many rows have room in a step where several lanes share one
FULL = 1.1  # lanes of all steps for one row, at most, that steps are said to be nearly full
MOST_RUNS = 10_000_000  # strips times levels up to which runs are counted


@dataclass(frozen=True)
class Counts:
    """What strips make of a triangle.

    Parameters
    ----------
    path, shared_path : int
        Steps of 32 and of SHARED_ROWS rows on the longest path: those of the widest strip in each
        level.
    steps : int
        Of 32 rows, in all strips.
    beyond : int
        Entries of rows in their own strip beyond the CLOSE nearest.
    crowded : int
        Rows with more than CROWDED entries in their own strip.
    """

    path: int
    shared_path: int
    steps: int
    beyond: int
    crowded: int


def counted(P: Pattern, found: Levels, strips: Strips) -> Counts | None:
    """What some strips make of a triangle; None where that takes too many runs."""
    n_strips, strip = strips.count, strips.of_row
    if n_strips * found.n_levels > MOST_RUNS or P.n == 0:
        return None
    run = strip.astype(np.int64) * found.n_levels + found.level
    rows = np.bincount(run, minlength=n_strips * found.n_levels).reshape(n_strips, -1)
    row = row_of_entries(P.indptr, len(P.indices))
    inside = np.bincount(row[strip[P.indices] == strip[row]], minlength=P.n)
    beyond, crowded = np.maximum(inside - CLOSE, 0).sum(), np.count_nonzero(inside > CROWDED)
    return of_strips((-(-rows // LANES)).sum(), beyond, crowded, rows.max(axis=0))


def of_strips(steps: Any, beyond: Any, crowded: Any, widest: Any) -> Counts:
    """The same, from the rows of the widest strip in each level."""
    path, shared_path = (int((-(-widest // rows)).sum()) for rows in (LANES, SHARED_ROWS))
    return Counts(path, shared_path, int(steps), int(beyond), int(crowded))


# Fitted to what an H200 took for 300 choices of strips: see docs/notes/strips.rst. A step and a hop
# of strips whose static data are copied, of others, of rows with many near entries, and of rows
# that lanes share.
COPIED, LOADED, LONG, SHARED = (0.06, 1.8), (0.09, 1.2), (0.115, 1.45), (0.2, 0.4)
SINGLE = 0.9  # of all these in single precision
STRIP_US, ROW_US, ENTRY_US_A_BYTE = 0.06, 2.9e-5, 3.4e-7
FEW = 4  # entries of a row on average up to which few enough may be far to be copied
BEYOND, MANY = 1e-3, 0.02  # a share of the entries, and of the rows, that tells
MOST_TOLD = 48  # entries of a row on average; `row` is faster on a band of 64 and dense triangles


def predicted_us(
    P: Pattern, found: Levels, strips: Strips, counts: Counts | None, itemsize: int
) -> float:
    """Time of a solve with values of `itemsize` bytes; infinite where it is not known."""
    if counts is None or P.n == 0:
        return np.inf
    nnz, path = len(P.indices), counts.path
    if counts.crowded > MANY * P.n:
        (step, hop), path = SHARED, counts.shared_path
        if nnz > MOST_TOLD * P.n:
            return np.inf
    elif counts.beyond > BEYOND * nnz:
        step, hop = LONG
    elif itemsize <= 8 and LANES * counts.steps <= FULL * P.n and nnz <= FEW * P.n:
        step, hop = COPIED
    else:
        step, hop = LOADED
    waiting = step * path + hop * min(strips.hops, found.n_levels - 1)
    traffic = ROW_US * P.n + ENTRY_US_A_BYTE * (4 + itemsize) * nnz
    return (SINGLE if itemsize == 4 else 1) * waiting + STRIP_US * strips.count + traffic
