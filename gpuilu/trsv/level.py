"""Rows of one level do not depend on each other: substitution level by level, over the cores.

The rows are copied into level order, so that each core streams through its share of a level;
without the copy a solve of a grid took four times as long. Narrow levels do not pay for waking the
other threads: one sweeps runs of them. Every row is summed in the order of `serial`: the same bits.
Source: Anderson and Saad, Solving sparse triangular linear systems on parallel computers, 1989.
"""

from __future__ import annotations

import numpy as np

from gpuilu.backend.cpu import divide, inlined, n_threads, njit, parallel_region, pjit, prange
from gpuilu.dag import Levels, levels
from gpuilu.triangle import Triangle, gather_rows
from gpuilu.trsv.base import Plan

__all__ = ["Level"]

WIDE = 2048  # rows in a level that pay for waking the threads, about 10 us


class Level(Plan):
    """Level-set substitution over the cores. Memory: one copy of the triangle, in level order."""

    name = "level"
    source = "level scheduling (Anderson and Saad 1989)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        found = levels(T)
        self._order = found.level_order
        self._run_ptr, self._run_is_wide = _runs(found)
        self._indptr = np.zeros(T.n + 1, np.int32)
        np.cumsum(np.diff(T.indptr)[self._order], out=self._indptr[1:])
        self._indices = self._in_order(T.indices)
        self._data = np.empty_like(T.data)
        self._diag = T.data[:0] if T.diag is None else np.empty_like(T.diag)
        self.refresh()

    def refresh(self) -> None:
        self._data[...] = self._in_order(self.T.data)
        if self.T.diag is not None:
            np.take(self.T.diag, self._order, out=self._diag)

    def _in_order(self, entries: np.ndarray) -> np.ndarray:
        return gather_rows(self._indptr, self.T.indptr[self._order], entries)

    def solve(self, x: np.ndarray, b: np.ndarray | None = None) -> None:
        if b is not None:
            x[...] = b
        T = (self._order, self._indptr, self._indices, self._data, self.T.unit_diagonal, self._diag)
        threads = n_threads()
        if threads == 1:
            rows = _rows_vector if x.ndim == 1 else _rows_block
            rows(0, len(self._order), *T, x)
            return
        solve = _solve_vector if x.ndim == 1 else _solve_block
        with parallel_region():
            solve(threads, self._run_ptr, self._run_is_wide, *T, x)


def _runs(found: Levels) -> tuple[np.ndarray, np.ndarray]:
    """Cut the level order into runs: each wide level alone, narrow neighbours together."""
    wide = np.diff(found.level_ptr) >= WIDE
    cut = np.ones(len(wide) + 1, bool)
    cut[1:-1] = wide[1:] | wide[:-1]
    return found.level_ptr[cut], wide[cut[:-1]]


@inlined
def _share(begin, end, t, n_threads):
    """First row of thread t among `n_threads` in begin to end."""
    return begin + (end - begin) * t // n_threads


@njit
def _rows_vector(first, stop, order, indptr, indices, data, unit, diag, x):
    for q in range(first, stop):
        i = order[q]
        s = x[i]
        for p in range(indptr[q], indptr[q + 1]):
            s -= data[p] * x[indices[p]]
        x[i] = s if unit else divide(s, diag[q])


@njit
def _rows_block(first, stop, order, indptr, indices, data, unit, diag, x):
    for q in range(first, stop):
        i = order[q]
        for p in range(indptr[q], indptr[q + 1]):
            t, j = data[p], indices[p]
            for c in range(x.shape[1]):
                x[i, c] -= t * x[j, c]
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = divide(x[i, c], diag[q])


# One call of `_rows_*` a thread and level: a prange over the rows themselves took twice as long.
@pjit
def _solve_vector(threads, run_ptr, run_is_wide, order, indptr, indices, data, unit, diag, x):
    for r in range(len(run_is_wide)):
        a, e = run_ptr[r], run_ptr[r + 1]
        if run_is_wide[r]:
            for t in prange(threads):
                first, stop = _share(a, e, t, threads), _share(a, e, t + 1, threads)
                _rows_vector(first, stop, order, indptr, indices, data, unit, diag, x)
        else:
            _rows_vector(a, e, order, indptr, indices, data, unit, diag, x)


@pjit
def _solve_block(threads, run_ptr, run_is_wide, order, indptr, indices, data, unit, diag, x):
    for r in range(len(run_is_wide)):
        a, e = run_ptr[r], run_ptr[r + 1]
        if run_is_wide[r]:
            for t in prange(threads):
                first, stop = _share(a, e, t, threads), _share(a, e, t + 1, threads)
                _rows_block(first, stop, order, indptr, indices, data, unit, diag, x)
        else:
            _rows_block(a, e, order, indptr, indices, data, unit, diag, x)
