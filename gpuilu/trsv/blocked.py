"""x_i = (b_i - sum_j t_ij x_j) / t_ii, rows in strips: values cross multiprocessors rarely.

A block solves a range of consecutive rows in the order of their levels. What its rows need from
each other goes through shared memory, what they need from other strips is fetched ahead by other
warps (kernels/blocked.cu).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import Levels, levels
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import Cut, cut_long_rows
from gpuilu.trsv.row import LONG, SEGMENT, columns_at_once
from gpuilu.trsv.strips import Split, in_steps, predicted_us, split_entries

__all__ = ["Blocked", "predicted"]

THREADS = 512
WIDTHS = {"f": (2, 4, 8), "d": (2, 4, 8), "F": (2, 4), "D": (2, 4)}  # near entries of a row
STRIPS = (32, 64, 128)  # how many may be tried
FEWEST_ROWS = 256  # of a strip


class Blocked(Plan):
    """Strips of consecutive rows, one thread block each.

    Memory: the triangle once more, and two vectors of scratch for each stream.
    """

    name = "blocked"
    device = "cuda"
    source = "own; the value as its own ready mark after Dufrechou and Ezzatti 2018"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._pack(T)
        self._launcher = cuda.Launcher()
        self._workspaces = cuda.Workspaces(self._launcher)
        self._configurations: dict[Any, tuple[Any, int]] = {}
        self._enqueueing = threading.Lock()
        self._strips = cuda.struct(
            *(self.n_strips, self._step_ptr, self._step_start, self._row),
            *(self._far_ptr, self._far_position, self._far_data),
            *(self._near_slot, self._near_data, self._scale, T.diag),
        )
        self.refresh()

    def _pack(self, T: Triangle) -> None:
        xp = namespace(T.indptr)
        cut = _cut(T)
        P = cut.pattern
        found = levels(P)
        self.n_strips = predicted(P, found)[1]
        steps = in_steps(P, found, self.n_strips)
        split = split_entries(P, found, steps, WIDTHS[T.dtype.char])
        self._step_ptr, self._step_start = steps.step_ptr, steps.step_start
        self._row = xp.empty(P.n, np.int32)
        self._row[steps.position] = cut.row
        self._near_slot = split.near_slot
        self._far_ptr, self._far_position = split.far_ptr, split.far_position
        self._near_source, self._far_source = _sources(split, cut, P.n != T.n)
        self._near_data = xp.empty(split.near_slot.shape, T.dtype)
        self._far_data = xp.empty(len(self._far_position), T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(P.n, T.dtype)

    def refresh(self) -> None:
        T = self.T
        _take(T.data, self._near_source, self._near_data)
        _take(T.data, self._far_source, self._far_data)
        if T.diag is not None:
            value, n = cuda.value_type(T.dtype), len(self._row)
            cuda.for_each("row", f"reciprocals<{value}>", n, n, self._row, T.diag, self._scale)

    def solve(self, x: Any, b: Any = None) -> None:
        self.check()
        b = x if b is None else b
        nrhs = 1 if x.ndim == 1 else x.shape[1]
        function, blocks = self._configuration(x.dtype, nrhs)
        value, n = cuda.value_type(x.dtype), len(self._row) * nrhs
        with self._enqueueing:
            scratch = self._workspaces.get(2 * n * x.itemsize)
            scratch.fill_marks(0)
            y, right = scratch.parts(n * x.itemsize, 2)
            count, columns = np.int64(n), np.int32(nrhs)
            cuda.for_each(
                "blocked", f"strips_enter<{value}>", n, count, self._row, b, right, y, columns
            )
            function((blocks,), (THREADS,), (self._strips, right, y, columns, scratch.launch))
            cuda.for_each("blocked", f"strips_leave<{value}>", n, count, self._row, y, x, columns)

    def check(self) -> None:
        self._launcher.raise_if_stalled()

    def _configuration(self, dtype: np.dtype, nrhs: int) -> tuple[Any, int]:
        """(kernel, blocks) for right-hand sides of that dtype and number."""
        columns = 1 if nrhs == 1 else columns_at_once(dtype.char)
        key = (dtype.char, columns)
        if key not in self._configurations:
            factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
            K = self._near_slot.shape[1]
            unit = str(self.T.unit_diagonal).lower()
            parameters = f"{factor},{vector},{K},{columns},{unit}"
            function = cuda.kernel("blocked", f"strips_solve<{parameters}>")
            self._configurations[key] = function, cuda.full_grid(function, THREADS)
        function, full = self._configurations[key]
        return function, max(1, min(full, self.n_strips * -(-nrhs // columns)))


def predicted(P: Pattern, found: Levels) -> tuple[float, int]:
    """(microseconds, number of strips) of the number of strips that promises most."""
    most = max(1, P.n // FEWEST_ROWS)
    counts = sorted({min(count, most) for count in STRIPS})
    times = [(predicted_us(P, found, count), -count) for count in counts]
    microseconds, strips = min(times)
    return microseconds, -strips


def _cut(T: Triangle) -> Cut:
    mean = len(T.indices) / max(T.n, 1)
    return cut_long_rows(T, max(SEGMENT, int(LONG * mean)))


def _sources(split: Split, cut: Cut, is_cut: bool) -> tuple[Any, Any]:
    """Where near and far values come from in T: -1 for a value of -1, -2 for no entry."""
    xp = namespace(split.near_source)
    near, far, none = split.near_source, split.far_source, np.int32(-2)
    if not is_cut:
        return xp.where(near < 0, none, near), far
    return xp.where(near < 0, none, cut.source[near]), cut.source[far]


def _take(values: Any, source: Any, result: Any) -> None:
    """result = values[source], -1 where source is -1, 0 where it is -2."""
    xp = namespace(values)
    instead = xp.where(source == -1, -1, 0)
    if len(values) == 0:
        result[...] = instead
    else:
        result[...] = xp.where(source >= 0, values[xp.maximum(source, 0)], instead)
