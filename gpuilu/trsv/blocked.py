"""x_i = (b_i - sum_j t_ij x_j) / t_ii, rows in strips: values cross multiprocessors rarely.

A block solves a strip of rows in the order of their levels. What its rows need from each other goes
through shared memory, what they need from other strips is fetched ahead by other warps
(kernels/blocked.cu).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import levels, once, remembered
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import Cut, cut_long_rows
from gpuilu.trsv.strip_launches import StripsPair, scratch_bytes, sweeps
from gpuilu.trsv.strips import LANES, MOST_OF_LANE, SHARE_OF_LANE, WINDOW, Split, Strips
from gpuilu.trsv.strips_grow import grown
from gpuilu.trsv.strips_model import FULL, MOST_STAGED, Counts, predicted_us, waits_long
from gpuilu.trsv.strips_pack import (
    columns,
    counts_of_ranges,
    counts_of_strips,
    in_steps,
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
FAR_BYTES = 16  # sizeof(FarEntry) of the kernel
MOST_HELD = 3  # times the bytes of the triangle, where static data are copied
FEW = 16  # steps of which one may have more, to be shared out all the same
WIDTHS = dict.fromkeys("fdF", (2, 4, 8, 16)) | {"D": (2, 4, 16)}  # near entries of a row
STRIPS = (1, 32, 64, 96, 128, 256, 512, 1024)  # how many may be tried
WIDEST_OF_ONE = 4  # steps a level on average up to which a single strip may be tried
MOST_COLUMNS = 128  # of a grid: all of them are at work at once
UNTOLD = 256  # where nothing can be predicted
FEWEST_ROWS = 512  # of a strip: with fewer more entries are far, and small plans hold too much
LEFT = 8  # rows at once of a thread that puts x in their order, as strips_leave.cuh has it
FEWEST_TO_LEAVE = 16  # strips whose blocks put x in the order of rows as they run out of strips


class Blocked(WaitingPlan):
    """Strips of consecutive rows, columns of a grid or patches of a mesh, one thread block each.

    Memory: the triangle once more (where gatherers copy, a second time from the first solve of
    several columns or in another precision on), and scratch for each stream: a vector for each
    right-hand side, of several their number filled up to fours (twos for complex128), and a second
    where b is moved. Gatherers copy where all this is at most three times the triangle in CSR. A
    triangle without entries beside the diagonal needs no strips.
    """

    name = "blocked"
    divides = False
    source = "own; the value as its own ready mark after Dufrechou and Ezzatti 2018"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._values: Any = None  # of near and of far entries
        self._strips: Any = None
        if len(T.indices) == 0:
            return
        sources = self._pack(T)
        values = self._no_values()
        self._take(sources, values)
        self._assign(values)

    def _pack(self, T: Triangle) -> tuple[Any, Any]:
        """Where near and far values come from; kept only if they are not entries of whole rows."""
        xp = namespace(T.indptr)
        with remembered():
            cut = cut_long_rows(T)
            P, found = cut.pattern, levels(cut.pattern)
            strips = predicted(P, T.dtype)[1]
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
        self._scale: Any = None if T.diag is None else xp.empty(P.n, T.dtype)
        info = _step_info(self._step_start, self._far_ptr)
        self._at_once = _far_at_once(info)
        self._info: Any = None
        self._records: Any = None
        self._far_entries: Any = None
        if (
            cut.row is None
            and K <= MOST_OF_LANE
            and _copied(info, len(self._row), T.dtype)
            and _affordable(info, T, K)
        ):
            self._info, shape = info, (len(info), step_bytes(T.dtype, K, 1))
            self._records = xp.empty(shape, np.uint8)
            entries = len(self._far_position), FAR_BYTES
            self._far_entries = xp.zeros(entries, np.uint8)  # what fills them up is copied too
        self._place = None if self._records is None else steps.position
        self._leaves = self.n_strips >= FEWEST_TO_LEAVE
        self._end_together = strips.hops < strips.count // 2
        return sources

    def refresh(self) -> None:
        if len(self.T.indices):
            values = self._no_values() if self._values is None else self._values
            self._find(values)
            self._assign(values)

    def _no_values(self) -> tuple[Any, Any]:
        """Room for the values of near and of far entries."""
        xp, dtype = namespace(self._near_slot), self.T.dtype
        return xp.empty(self._near_slot.shape, dtype), xp.empty(len(self._far_position), dtype)

    def _find(self, values: tuple[Any, Any]) -> None:
        """The present values, out of T."""
        T, (near, far) = self.T, values
        if self._sources is not None:
            self._take(self._sources, values)
            return
        n, kernel = len(self._row), f"strips_refresh<{cuda.value_type(T.dtype)}>"
        entries = self._near_slot, near, self._far_ptr, self._far_position, far
        matrix = T.indptr, T.indices, T.data
        cuda.for_each("blocked", kernel, n, n, near.shape[1], self._row, *entries, *matrix)

    def _take(self, sources: tuple[Any, Any], values: tuple[Any, Any]) -> None:
        """The same, faster, where it is known where in T they are."""
        kernel = f"take_entries<{cuda.value_type(self.T.dtype)}>"
        for source, data in zip(sources, values, strict=True):
            cuda.for_each(
                "order", kernel, data.size, np.int64(data.size), source, self.T.data, data
            )

    def _assign(self, values: tuple[Any, Any]) -> None:
        """Take these and reciprocals of the diagonal; what records have too is not kept."""
        T, value = self.T, cuda.value_type(self.T.dtype)
        if T.diag is not None:
            n = len(self._row)
            cuda.for_each("row", f"reciprocals<{value}>", n, n, self._row, T.diag, self._scale)
        if self._records is None:
            self._values = values
        else:
            (near, far), n, n_far = values, 32 * len(self._info), len(self._far_position)
            entries = self._near_slot, near, self._scale, self._far_ptr, self._records
            kernel = f"strips_records<{value},{near.shape[1]}>"
            cuda.for_each("blocked", kernel, n, n, self._info, *entries)
            far_entries = self._far_position, far, self._far_entries
            cuda.for_each("blocked", f"strips_entries<{value}>", n_far, n_far, *far_entries)
        if self._strips is None:
            self._strips = self._struct()

    def _lay_out(self) -> None:
        """Values of near and far entries also beside the records, for gatherers that do not copy.

        Raises
        ------
        CaptureError
            If that is to be done while the current stream is captured.
        """
        if self._values is None:
            cuda.refuse_capture("the first solve of several columns or in another precision")
            values = self._no_values()
            self._find(values)
            cuda.synchronize()  # another stream may be the next to use them
            self._values = values
            self._strips = self._struct()

    def _struct(self) -> Any:
        """The struct `Strips` of the kernels."""
        shares_far = int(self._records is None and self._at_once != SHARED_OUT)
        steps = self._step_ptr, self._step_start, self._step_shares, self._row
        near_data, far_data = self._values or (None, None)
        return cuda.struct(
            *(self.n_strips, len(self._row), shares_far, self.T.n, *steps),
            *(self._far_ptr, self._far_position, far_data),
            *(self._near_slot, near_data, self._scale, self.T.diag),
            *(self._info, self._records, self._far_entries, self._place),
        )

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return predicted(cut_long_rows(T).pattern, T.dtype)[0]

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
        self, scratch: Any, b: Any, source: Any, y: Any, x: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        """The launch that solves; where b is, the struct `Source` says. x may be None."""
        width, function, columns, threads, ring, shared, full = self._configuration(char, nrhs)
        if not self.copies(char, nrhs):
            self._lay_out()
        wanted = self.n_strips * -(-nrhs // columns)
        if x is not None and self._end_together:  # none has run out of strips before others have
            wanted = max(wanted, self.T.n // (threads * LEFT))
        blocks = max(1, min(full, wanted))
        arguments = (self._strips, b, source, y, x, width, ring, launch)
        return scratch.prepare(function, blocks, threads, *arguments, shared=shared)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return scratch_bytes([self], char, nrhs, in_place)

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        return sweeps(scratch, [self], [self._row], char, nrhs, in_place)

    def copies(self, char: str, nrhs: int) -> bool:
        """Whether gatherers copy static data, b among them, which is then by position."""
        return nrhs == 1 and self.T.dtype.char == char and self._records is not None

    def leaves(self, nrhs: int) -> bool:
        """Whether the sweep itself puts x in the order of rows, where b must not be."""
        return nrhs == 1 and self._leaves

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


def _affordable(info: Any, T: Triangle, K: int) -> bool:
    """Whether a plan that copies, its scratch and the triangle take MOST_HELD times T in CSR."""
    n, size = T.n, T.dtype.itemsize
    csr = 4 * n + (4 + size) * (len(T.indices) + n)
    triangle = csr - 4 * n  # without the columns of its diagonal
    by_row = 2 * K + 12 + size + 2 * size  # slots; far_ptr, row, place; scale; scratch
    by_step = step_bytes(T.dtype, K, 1) + 24
    by_far = 4 + FAR_BYTES
    held = triangle + n * by_row + len(info) * by_step + int(info[:, 3].sum()) * by_far
    return held <= MOST_HELD * csr


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


def predicted(P: Pattern, dtype: np.dtype) -> tuple[float, Strips]:
    """(microseconds, strips) of the strips that promise most."""
    found, candidates = levels(P), once(_candidates, P)
    times = [predicted_us(P, found, counts, dtype.itemsize) for _, counts in candidates]
    best = int(np.argmin(times))
    taken = candidates[best][0] if np.isfinite(times[best]) else min(UNTOLD, _most_strips(P))
    return times[best], taken if isinstance(taken, Strips) else ranges(P, taken)


def _candidates(P: Pattern) -> list[tuple[int | Strips, Counts | None]]:
    """Numbers of ranges, and other strips, that may be taken, and what is counted of them."""
    found, most = levels(P), _most_strips(P)
    narrow = P.n <= LANES * WIDEST_OF_ONE * found.n_levels
    numbers = sorted({min(number, most) for number in STRIPS if number > 1 or narrow})
    counted = counts_of_ranges(P, found, numbers)
    cuts = columns(P, min(most, MOST_COLUMNS))
    if not cuts and waits_long(P, found, counted):
        cuts = grown(P, found, most)
    counted += counts_of_strips(P, found, cuts)
    return list(zip([*numbers, *cuts], counted, strict=True))


def _most_strips(P: Pattern) -> int:
    return max(1, P.n // FEWEST_ROWS)


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
