"""x_j = (b_j - s_j) / t_jj, then s_i += t_ij x_j for all i: columns, each once its s_j is complete.

Algorithm 2 of Liu et al. (2016): one warp a column, in natural order, and all the analysis it needs
is how many terms each s_j has. Terms between columns of one block go through shared memory.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gpuilu.backend import cuda
from gpuilu.dag import levels
from gpuilu.triangle import Triangle
from gpuilu.trsv import waiting
from gpuilu.trsv.columns import Columns
from gpuilu.trsv.waiting import WaitingPlan

__all__ = ["SyncFree", "SyncFreeByLevel"]

ONE_PASS = 32  # right-hand sides that one launch solves for


class SyncFree(WaitingPlan):
    """Set-up: the transpose.

    Memory: the strict triangle by columns; for each stream a counter a row and a vector or, for
    several right-hand sides, up to 32 of them. The terms are added by atomics, so the last bits
    vary from solve to solve.
    """

    name: ClassVar[str] = "syncfree"
    deterministic = False
    source = "Liu et al. 2016, algorithm 2"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._order = self._made_order()
        self._columns = C = Columns(T, self._order, by_position=self._order is not None)
        self._lower = 1 if T.lower or self._order is not None else 0
        self._matrix = cuda.struct(T.n, self._order, C.indptr, C.indices, C.data, T.diag)

    def _made_order(self) -> Any:
        return None

    def refresh(self) -> None:
        self._columns.refresh()

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return self._counts() + self.T.n * min(nrhs, ONE_PASS) * np.dtype(char).itemsize

    def _counts(self) -> int:
        """Bytes of the counters; the partial sums come after them."""
        return -(-self.T.n // 4) * 16

    def _prepare(self, scratch: Any, char: str, nrhs: int, in_place: bool) -> list[Any]:
        calls = []
        for c0 in range(0, nrhs, ONE_PASS):
            sums = self.T.n * min(ONE_PASS, nrhs - c0) * np.dtype(char).itemsize
            calls += [scratch.marking(self._counts()), scratch.zeroing(self._counts(), sums)]
            calls.append(self._one_pass(scratch, char, nrhs, c0))
        return calls

    def _one_pass(self, scratch: Any, char: str, nrhs: int, c0: int) -> Any:
        """The launch for the columns from c0 on."""
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(np.dtype(char))
        one = str(nrhs == 1).lower()
        function = cuda.kernel("syncfree", f"syncfree_solve<{factor},{vector},{one}>")
        blocks = max(1, -(-self.T.n // (waiting.THREADS // cuda.WARP)))
        vectors = (self.T.indptr, cuda.GIVEN_B, cuda.GIVEN_X, scratch.data)
        arguments = (self._matrix, *vectors, self._lower, nrhs, c0, scratch.launch)
        return scratch.prepare(function, blocks, waiting.THREADS, *arguments)


class SyncFreeByLevel(SyncFree):
    """The same on the triangle permuted into level order; the set-up has to find the levels."""

    name = "syncfree_level"
    source = "Liu et al. 2016, algorithm 2, in the order of Li 2017, section 4.3"

    def _made_order(self) -> Any:
        return levels(self.T).level_order
