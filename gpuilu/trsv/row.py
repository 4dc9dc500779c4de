"""x_i = (b_i - sum_{j != i} t_ij x_j) / t_ii, rows in level order, no barrier: self-scheduled rows.

A row waits only for the values it needs, and the value itself is the ready mark (kernels/row.cu).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.dag import Levels, levels
from gpuilu.triangle import Pattern, Triangle, gather_rows
from gpuilu.trsv.base import Plan
from gpuilu.trsv.long_rows import cut_long_rows
from gpuilu.trsv.waiting import PlanPair, WaitingPlan, blocks_in_flight

__all__ = ["Row"]

THREADS = 256  # of a block: eight warps, which share their tickets
LANES = (1, 2, 4, 8, 16, 32)  # a row may have
WIDE = 512  # tasks a level from which fewer lanes a row do: the warps are busy anyway
LEVELS_AHEAD = 16  # levels that the warps in flight should cover
FEWEST_BLOCKS = 1  # on each multiprocessor


class Row(WaitingPlan):
    """Self-scheduled rows, one to 32 lanes each.

    Memory: the triangle once more, in level order, and a vector of scratch for each stream.
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
        xp = namespace(T.indptr)
        cut = cut_long_rows(T)
        P = cut.pattern
        self.mean = len(P.indices) / max(P.n, 1)
        found = levels(P)
        self.lanes = _lanes(P, found.n_levels)
        order = found.level_order
        position = xp.empty(P.n, np.int32)
        position[order] = xp.arange(P.n, dtype=np.int32)
        first = P.indptr[order]
        self._row = cut.row[order]
        self._indptr = xp.zeros(P.n + 1, np.int32)
        self._indptr[1:] = xp.cumsum(P.indptr[order + 1] - first)
        self._indices = position[gather_rows(self._indptr, first, P.indices)]
        # Where the values come from, if not from whole rows of T.
        self._source = None if P.n == T.n else gather_rows(self._indptr, first, cut.source)
        self._data = xp.empty(len(self._indices), T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(P.n, T.dtype)
        self._task_ptr = _tasks(found, cuda.WARP // self.lanes)
        self.tasks_a_level = len(self._task_ptr) / max(found.n_levels, 1)

    def refresh(self) -> None:
        T = self.T
        if self._source is None:
            cuda.gather_rows(self._indptr, T.indptr[self._row], T.data, self._data)
        else:
            xp = namespace(T.data)
            minus_one = T.dtype.type(-1)
            self._data[...] = xp.where(self._source < 0, minus_one, T.data[self._source])
        if T.diag is not None:
            value, n = cuda.value_type(T.dtype), len(self._row)
            cuda.for_each("row", f"reciprocals<{value}>", n, n, self._row, T.diag, self._scale)

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        return predicted_us(T, levels(T))

    def followed_by(self, other: Plan) -> RowPair:
        assert isinstance(other, Row)
        return RowPair(self, other)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return self._n_positions * nrhs * np.dtype(char).itemsize

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks = self._configuration(char, nrhs)
        arguments = (self._rows, b, x, y, width, launch)
        return scratch.prepare(function, blocks, THREADS, *arguments)

    def _configure(self, dtype: np.dtype, columns: int) -> tuple[Any, int]:
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        unit = str(self.T.unit_diagonal).lower()
        polls = in_flight(columns, self.lanes, self.mean)
        parameters = f"{factor},{vector},{self.lanes},{polls},{columns},{unit}"
        function = cuda.kernel("row", f"row_solve<{parameters}>")
        wanted, most = self.tasks_a_level * LEVELS_AHEAD, len(self._task_ptr)
        return function, blocks_in_flight(function, THREADS, wanted, most, FEWEST_BLOCKS)


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


def predicted_us(P: Pattern, found: Levels) -> float:
    """Predicted time of a solve: a hop a level, and what rows and entries cost in wide levels.

    Fitted to what an H100 took in float64: see docs/notes/strips.rst.
    """
    return 0.5 * found.n_levels + 4.3e-5 * P.n + 8.8e-6 * len(P.indices)


def in_flight(columns: int, lanes: int, mean: float) -> int:
    """Entries that a lane polls at once: enough for a row of mean length."""
    return 2 if columns > 1 or 2 * lanes >= mean else 4


def _lanes(P: Pattern, n_levels: int) -> int:
    """Lanes a row: about one an entry, fewer where levels are wide."""
    mean = len(P.indices) / max(P.n, 1)
    lanes = next((lanes for lanes in LANES if lanes >= mean), LANES[-1])
    rows_a_level = P.n / max(n_levels, 1)
    while lanes > 1 and rows_a_level * lanes > WIDE * cuda.WARP:
        lanes //= 2
    return lanes


def _tasks(found: Levels, rows: int) -> Any:
    """Cut every level into runs of at most `rows` rows: shape (n_tasks + 1,)."""
    level_ptr = found.level_ptr
    xp = namespace(level_ptr)
    size = level_ptr[1:] - level_ptr[:-1]
    first_task = xp.zeros(found.n_levels + 1, np.int32)
    first_task[1:] = xp.cumsum((size + np.int32(rows - 1)) // np.int32(rows))
    n_tasks = int(first_task[-1])
    task = xp.arange(n_tasks + 1, dtype=np.int32)
    level = xp.searchsorted(first_task[1:], task, side="right").astype(np.int32)
    level = xp.minimum(level, np.int32(max(found.n_levels - 1, 0)))
    if n_tasks == 0:
        return xp.zeros(1, np.int32)
    start = level_ptr[level] + np.int32(rows) * (task - first_task[level])
    return xp.minimum(start, level_ptr[level + 1]).astype(np.int32)
