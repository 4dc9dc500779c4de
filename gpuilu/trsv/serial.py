"""x_i = (b_i - sum_{j != i} t_ij x_j) / t_ii, row after row: plain substitution on one core."""

from __future__ import annotations

import numpy as np

from gpuilu.backend.cpu import divide, njit
from gpuilu.trsv.base import Plan

__all__ = ["Serial"]


class Serial(Plan):
    """Forward or backward substitution. O(nnz) per right-hand side, no memory of its own."""

    name = "serial"
    source = "textbook substitution"

    def solve(self, x: np.ndarray, b: np.ndarray | None = None) -> None:
        if b is not None:
            x[...] = b
        T = self.T
        solve = _solve_vector if x.ndim == 1 else _solve_block
        diag = T.data[:0] if T.diag is None else T.diag
        solve(T.lower, T.indptr, T.indices, T.data, T.unit_diagonal, diag, x)


@njit
def _solve_vector(lower, indptr, indices, data, unit, diag, x):
    n = len(x)
    first, stop, step = (0, n, 1) if lower else (n - 1, -1, -1)
    for i in range(first, stop, step):
        s = x[i]
        for p in range(indptr[i], indptr[i + 1]):
            s -= data[p] * x[indices[p]]
        x[i] = s if unit else divide(s, diag[i])


@njit
def _solve_block(lower, indptr, indices, data, unit, diag, x):
    n = len(x)
    first, stop, step = (0, n, 1) if lower else (n - 1, -1, -1)
    for i in range(first, stop, step):
        for p in range(indptr[i], indptr[i + 1]):
            t, j = data[p], indices[p]
            for c in range(x.shape[1]):
                x[i, c] -= t * x[j, c]
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = divide(x[i, c], diag[i])
