"""Strips, steps and entries as strips.py defines them, made on a GPU by kernels/strips_pack.cu.

Array operations took some thirty passes over rows and entries and two sorts; see
docs/notes/set-up.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.dag import COUNTING, Levels, argsorted
from gpuilu.triangle import Pattern
from gpuilu.trsv import strips as host
from gpuilu.trsv import strips_model
from gpuilu.trsv.strips import Split, Steps, Strips, width
from gpuilu.trsv.strips_model import CLOSE, CROWDED, Counts, most_runs, of_strips

__all__ = [
    "columns",
    "counts_of_ranges",
    "counts_of_strips",
    "in_steps",
    "ranges",
    "split_entries",
    "with_shares",
]

MOST_NEAR = 16  # entries of a row that are counted apart
STRIPS_A_THREAD = 8
MOST_TRIED = 8  # numbers of strips counted at once
WIDEST = 4  # where it begins in what is told: see Told in strips_pack.cu


def ranges(P: Pattern, count: int) -> Strips:
    """Consecutive rows, about the same number in each strip."""
    return (_ranges_cuda if on_gpu(P.indptr) else host.ranges)(P, count)


def columns(P: Pattern, most: int) -> list[Strips]:
    """Columns of a grid, in twos, fours, ... up to `most`; none where the rows are not one's."""
    return (_columns_cuda if on_gpu(P.indptr) else host.columns)(P, most)


def counts_of_ranges(P: Pattern, found: Levels, numbers: Sequence[int]) -> list[Counts | None]:
    """What numbers of ranges make of a triangle, fewest first; None where that is too much."""
    if on_gpu(P.indptr):
        return _counts_of_ranges_cuda(P, found, numbers)
    return [strips_model.counted(P, found, ranges(P, number)) for number in numbers]


def counts_of_strips(P: Pattern, found: Levels, cuts: Sequence[Strips]) -> list[Counts | None]:
    """What other strips make of it, fewest first; None where that is too much."""
    if on_gpu(P.indptr):
        return _counts_of_strips_cuda(P, found, cuts)
    return [strips_model.counted(P, found, strips) for strips in cuts]


def in_steps(P: Pattern, found: Levels, strips: Strips) -> Steps:
    """Order the rows by strip, level and index, and cut them into steps."""
    return (_in_steps_cuda if on_gpu(P.indptr) else host.in_steps)(P, found, strips)


def split_entries(P: Pattern, found: Levels, steps: Steps, widths: tuple[int, ...]) -> Split:
    """The K latest dependencies of a row in its own strip are near; K is one of `widths`."""
    split = _split_entries_cuda if on_gpu(P.indptr) else host.split_entries
    return split(P, found, steps, widths)


def with_shares(found: Levels, steps: Steps, split: Split) -> Steps:
    """Steps of fewer rows where these need several lanes each."""
    return (_with_shares_cuda if on_gpu(steps.row) else host.with_shares)(found, steps, split)


def _launch(kernel: str, n: int, *arguments: Any) -> None:
    cuda.for_each("strips_pack", kernel, n, *arguments)


def _ranges_cuda(P: Pattern, count: int) -> Strips:
    strip = namespace(P.indptr).empty(P.n, np.int32)
    _launch(f"range_of_rows<{str(P.lower).lower()}>", P.n, P.n, count, strip)
    return Strips(count, strip, count - 1)


def _columns_cuda(P: Pattern, most: int) -> list[Strips]:
    xp, n, lower = namespace(P.indptr), P.n, str(P.lower).lower()
    axes = host.grid_axes(P)
    broken = xp.zeros(1, np.uint32)
    for axis in axes:
        pattern = P.indptr, P.indices
        _launch(f"check_axis<{lower}>", n, n, axis.stride, axis.length, *pattern, broken)
    if not axes or int(broken[0]):
        return []
    found = []
    for cuts in host.grid_cuts(axes, most):
        strip = xp.zeros(n, np.int32)
        for axis, parts in zip(axes, cuts, strict=True):
            _launch(f"cut_axis<{lower}>", n, n, axis.stride, axis.length, parts, strip)
        found.append(host.in_lexicographic_order(strip, cuts))
    return found


def _counts_of_ranges_cuda(
    P: Pattern, found: Levels, numbers: Sequence[int]
) -> list[Counts | None]:
    def count(tried: Any, rows: Any, told: Any) -> None:
        kernel = f"count_range_rows<{str(P.lower).lower()}>"
        limits = P.n, found.n_levels, CLOSE, CROWDED, tried
        arrays = found.level, P.indptr, P.indices, rows, told
        _launch(kernel, min(P.n, COUNTING), *limits, *arrays)

    return _counts_cuda(P, found, numbers, [number - 1 for number in numbers], count)


def _counts_of_strips_cuda(
    P: Pattern, found: Levels, cuts: Sequence[Strips]
) -> list[Counts | None]:
    def count(tried: Any, rows: Any, told: Any) -> None:
        first = 0
        for strips, mine in zip(cuts, told, strict=False):  # those of few enough runs come first
            here, pattern = rows[first:], (strips.of_row, P.indptr, P.indices)
            first += strips.count * found.n_levels
            limits = P.n, found.n_levels, CLOSE, CROWDED
            arguments = *limits, found.level, *pattern, here, mine
            _launch("count_strip_rows", min(P.n, COUNTING), *arguments)

    return _counts_cuda(P, found, [s.count for s in cuts], [s.hops for s in cuts], count)


def _counts_cuda(
    P: Pattern,
    found: Levels,
    numbers: Sequence[int],
    hops: Sequence[int],
    count: Callable[[Any, Any, Any], None],
) -> list[Counts | None]:
    """`count` has the rows of each strip at each level, then all goes to the host at once."""
    n_levels = found.n_levels
    tried = [number for number in numbers if P.n and number * n_levels <= most_runs(P)]
    if not tried:
        return [None] * len(numbers)
    assert len(tried) <= MOST_TRIED
    assert tried == sorted(tried)
    xp, filled = namespace(P.indptr), cuda.struct(*tried, *[0] * (MOST_TRIED - len(tried)))
    rows = xp.zeros(sum(tried) * n_levels, np.uint32)
    told = xp.zeros((len(tried), WIDEST + n_levels), np.int32)
    count(filled, rows, told)
    groups = sum(-(-number // STRIPS_A_THREAD) for number in tried)
    threads = groups * -(-n_levels // cuda.WARP) * cuda.WARP
    _launch("widest_strips", threads, n_levels, filled, rows, told)
    made = [
        of_strips(number, hop, mine[:WIDEST], mine[WIDEST:])
        for number, hop, mine in zip(tried, hops, cuda.to_host(told), strict=False)
    ]
    return [*made, *[None] * (len(numbers) - len(made))]


def _in_steps_cuda(P: Pattern, found: Levels, strips: Strips) -> Steps:
    xp, n, strip = namespace(P.indptr), P.n, strips.of_row
    order = found.level_order  # by level and index, and a stable sort keeps that
    by_strip = argsorted(strip[order], strips.count)
    row, position, begins, first = (xp.empty(n, np.int32) for _ in range(4))
    rows = by_strip, order, found.level, strip, row, position, begins
    _launch("place_in_strips", n, n, *rows)
    run = xp.cumsum(begins, dtype=np.int32)
    _launch("note_runs", n, n, begins, run, first)
    _launch("cut_runs", n, n, run, first, begins)
    step = xp.cumsum(begins, dtype=np.int32)
    step_ptr, step_start = _noted_steps(begins, step, row, strip, strips.count)
    return Steps(step_ptr, step_start, position, strip, row)


def _noted_steps(begins: Any, step: Any, row: Any, strip: Any, n_strips: int) -> tuple[Any, Any]:
    xp, n = namespace(row), len(row)
    n_steps = int(step[-1]) if n else 0
    step_ptr, step_start = (xp.zeros(k + 1, np.int32) for k in (n_strips, n_steps))
    _launch("note_steps", n, n, n_strips, begins, step, row, strip, step_start, step_ptr)
    return step_ptr, step_start


def _with_shares_cuda(found: Levels, steps: Steps, split: Split) -> Steps:
    xp, n, K = namespace(steps.row), len(steps.row), split.near_slot.shape[1]
    begins, first, most = (xp.zeros(n, np.int32) for _ in range(3))
    _launch("begin_runs", n, n, steps.row, found.level, steps.strip, begins)
    run = xp.cumsum(begins, dtype=np.int32)
    _launch("note_runs", n, n, begins, run, first)
    _launch("note_most_near", n, n, K, split.near_slot, run, most)
    _launch("share_runs", n, n, run, first, most, begins)
    step = xp.cumsum(begins, dtype=np.int32)
    n_strips = len(steps.step_ptr) - 1
    step_ptr, step_start = _noted_steps(begins, step, steps.row, steps.strip, n_strips)
    shares = xp.zeros(len(step_start) - 1, np.int32)
    _launch("note_shares", n, n, begins, step, run, most, shares)
    return Steps(step_ptr, step_start, steps.position, steps.strip, steps.row, shares)


def _split_entries_cuda(P: Pattern, found: Levels, steps: Steps, widths: tuple[int, ...]) -> Split:
    xp, n, nnz = namespace(P.indptr), P.n, len(P.indices)
    placed = cuda.struct(
        *(P.indptr, P.indices, steps.row, steps.position, steps.strip),
        *(steps.step_ptr, steps.step_start),
    )
    lengths, counts = xp.zeros(n + 1, np.int32), xp.zeros(1 + MOST_NEAR, np.uint32)
    _launch("count_near", min(n, COUNTING), n, placed, lengths, counts)
    total, *rows_with = (int(count) for count in cuda.to_host(counts))
    K = width(total, rows_with, widths)
    _launch("count_far", n, n, K, placed, lengths)
    far_ptr = xp.cumsum(lengths, dtype=np.int32)
    slot, source = xp.empty((n, K), np.uint16), xp.empty((n, K), np.int32)
    far_position, far_source = (xp.empty(nnz - sum(rows_with[:K]), np.int32) for _ in range(2))
    made = slot, source, far_position, far_source
    _launch(f"split_rows<{K}>", n, n, placed, found.level, far_ptr, *made)
    return Split(slot, source, far_ptr, far_position, far_source)
