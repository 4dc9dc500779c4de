"""x_i = (b_i - sum_{j != i} t_ij x_j) / t_ii, rows in level order, no barrier: self-scheduled rows.

A row waits only for the values it needs, and the value itself is the ready mark (kernels/row.cu).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import Levels, levels, remembered
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import cut_long_rows
from gpuilu.trsv.waiting import PlanPair, WaitingPlan, blocks_in_flight

__all__ = ["Row", "spread_out"]

THREADS = 256  # of a block: eight warps, which share their tickets
LANES = (1, 2, 4, 8, 16, 32)  # a row may have
WIDE = 512  # tasks a level from which fewer lanes a row do: the warps are busy anyway
LEVELS_AHEAD = 16  # levels that the warps in flight should cover
FEWEST_BLOCKS = 1  # on each multiprocessor
LANES_TO_COPY = 8  # a row in order.cu
MOST_SUMS = 8  # of a lane, in row.cu
MOST_TICKETS = 1 << 31  # they are counted in 32 bits, and some are drawn in vain


class Row(WaitingPlan):
    """Self-scheduled rows, one to 32 lanes each.

    Memory: the triangle once more, in level order, and scratch for each stream: a vector for each
    right-hand side, several filled up to 16 bytes a row.
    """

    name = "row"
    divides = False
    source = "Liu et al. 2016; Dufrechou and Ezzatti 2018 (the value as its own ready mark)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._pack(T)
        self._n_positions = len(self._row)
        self._rows = cuda.struct(
            len(self._task_ptr) - 1,
            *(self._task_ptr, self._indptr, self._indices, self._row),
            *(self._data, self._scale, T.diag),
        )
        self.refresh()

    def _pack(self, T: Triangle) -> None:
        """Rows in level order, columns as positions in that order, long rows cut."""
        with remembered():
            cut = cut_long_rows(T)
            P, found = cut.pattern, levels(cut.pattern)
        xp, n, nnz, order = namespace(T.indptr), P.n, len(P.indices), found.level_order
        self.mean = nnz / max(n, 1)
        self.lanes = _lanes(P, found.n_levels)
        self._row = order if cut.row is None else cut.row[order]
        position, lengths = xp.empty(n, np.int32), xp.empty(n + 1, np.int32)
        if n == 0:
            lengths.fill(0)
        cuda.for_each("order", "place_rows", n, n, order, P.indptr, position, lengths)
        self._indptr = xp.cumsum(lengths, dtype=np.int32)
        self._indices = xp.empty(nnz, np.int32)
        entries = P.indptr, P.indices, position, self._indptr, self._indices
        cuda.for_each("order", "place_entries", LANES_TO_COPY * n, n, order, *entries)
        # Where the values come from, if not from whole rows of T.
        self._source = None
        if cut.source is not None:
            self._source = xp.empty(nnz, np.int32)
            _take_rows("int", order, P.indptr, cut.source, self._indptr, self._source)
        self._data = xp.empty(nnz, T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(n, T.dtype)
        self._task_ptr = _tasks(found, cuda.WARP // self.lanes)
        self.tasks_a_level = len(self._task_ptr) / max(found.n_levels, 1)

    def refresh(self) -> None:
        T, value = self.T, cuda.value_type(self.T.dtype)
        if self._source is None:
            _take_rows(value, self._row, T.indptr, T.data, self._indptr, self._data)
        else:
            nnz = len(self._source)
            entries = self._source, T.data, self._data
            cuda.for_each("order", f"take_entries<{value}>", nnz, np.int64(nnz), *entries)
        if T.diag is not None:
            n = len(self._row)
            cuda.for_each("row", f"reciprocals<{value}>", n, n, self._row, T.diag, self._scale)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        P = cut_long_rows(T).pattern
        return predicted_us(P, levels(P), T.dtype.itemsize)

    def followed_by(self, other: Plan) -> RowPair:
        assert isinstance(other, Row)
        return RowPair(self, other)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        dtype = np.dtype(char)
        columns = 1 if nrhs == 1 else -(-nrhs // in_pack(dtype)) * in_pack(dtype)
        return self._n_positions * columns * dtype.itemsize

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks, spread = self._configuration(char, nrhs)
        columns = () if nrhs == 1 else (width, spread)
        arguments = (self._rows, b, x, y, *columns, launch)
        return scratch.prepare(function, blocks, THREADS, *arguments)

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, ...]:
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        unit = str(self.T.unit_diagonal).lower()
        if nrhs == 1:
            cuts, spread = 0, None
            polls = in_flight(self.lanes, self.mean)
            kernel = f"row_solve<{factor},{vector},{self.lanes},{polls},{unit}>"
        else:
            sums, packs, parts, cuts = spread_out(self.lanes, -(-nrhs // in_pack(dtype)))
            while len(self._task_ptr) << cuts > MOST_TICKETS:
                packs, cuts = packs // 2, cuts - 1
            spread = cuda.struct(packs, parts, cuts)
            kernel = f"row_columns<{factor},{vector},{sums},{unit}>"
        function = cuda.kernel("row", kernel)
        wanted, most = self.tasks_a_level * LEVELS_AHEAD, len(self._task_ptr)
        blocks = blocks_in_flight(function, THREADS, wanted * 2**cuts, most << cuts, FEWEST_BLOCKS)
        return function, blocks, spread


class RowPair(PlanPair):
    """x <- second^-1 first^-1 b with one reset of the scratch of both."""

    def __init__(self, first: Row, second: Row) -> None:
        super().__init__()
        self._first, self._second = first, second

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return 2 * max(plan._nbytes(char, nrhs, in_place) for plan in (self._first, self._second))

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        nbytes = self._nbytes(char, nrhs, in_place)
        y, z = scratch.parts(nbytes // 2, 2)
        one, two = scratch.launches
        B, X = cuda.GIVEN_B, cuda.GIVEN_X
        return [
            scratch.marking(nbytes),
            self._first._launch(scratch, B, X, y, one, char, nrhs),
            self._second._launch(scratch, X, X, z, two, char, nrhs),
        ]


# Fitted to what an H200 took: see docs/notes/strips.rst. Rows of more than FEW entries take longer,
# up to MANY; with values of four bytes much longer, as more of them are polled at once in a sector.
HOP_US, HOP_US_AN_ENTRY, HOP_US_AN_ENTRY_OF_FOUR = 0.6, 0.02, 0.06
FEW, MANY = 4, 12
ROW_US, ROW_US_A_BYTE, ENTRY_US_A_BYTE = 3.6e-5, 1e-6, 6.6e-7


def predicted_us(P: Pattern, found: Levels, itemsize: int) -> float:
    """Predicted time of a solve: a hop a level, and what rows and entries cost in wide levels."""
    beyond = min(max(len(P.indices) / max(P.n, 1), FEW), MANY) - FEW
    hop = HOP_US + beyond * (HOP_US_AN_ENTRY_OF_FOUR if itemsize == 4 else HOP_US_AN_ENTRY)
    traffic = (ROW_US + ROW_US_A_BYTE * itemsize) * P.n
    return hop * found.n_levels + traffic + ENTRY_US_A_BYTE * itemsize * len(P.indices)


def in_flight(lanes: int, mean: float) -> int:
    """Entries that a lane polls at once: enough for a row of mean length."""
    return 2 if 2 * lanes >= mean else 4


def in_pack(dtype: np.dtype) -> int:
    """Columns that a lane of `row_columns` solves: 16 bytes of them."""
    return 16 // dtype.itemsize


def spread_out(lanes: int, n_packs: int) -> tuple[int, int, int, int]:
    """(sums of a lane, packs side by side, parts of a row, tickets of a task as a power of two).

    For sums * parts = `lanes` of a row, no more than 32 lanes being taken.
    """
    packs = min(cuda.WARP, 1 << (n_packs - 1).bit_length())
    sums = min(lanes, packs, MOST_SUMS)
    parts = lanes // sums
    packs = min(packs, cuda.WARP // parts)
    return sums, packs, parts, (packs * parts // lanes).bit_length() - 1


def _lanes(P: Pattern, n_levels: int) -> int:
    """Lanes a row: about one an entry, fewer where levels are wide."""
    mean = len(P.indices) / max(P.n, 1)
    lanes = next((lanes for lanes in LANES if lanes >= mean), LANES[-1])
    rows_a_level = P.n / max(n_levels, 1)
    while lanes > 1 and rows_a_level * lanes > WIDE * cuda.WARP:
        lanes //= 2
    return lanes


def _take_rows(value: str, order: Any, indptr: Any, source: Any, ptr: Any, taken: Any) -> None:
    """Row k of (ptr, taken) is row order[k] of (indptr, source)."""
    n = len(order)
    entries = indptr, source, ptr, taken
    cuda.for_each("order", f"take_rows<{value}>", LANES_TO_COPY * n, n, order, *entries)


def _tasks(found: Levels, rows: int) -> Any:
    """Cut every level into runs of at most `rows` rows: shape (n_tasks + 1,).

    Some runs are empty, so that no level has to know how many runs those before it have in all.
    """
    if found.n_levels == 0:
        return found.level_ptr
    n_tasks = (len(found.level_order) + found.n_levels * (rows - 1)) // rows
    task_ptr = namespace(found.level_ptr).empty(n_tasks + 1, np.int32)
    cut = n_tasks, found.n_levels, rows, found.level_ptr, task_ptr
    cuda.for_each("order", "begin_tasks", n_tasks + 1, *cut)
    return task_ptr
