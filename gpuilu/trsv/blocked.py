"""x_i = (b_i - sum_j t_ij x_j) / t_ii, rows in strips: values cross multiprocessors rarely.

A block solves a strip of rows in the order of their levels. What its rows need from each other goes
through shared memory, what they need from other strips is fetched ahead by other warps
(kernels/blocked.cu).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import Levels, levels, once
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import Cut, cut_long_rows
from gpuilu.trsv.strip_launches import StripsPair, enter, leave, spares
from gpuilu.trsv.strips import (
    Split,
    Strips,
    columns,
    in_steps,
    predicted_us,
    ranges,
    split_entries,
)
from gpuilu.trsv.waiting import WaitingPlan

__all__ = ["Blocked", "predicted"]

THREADS = 512
WIDTHS = {"f": (2, 4, 8), "d": (2, 4, 8), "F": (2, 4), "D": (2, 4)}  # near entries of a row
STRIPS = (32, 64, 128, 256, 512, 1024)  # how many may be tried
MOST_COLUMNS = 128  # of a grid: all of them are at work at once
UNTOLD = 256  # where nothing can be predicted
MUCH_WORSE = 1.3  # than fewer strips: more of them are not looked at
FEWEST_ROWS = 256  # of a strip


class Blocked(WaitingPlan):
    """Strips of consecutive rows, or columns of a grid, one thread block each.

    Memory: the triangle once more, and one or two vectors of scratch for each stream. A triangle
    without entries beside the diagonal needs no strips.
    """

    name = "blocked"
    divides = False
    source = "own; the value as its own ready mark after Dufrechou and Ezzatti 2018"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        if len(T.indices) == 0:
            return
        self._pack(T)
        self._strips = cuda.struct(
            *(self.n_strips, self._step_ptr, self._step_start, self._row),
            *(self._far_ptr, self._far_position, self._far_data),
            *(self._near_slot, self._near_data, self._scale, T.diag),
        )
        self.refresh()

    def _pack(self, T: Triangle) -> None:
        xp = namespace(T.indptr)
        cut = cut_long_rows(T)
        P = cut.pattern
        found = levels(P)
        strips = predicted(P)[1]
        self.n_strips = strips.count
        steps = in_steps(P, found, strips)
        split = split_entries(P, found, steps, WIDTHS[T.dtype.char])
        self._step_ptr, self._step_start = steps.step_ptr, steps.step_start
        self._row = xp.empty(P.n, np.int32)
        self._row[steps.position] = cut.row
        self._near_slot = split.near_slot
        self._far_ptr, self._far_position = split.far_ptr, split.far_position
        self._sources = _sources(split, cut) if P.n != T.n else None
        self._near_data = xp.empty(split.near_slot.shape, T.dtype)
        self._far_data = xp.empty(len(self._far_position), T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(P.n, T.dtype)

    def refresh(self) -> None:
        T = self.T
        if len(T.indices) == 0:
            return
        value, n = cuda.value_type(T.dtype), len(self._row)
        if self._sources is None:
            near = self._near_slot, self._near_data
            far = self._far_ptr, self._far_position, self._far_data
            entries = self._row, *near, *far, T.indptr, T.indices, T.data
            kernel = f"strips_refresh<{value}>"
            cuda.for_each("blocked", kernel, n, n, self._near_slot.shape[1], *entries)
        else:
            for source, data in zip(self._sources, (self._near_data, self._far_data), strict=True):
                _take(T.data, source, data)
        if T.diag is not None:
            cuda.for_each("row", f"reciprocals<{value}>", n, n, self._row, T.diag, self._scale)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return predicted(T)[0]

    def solve(self, x: Any, b: Any = None) -> None:
        if len(self.T.indices):
            super().solve(x, b)
        else:
            _divide(x if b is None else b, self.T.diag, x)

    def followed_by(self, other: Plan) -> StripsPair | None:
        assert isinstance(other, Blocked)
        if not (len(self.T.indices) and len(other.T.indices)):
            return None
        return StripsPair(self, other)

    def sweep(
        self, scratch: Any, by_position: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        """The launch that solves, by position."""
        width, function, columns, full = self._configuration(char, nrhs)
        blocks = max(1, min(full, self.n_strips * -(-nrhs // columns)))
        arguments = (self._strips, by_position, y, width, launch)
        return scratch.prepare(function, blocks, THREADS, *arguments)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        vectors = 1 if spares(len(self._row), self.T.n, in_place) else 2
        return vectors * len(self._row) * nrhs * np.dtype(char).itemsize

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        nbytes = len(self._row) * nrhs * np.dtype(char).itemsize
        y, *rest = scratch.parts(nbytes, self._nbytes(char, nrhs, in_place) // nbytes)
        by_position, launch = rest[0] if rest else cuda.GIVEN_X, scratch.launch
        return [
            enter(scratch, self._row, cuda.GIVEN_B, by_position, y, launch, char, nrhs),
            self.sweep(scratch, by_position, y, launch, char, nrhs),
            leave(scratch, self._row, y, cuda.GIVEN_X, char, nrhs),
        ]

    def _configure(self, dtype: np.dtype, columns: int) -> tuple[Any, int, int]:
        """(kernel, columns, most blocks)."""
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        K, unit = self._near_slot.shape[1], str(self.T.unit_diagonal).lower()
        function = cuda.kernel("blocked", f"strips_solve<{factor},{vector},{K},{columns},{unit}>")
        return function, columns, cuda.full_grid(function, THREADS)


def predicted(P: Pattern) -> tuple[float, Strips]:
    """(microseconds, strips) of the strips that promise most."""
    return once(_predicted, P)


def _predicted(P: Pattern) -> tuple[float, Strips]:
    found = levels(P)
    most = max(1, P.n // FEWEST_ROWS)
    counts = sorted({min(count, most) for count in STRIPS})
    untold = np.inf, ranges(P, min(UNTOLD, most))
    by_ranges = _best(P, found, (ranges(P, count) for count in counts), untold)
    return _best(P, found, columns(P, min(most, MOST_COLUMNS)), by_ranges)


def _best(
    P: Pattern, found: Levels, candidates: Iterable[Strips], best: tuple[float, Strips]
) -> tuple[float, Strips]:
    """The better of `best` and the best of the candidates, of which more and more are tried."""
    least = np.inf
    for strips in candidates:
        microseconds = predicted_us(P, found, strips)
        if MUCH_WORSE * least < microseconds < np.inf:
            break
        least = min(least, microseconds)
        if microseconds < best[0]:
            best = microseconds, strips
    return best


def _sources(split: Split, cut: Cut) -> tuple[Any, Any]:
    """Where near and far values come from in T: -1 for a value of -1, -2 for no entry."""
    xp = namespace(split.near_source)
    near = xp.where(split.near_source < 0, np.int32(-2), cut.source[split.near_source])
    return near, cut.source[split.far_source]


def _take(values: Any, source: Any, result: Any) -> None:
    """result = values[source], -1 where source is -1, 0 where it is -2."""
    xp = namespace(values)
    taken = values[xp.maximum(source, 0)]
    result[...] = xp.where(source >= 0, taken, xp.where(source == -1, -1, 0))


def _divide(b: Any, diag: Any, x: Any) -> None:
    """x = b / diag, row by row; x may be b."""
    xp = namespace(x)
    if diag is None:
        if x is not b:
            x[...] = b
    else:
        xp.divide(b, diag if x.ndim == 1 else diag[:, None], out=x)
