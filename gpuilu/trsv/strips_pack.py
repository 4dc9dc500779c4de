"""Strips, steps and entries as strips.py defines them, made on a GPU by kernels/strips_pack.cu.

Array operations took some thirty passes over rows and entries and two sorts; see
docs/notes/set-up.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.dag import COUNTING, Levels, argsorted
from gpuilu.triangle import Pattern
from gpuilu.trsv import strips as host
from gpuilu.trsv import strips_model
from gpuilu.trsv.strips import Split, Steps, Strips, width
from gpuilu.trsv.strips_model import CLOSE, CROWDED, MOST_RUNS, Counts, of_strips

__all__ = ["columns", "counts", "in_steps", "ranges", "split_entries", "with_shares"]

MOST_NEAR = 16  # entries of a row that are counted apart
STRIPS_A_THREAD = 8


def ranges(P: Pattern, count: int) -> Strips:
    """Consecutive rows, about the same number in each strip."""
    return (_ranges_cuda if on_gpu(P.indptr) else host.ranges)(P, count)


def columns(P: Pattern, most: int) -> list[Strips]:
    """Columns of a grid, in twos, fours, ... up to `most`; none where the rows are not one's."""
    return (_columns_cuda if on_gpu(P.indptr) else host.columns)(P, most)


def counts(P: Pattern, found: Levels, candidates: Sequence[Strips]) -> list[Counts | None]:
    """What each of some strips makes of a triangle; None where that is too much to count."""
    if on_gpu(P.indptr):
        return _counts_cuda(P, found, candidates)
    return [strips_model.counted(P, found, strips) for strips in candidates]


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


def _counts_cuda(P: Pattern, found: Levels, candidates: Sequence[Strips]) -> list[Counts | None]:
    """All candidates are counted before the host reads what came of them, in one transfer."""
    xp, n, n_levels = namespace(P.indptr), P.n, found.n_levels
    tried = [s for s in candidates if n and s.count * n_levels <= MOST_RUNS]
    counted = xp.zeros((len(tried), 3 + n_levels), np.int32)  # steps, beyond, crowded, widest
    kernel = f"count_strip_rows<{str(P.lower).lower()}>"
    for strips, told in zip(tried, counted, strict=True):
        rows = xp.zeros(strips.count * n_levels, np.uint32)
        pattern = found.level, strips.of_row, P.indptr, P.indices
        sums = told[1:2], told[2:3]
        _launch(kernel, min(n, COUNTING), n, n_levels, CLOSE, CROWDED, *pattern, rows, *sums)
        threads = -(-strips.count // STRIPS_A_THREAD) * n_levels
        _launch("widest_strips", threads, strips.count, n_levels, rows, told, told[3:])
    found_of = {
        id(strips): of_strips(told[0], told[1], told[2], told[3:])
        for strips, told in zip(tried, cuda.to_host(counted), strict=True)
    }
    return [found_of.get(id(strips)) for strips in candidates]


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
