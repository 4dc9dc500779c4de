"""x_i = (b_i - sum_j t_ij x_j) / t_ii, rows in strips: values cross multiprocessors rarely.

A block solves a strip of rows in the order of their levels. What its rows need from each other goes
through shared memory, what they need from other strips is fetched ahead by other warps
(kernels/blocked.cu).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import Levels, levels, once, remembered
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import Cut, cut_long_rows
from gpuilu.trsv.strip_launches import StripsPair, positions_of, scratch_bytes, sweeps
from gpuilu.trsv.strips import MOST_OF_LANE, SHARE_OF_LANE, WINDOW, Split, Strips
from gpuilu.trsv.strips_pack import (
    columns,
    in_steps,
    predictions,
    ranges,
    split_entries,
    with_shares,
)
from gpuilu.trsv.waiting import WaitingPlan, columns_at_once

__all__ = ["Blocked", "predicted"]

THREADS, MANY_THREADS = 512, 640  # of a block, as blocked.cu has it
HALL = 2 << 10  # bytes of shared memory, at least, for what else the warps of a block share
# Steps of the ring, and most threads that copy: 2 * gatherers + 5 steps at least.
RINGS = ((64, 640), (32, 512), (16, 192), (8, 64))
AT_ONCE = (2, 5)  # far entries of a row that a lane polls at once: of several columns, of one
SHARED_OUT = 1  # where the far entries of a step are shared out among the lanes
MOST_LISTED = 64  # of them at once
COPIED = 3  # where static data are copied step by step
FULL = 1.25  # lanes of all steps for one row, at most, for that
MOST_STAGED = 64  # far entries of a step that are copied with it
FAR_BYTES = 16  # sizeof(FarEntry) of the kernel
FEW = 16  # steps of which one may have more, to be shared out all the same
WIDTHS = dict.fromkeys("fdF", (2, 4, 8, 16)) | {"D": (2, 4, 16)}  # near entries of a row
STRIPS = (32, 64, 128, 256, 512, 1024)  # how many may be tried
MOST_COLUMNS = 128  # of a grid: all of them are at work at once
UNTOLD = 256  # where nothing can be predicted
MOST_TOLD = 48  # entries of a row on average; `row` is faster on a band of 64 and dense triangles
MUCH_WORSE = 1.3  # than fewer strips: more of them are not looked at
FEWEST_ROWS = 256  # of a strip
# Entries of a row on average from which a number more for each row is little: x is then gathered.
SPACIOUS = 6


class Blocked(WaitingPlan):
    """Strips of consecutive rows, or columns of a grid, one thread block each.

    Memory: the triangle once more, and scratch for each stream: a vector for each right-hand side,
    of several their number filled up to fours (twos for complex128), and a second in place where
    gatherers copy. A triangle without entries beside the diagonal needs no strips.
    """

    name = "blocked"
    divides = False
    source = "own; the value as its own ready mark after Dufrechou and Ezzatti 2018"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        if len(T.indices) == 0:
            return
        sources = self._pack(T)
        self._at_once = _far_at_once(self._info)
        shares_far = int(self._records is None and self._at_once != SHARED_OUT)
        steps = self._step_ptr, self._step_start, self._step_shares, self._row
        self._strips = cuda.struct(
            *(self.n_strips, len(self._row), shares_far, *steps),
            *(self._far_ptr, self._far_position, self._far_data),
            *(self._near_slot, self._near_data, self._scale, T.diag),
            *(self._info, self._records, self._far_entries),
        )
        self._take(sources)
        self._invert()

    def _pack(self, T: Triangle) -> tuple[Any, Any]:
        """Where near and far values come from; kept only if they are not entries of whole rows."""
        xp = namespace(T.indptr)
        with remembered():
            cut = cut_long_rows(T)
            P, found = cut.pattern, levels(cut.pattern)
            strips = predicted(P)[1]
        self.n_strips = strips.count
        steps = in_steps(P, found, strips)
        split = split_entries(P, found, steps, WIDTHS[T.dtype.char])
        K = split.near_slot.shape[1]
        if K > MOST_OF_LANE:
            steps = with_shares(found, steps, split)
        self._step_ptr, self._step_start = steps.step_ptr, steps.step_start
        none = xp.zeros(len(steps.step_start) - 1, np.int32)
        self._step_shares = none if steps.shares is None else steps.shares
        self._row = steps.row if cut.row is None else cut.row[steps.row]
        self._near_slot = split.near_slot
        self._far_ptr, self._far_position = split.far_ptr, split.far_position
        sources = _sources(split, cut)
        self._sources = None if cut.source is None else sources
        self._near_data = xp.empty(split.near_slot.shape, T.dtype)
        self._far_data = xp.empty(len(self._far_position), T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(P.n, T.dtype)
        self._info = _step_info(self._step_start, self._far_ptr)
        self._records: Any = None
        self._far_entries: Any = None
        if cut.row is None and K <= MOST_OF_LANE and _copied(self._info, len(self._row), T.dtype):
            shape = len(self._info), step_bytes(T.dtype, K, 1)
            self._records = xp.empty(shape, np.uint8)
            entries = len(self._far_position), FAR_BYTES
            self._far_entries = xp.zeros(entries, np.uint8)  # what fills them up is copied too
        self._place: Any = None
        if self._records is not None or len(T.indices) > SPACIOUS * T.n:
            whole = cut.row is None
            self._place = steps.position if whole else positions_of(self._row, T.n)
        return sources

    def refresh(self) -> None:
        T = self.T
        if len(T.indices) == 0:
            return
        if self._sources is None:
            n, kernel = len(self._row), f"strips_refresh<{cuda.value_type(T.dtype)}>"
            near = self._near_slot, self._near_data
            far = self._far_ptr, self._far_position, self._far_data
            entries = self._row, *near, *far, T.indptr, T.indices, T.data
            cuda.for_each("blocked", kernel, n, n, self._near_slot.shape[1], *entries)
        else:
            self._take(self._sources)
        self._invert()

    def _take(self, sources: tuple[Any, Any]) -> None:
        """Gather near and far values."""
        T = self.T
        kernel = f"take_entries<{cuda.value_type(T.dtype)}>"
        for source, data in zip(sources, (self._near_data, self._far_data), strict=True):
            cuda.for_each("order", kernel, data.size, np.int64(data.size), source, T.data, data)

    def _invert(self) -> None:
        """Reciprocals of the diagonal, by position."""
        T, n = self.T, len(self._row)
        if T.diag is not None:
            kernel = f"reciprocals<{cuda.value_type(T.dtype)}>"
            cuda.for_each("row", kernel, n, n, self._row, T.diag, self._scale)
        if self._records is not None:
            n, K = 32 * len(self._info), self._near_slot.shape[1]
            kernel = f"strips_records<{cuda.value_type(T.dtype)},{K}>"
            entries = self._near_slot, self._near_data, self._scale, self._far_ptr
            cuda.for_each("blocked", kernel, n, n, self._info, *entries, self._records)
            kernel = f"strips_entries<{cuda.value_type(T.dtype)}>"
            n, far = len(self._far_position), (self._far_position, self._far_data)
            cuda.for_each("blocked", kernel, n, n, *far, self._far_entries)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return predicted(T)[0]

    def solve(self, x: Any, b: Any = None) -> None:
        if len(self.T.indices) == 0:
            _divide(x if b is None else b, self.T.diag, x)
        elif x.ndim == 1 or self._has_room(x.dtype):
            super().solve(x, b)
        else:
            for k in range(x.shape[1]):
                column = (x if b is None else b)[:, k].copy()
                super().solve(column)
                x[:, k] = column

    def followed_by(self, other: Plan) -> StripsPair | None:
        assert isinstance(other, Blocked)
        if not (len(self.T.indices) and len(other.T.indices)):
            return None
        widest = np.dtype("D" if self.T.dtype.kind == "c" else "d")
        if not (self._has_room(widest) and other._has_room(widest)):
            return None
        return StripsPair(self, other)

    def _has_room(self, dtype: np.dtype) -> bool:
        """Whether a block has room for the ring and the window of several columns."""
        _, shared = _ring(dtype, self._near_slot.shape[1], columns_at_once(dtype.char), 0)
        return shared <= cuda.shared_memory() - HALL

    def sweep(
        self, scratch: Any, b: Any, source: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        """The launch that solves; where b is, the struct `Source` says."""
        width, function, columns, threads, ring, shared, full = self._configuration(char, nrhs)
        blocks = max(1, min(full, self.n_strips * -(-nrhs // columns)))
        arguments = (self._strips, b, source, y, width, ring, launch)
        return scratch.prepare(function, blocks, threads, *arguments, shared=shared)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return scratch_bytes([self], char, nrhs, in_place)

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        return sweeps(scratch, [self], [self._row], char, nrhs, in_place)

    def copies(self, char: str, nrhs: int) -> bool:
        """Whether gatherers copy static data, b among them, which is then by position."""
        return nrhs == 1 and self.T.dtype.char == char and self._records is not None

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, ...]:
        """(kernel, columns, threads of a block, steps of the ring, shared memory, most blocks)."""
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        columns = columns_at_once(dtype.char, nrhs)
        K, unit = self._near_slot.shape[1], str(self.T.unit_diagonal).lower()
        narrow = columns == 1 and dtype.itemsize <= 8
        copies = self.copies(dtype.char, nrhs)
        at_once = COPIED if copies else self._at_once if narrow else AT_ONCE[0]
        parameters = f"{factor},{vector},{K},{at_once},{columns},{unit}"
        function = cuda.kernel("blocked", f"strips_solve<{parameters}>")
        threads = MANY_THREADS if narrow and at_once <= COPIED else THREADS
        if copies:
            ring, threads, shared = _copied_ring(dtype, K, threads)
        else:
            ring, shared = _ring(dtype, K, columns, threads if at_once == SHARED_OUT else 0)
        cuda.allow_shared_memory(function, shared)
        full = cuda.full_grid(function, threads, shared)
        return function, columns, threads, np.int32(ring), shared, full


def _step_info(step_start: Any, far_ptr: Any) -> Any:
    """Of each step: its first position and how many, its first far entry and how many."""
    xp = namespace(step_start)
    far = far_ptr[step_start]
    columns = step_start[:-1], xp.diff(step_start), far[:-1], xp.diff(far)
    return xp.ascontiguousarray(xp.stack(columns, axis=1))


def _copied(info: Any, n: int, dtype: np.dtype) -> bool:
    """Whether gatherers copy: steps are nearly full, and few of their entries are far."""
    few = int(info[:, 3].max()) <= MOST_STAGED
    return dtype.itemsize <= 8 and few and 32 * len(info) <= FULL * n


def _copied_ring(dtype: np.dtype, K: int, threads: int) -> tuple[int, int, int]:
    """(steps of the ring, threads, bytes of shared memory) that a block has room for."""
    for ring, most in RINGS:
        fewer = min(threads, most)
        rest = window_bytes(dtype, 1) + stage_bytes(dtype) * _gatherers(fewer)
        shared = step_bytes(dtype, K, 1) * ring + rest
        if shared <= cuda.shared_memory() - HALL:
            break
    return ring, fewer, shared


def _ring(dtype: np.dtype, K: int, columns: int, sharing: int) -> tuple[int, int]:
    """(steps of the ring, bytes of shared memory); of so many threads that share out."""
    rest = window_bytes(dtype, columns) + terms_bytes(dtype) * _gatherers(sharing)
    for ring in (32, 16, 8) if columns == 1 else (16, 8):  # a longer one leaves the L1 cache less
        shared = step_bytes(dtype, K, columns) * ring + rest
        if shared <= cuda.shared_memory() - HALL:
            break
    return ring, shared


def _gatherers(threads: int) -> int:
    warps = max(1, threads // cuda.WARP)
    return warps - 1 if warps < 8 else warps - 1 - (warps - 1) // 4


def step_bytes(dtype: np.dtype, K: int, columns: int) -> int:
    """sizeof(RingStep) of the kernel."""
    near = K if K <= MOST_OF_LANE else SHARE_OF_LANE
    return 32 * (dtype.itemsize * (near + columns) + 2 * near) + (128 if columns == 1 else 16)


def stage_bytes(dtype: np.dtype) -> int:
    """sizeof(Stage) of the kernel."""
    return 4 * (32 * dtype.itemsize + FAR_BYTES * MOST_STAGED) + 8 * 16


def terms_bytes(dtype: np.dtype) -> int:
    """sizeof(Terms) of the kernel."""
    return 2 * dtype.itemsize * (MOST_LISTED + 4)


def window_bytes(dtype: np.dtype, columns: int) -> int:
    """sizeof(Window) of the kernel."""
    return -(-dtype.itemsize * (WINDOW + 1) * columns // 16) * 16


def _far_at_once(info: Any) -> int:
    """Whether gatherers share out: where hardly a step has more far entries than they list."""
    crowded = int((info[:, 3] > MOST_LISTED).sum())
    return SHARED_OUT if crowded * FEW < len(info) else AT_ONCE[1]


def predicted(P: Pattern) -> tuple[float, Strips]:
    """(microseconds, strips) of the strips that promise most."""
    return once(_predicted, P)


def _predicted(P: Pattern) -> tuple[float, Strips]:
    found = levels(P)
    most = max(1, P.n // FEWEST_ROWS)
    counts = sorted({min(count, most) for count in STRIPS})
    best = _best(P, found, [ranges(P, count) for count in counts], (np.inf, None))
    us, strips = _best(P, found, columns(P, min(most, MOST_COLUMNS)), best)
    if strips is not None:
        return us, strips
    if len(P.indices) > MOST_TOLD * P.n:
        return np.inf, ranges(P, min(UNTOLD, most))
    crowded = [ranges(P, count) for count in counts]
    us, strips = _best(P, found, crowded, (np.inf, None), crowded_too=True)
    return us, ranges(P, min(UNTOLD, most)) if strips is None else strips


def _best(
    P: Pattern,
    found: Levels,
    candidates: list[Strips],
    best: tuple[float, Strips | None],
    crowded_too: bool = False,
) -> tuple[float, Strips | None]:
    """The better of `best` and the best of the candidates, up to one much worse than others."""
    least = np.inf
    predicted_us = predictions(P, found, candidates, crowded_too)
    for strips, microseconds in zip(candidates, predicted_us, strict=True):
        if MUCH_WORSE * least < microseconds < np.inf:
            break
        least = min(least, microseconds)
        if microseconds < best[0]:
            best = microseconds, strips
    return best


def _sources(split: Split, cut: Cut) -> tuple[Any, Any]:
    """Where near and far values come from in T: -1 for a value of -1, -2 for no entry."""
    if cut.source is None:
        return split.near_source, split.far_source
    xp = namespace(split.near_source)
    source = split.near_source
    near = xp.where(source < 0, source, cut.source[xp.maximum(source, 0)])
    return near, cut.source[split.far_source]


def _divide(b: Any, diag: Any, x: Any) -> None:
    """x = b / diag, row by row; x may be b."""
    xp = namespace(x)
    if diag is None:
        if x is not b:
            x[...] = b
    else:
        xp.divide(b, diag if x.ndim == 1 else diag[:, None], out=x)
