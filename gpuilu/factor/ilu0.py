"""(L U)_ij = a_ij on the pattern of A: incomplete LU factorisation without fill, ILU(0).

The row-wise (IKJ) form: row i is reduced by the finished rows k of its pattern, k ascending, with
unfused multiply and subtract, so that every implementation gives the same bits in real arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuilu.backend import cuda, on_gpu
from gpuilu.backend.cpu import divide, njit
from gpuilu.csr import CSR
from gpuilu.dag import levels
from gpuilu.errors import require_choice
from gpuilu.factor.base import (
    Factors,
    PatternFactorization,
    is_hermitian,
    not_finite_error,
    zero_pivot_error,
)

__all__ = ["ILU0"]

PIVOT_RULES = ("raise", "boost", "shift")
MAX_SHIFTS = 24
OK, ZERO, NOT_FINITE = 0, 1, 2
WARPS = 8  # of a block of ilu0.cu, one row each
THREADS = WARPS * cuda.WARP


class ILU0(PatternFactorization):
    """Symbolic ILU(0): the pattern of A cut into a unit lower and an upper triangle."""

    kind = "ilu0"

    def __init__(self, A: CSR, pivot: str = "raise", missing_diagonal: str = "raise") -> None:
        require_choice("pivot", pivot, PIVOT_RULES)
        super().__init__(A, "LU", missing_diagonal)
        self.pivot = pivot
        self._level_order: Any = None

    def numeric(self, data: np.ndarray) -> Factors:
        rule = {"raise": self._plain, "boost": self._boosted, "shift": self._shifted}[self.pivot]
        factors = rule(data)
        symmetric = is_hermitian(self.indptr, self.indices, data)
        return replace(factors, is_symmetric=symmetric)

    def _plain(self, data: np.ndarray) -> Factors:
        LU = data.copy()
        status, row, *_ = self._eliminate(LU, boost=0.0)
        self._require(status, row, LU, "pass pivot='boost' or pivot='shift' to change it")
        return self._split(LU)

    def _boosted(self, data: np.ndarray) -> Factors:
        """Pivots below sqrt(eps) max_j |a_ij| are raised to it, their sign or phase kept."""
        LU = data.copy()
        boost = float(np.sqrt(np.finfo(data.dtype).eps))
        status, row, n_boosted, first_zero = self._eliminate(LU, boost)
        self._require(status, row, LU, "")
        return replace(
            self._split(LU),
            n_boosted=n_boosted,
            first_zero_pivot=None if first_zero < 0 else first_zero,
        )

    def _shifted(self, data: np.ndarray) -> Factors:
        """ILU(0) of A + s I with the first of s = 0, t, 2t, 4t, ... that works, t = max|a|/1000."""
        first_zero = None
        shift, step = 0.0, 1e-3 * _max_abs(data)
        for _ in range(MAX_SHIFTS):
            LU = data.copy()
            LU[self.diagonal] += data.dtype.type(shift)
            status, row, *_ = self._eliminate(LU, boost=0.0)
            if status == OK:
                return replace(self._split(LU), shift=shift, first_zero_pivot=first_zero)
            if status == ZERO and first_zero is None:
                first_zero = row
            if not np.isfinite(step) or step == 0.0:
                break
            shift = step if shift == 0.0 else 2.0 * shift
        self._require(status, row, LU, f"no shift up to {shift:g} helped")
        raise AssertionError("unreachable")

    def _eliminate(self, LU: np.ndarray, boost: float) -> tuple[int, int, int, int]:
        """Factor in place; (status, row, pivots boosted, first zero pivot)."""
        scale = _max_abs(LU) if boost else 0.0
        if on_gpu(LU):
            return self._eliminate_cuda(LU, boost, scale or 1.0)
        # Unsigned indices spare numba its test for negative ones: half the time.
        indptr, indices, diagonal = (
            a.view(np.uint32) for a in (self.indptr, self.indices, self.diagonal)
        )
        tiny = float(np.finfo(LU.dtype).tiny)
        return _eliminate(indptr, indices, diagonal, LU, boost, scale or 1.0, tiny)

    def _eliminate_cuda(self, LU: Any, boost: float, scale: float) -> tuple[int, int, int, int]:
        """The self-scheduled kernel of ilu0.cu; waits for it, since it may fail."""
        launcher = cuda.Launcher()
        words = cuda.marked(self.n + 8)
        control, report, finished = words[:4], words[4:8], words[8:]
        function = cuda.kernel("ilu0", f"ilu0_factor<{cuda.value_type(LU.dtype)}>")
        diagonal = self.diagonal
        pattern = cuda.struct(self.n, self.indptr, self.indices, diagonal, self._order())
        real = LU.real.dtype.type
        tiny = np.finfo(LU.dtype).tiny
        arguments = (pattern, LU, real(boost), real(scale), real(tiny), finished, report)
        blocks = min(cuda.full_grid(function, THREADS), -(-self.n // WARPS))
        if self.n:
            cuda.launch(function, blocks, THREADS, *arguments, launcher.struct(control))
        zero, not_finite, boosted = (int(r) for r in cuda.to_host(report.view(np.int32))[:3])
        launcher.raise_if_stalled()
        bad = [(row, kind) for row, kind in ((zero, ZERO), (not_finite, NOT_FINITE)) if row >= 0]
        if boost:
            bad = [found for found in bad if found[1] == NOT_FINITE]
        row, status = min(bad, default=(-1, OK))
        return status, row, boosted + 1, zero

    def _order(self) -> Any:
        """Rows by level of the strict lower triangle, kept for the next numeric phase."""
        if self._level_order is None:
            self._level_order = levels(self._triangles.pattern(lower=True)).level_order
        return self._level_order

    def _require(self, status: int, row: int, LU: np.ndarray, remedy: str) -> None:
        if status == ZERO:
            raise zero_pivot_error(row, remedy)
        if status == NOT_FINITE:
            begin, end = (int(p) for p in self.indptr[row : row + 2])
            raise not_finite_error(row, LU[begin:end])

    def _split(self, LU: np.ndarray) -> Factors:
        return Factors(
            self._triangles.lower(LU, diag=None),
            self._triangles.upper(LU, diag=LU[self.diagonal]),
        )


def _max_abs(data: np.ndarray) -> float:
    """Largest finite |a|, 0 where there is none."""
    magnitude = abs(data)
    magnitude[~np.isfinite(magnitude)] = 0
    return float(magnitude.max()) if len(data) else 0.0


@njit
def _eliminate(indptr, indices, diagonal, LU, boost, scale, tiny):
    """Factor in place up to the first failure; returns as `ILU0._eliminate` does."""
    n = len(diagonal)
    at = np.full(n, -1, np.int32)
    n_boosted, first_zero = 0, -1
    for i in range(n):
        begin, end, d = indptr[i], indptr[i + 1], diagonal[i]
        largest = 0.0
        for p in range(begin, end):
            at[indices[p]] = p
            largest = max(largest, abs(LU[p]))
        for p in range(begin, d):
            k = indices[p]
            l_ik = divide(LU[p], LU[diagonal[k]])
            LU[p] = l_ik
            for q in range(diagonal[k] + 1, indptr[k + 1]):
                t = at[indices[q]]
                if t >= 0:
                    LU[t] -= l_ik * LU[q]
        zero = LU[d] == 0
        if zero and first_zero < 0:
            first_zero = i
        if boost > 0.0:
            floor = max(boost * (largest if largest > 0.0 else scale), tiny)
            magnitude = abs(LU[d])
            if magnitude < floor:
                LU[d] = floor if zero else divide(LU[d], magnitude) * floor
                n_boosted += 1
        elif zero:
            return ZERO, i, 0, i
        for p in range(begin, end):
            at[indices[p]] = -1
            if not np.isfinite(LU[p]):
                return NOT_FINITE, i, n_boosted, first_zero
    return OK, -1, n_boosted, first_zero
