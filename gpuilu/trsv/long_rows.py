"""x_i = (b_i + sum_s y_s) / t_ii, y_s = - sum over segment s of t_ij x_j: long rows cut up.

Each segment of a long row becomes a row of its own, an auxiliary unknown with b = 0 and diagonal 1,
so that other lanes work on it at the same time; the row itself then has one entry, -1, for each
segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.csr import row_of_entries
from gpuilu.dag import once, row_shapes
from gpuilu.triangle import Pattern

__all__ = ["Cut", "cut_long_rows", "numbered"]


@dataclass(frozen=True, eq=False)
class Cut:
    """A strict triangle whose long rows are cut into segments.

    Parameters
    ----------
    pattern : Pattern
        With the auxiliary rows, each placed where it is solved before its row.
    row : int32 array, shape (pattern.n,), or None
        The row of the original triangle, -1 for an auxiliary one; None where nothing was cut.
    source : int32 array, shape (nnz,), or None
        Position of each entry in the original triangle, -1 for an entry that is -1.
    """

    pattern: Pattern
    row: Any
    source: Any


SEGMENT, LONG = 64, 16


def cut_long_rows(T: Pattern, segment: int = SEGMENT, long: float = LONG) -> Cut:
    """Cut rows beyond `segment` entries and `long` times the mean, again until none is longer.

    Once inside `remembered()`, so that a choice and the plan that follows analyse one pattern.
    """
    cut: Cut = once(_cut_long_rows, T, segment, long)
    return cut


def _cut_long_rows(T: Pattern, segment: int, long: float) -> Cut:
    longest = max(segment, int(long * (len(T.indices) / max(T.n, 1))))
    cut = Cut(Pattern(T.lower, T.indptr, T.indices), None, None)
    while row_shapes(cut.pattern).longest > longest:
        cut = _cut_once(numbered(cut), longest)
    return cut


def numbered(cut: Cut) -> Cut:
    """The same with rows and sources written down."""
    if cut.row is not None:
        return cut
    P, xp = cut.pattern, namespace(cut.pattern.indptr)
    return Cut(P, xp.arange(P.n, dtype=np.int32), xp.arange(len(P.indices), dtype=np.int32))


def _cut_once(old: Cut, longest: int) -> Cut:
    T = old.pattern
    xp = namespace(T.indptr)
    length = T.indptr[1:] - T.indptr[:-1]
    segments = xp.where(length > longest, -(-length // longest), 0).astype(np.int32)
    before = xp.cumsum(segments).astype(np.int32) - segments
    place = xp.arange(T.n, dtype=np.int32) + before + (segments if T.lower else 0)
    first_segment = place - segments if T.lower else place + np.int32(1)

    entry_row = row_of_entries(T.indptr, len(T.indices))
    offset = xp.arange(len(T.indices), dtype=np.int32) - T.indptr[entry_row]
    is_cut = segments[entry_row] > 0
    segment = xp.where(is_cut, offset // longest, 0)
    new_row = xp.where(is_cut, first_segment[entry_row] + segment, place[entry_row])

    n = T.n + int(segments.sum())
    new_length = xp.bincount(new_row, minlength=n).astype(np.int32)
    new_length[place] += segments
    indptr = xp.zeros(n + 1, np.int32)
    indptr[1:] = xp.cumsum(new_length)
    indices = xp.empty(int(indptr[-1]), np.int32)
    source = xp.full(len(indices), -1, np.int32)
    at = indptr[new_row] + offset - segment * longest
    indices[at], source[at] = place[T.indices], old.source

    owner = row_of_entries(xp.concatenate((before, before[-1:] + segments[-1:])), n - T.n)
    rank = xp.arange(n - T.n, dtype=np.int32) - before[owner]
    indices[indptr[place[owner]] + rank] = first_segment[owner] + rank

    row = xp.full(n, -1, np.int32)
    row[place] = old.row
    return Cut(Pattern(T.lower, indptr, indices), row, source)
