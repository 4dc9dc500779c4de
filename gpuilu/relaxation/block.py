"""x_I <- A_II^+ (b_I - sum over J != I of A_IJ x_J): block Gauss-Seidel and block Jacobi.

Blocks are k consecutive unknowns. A block row is multiplied by the (pseudo-)inverse of its diagonal
block once, in the set-up. A sweep is then a solve with the unit triangle I + W L, where W is the
block diagonal of the inverses and L the part of A left of the diagonal blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import cuda, namespace
from gpuilu.csr import CSR, canonical, row_of_entries
from gpuilu.errors import OptionError
from gpuilu.products import Product
from gpuilu.relaxation.base import Relaxation, Vectors
from gpuilu.relaxation.gauss_seidel import plan_for
from gpuilu.triangle import Triangle

__all__ = ["BlockGaussSeidel", "BlockJacobi", "Blocks", "in_blocks"]


def in_blocks(A: Any, k: int) -> CSR:
    """A as CSR whose pattern consists of whole k x k blocks (zeros are stored)."""
    if k < 1 or A.shape[0] % k:
        raise OptionError(f"blocks of {k} do not divide a matrix of order {A.shape[0]}")
    C = canonical(A)  # the gate first: SciPy's conversion trusts the index arrays
    if k == 1:
        return C
    device, C = C.device, C.to("cpu")
    whole = sp.csr_array((C.data, C.indices, C.indptr), shape=A.shape)
    return canonical(whole.tobsr(blocksize=(k, k))).to(device)


class Blocks:
    """W A for the block diagonal W of inverses: strict parts as triangles and products.

    Parameters
    ----------
    A : CSR
        With a pattern of whole k x k blocks.
    k : int
    Dinv : array, shape (n / k, k, k), optional
        The inverses; otherwise pseudo-inverses are computed, on the host.
    """

    def __init__(self, A: CSR, k: int, Dinv: Any = None, algorithm: str = "auto") -> None:
        self.A, self.k, self.algorithm = A, k, algorithm
        xp = namespace(A.data)
        row = row_of_entries(A.indptr, A.nnz)
        block, column = row // k, A.indices // k
        self._diagonal = xp.flatnonzero(block == column).astype(np.int32)
        self._strict: dict[bool, Product] = {}
        self._where: dict[bool, Any] = {}
        for lower in (True, False):
            at = xp.flatnonzero(column < block if lower else column > block)
            indptr = xp.zeros(A.n + 1, np.int32)
            indptr[1:] = xp.cumsum(xp.bincount(row[at], minlength=A.n))
            data = xp.empty(len(at), A.data.dtype)
            self._where[lower] = at.astype(np.int32)
            self._strict[lower] = Product(indptr, A.indices[at], data, A.n)
        self.W = self._block_diagonal()
        self._plans: dict[bool, Any] = {}
        self._read(Dinv)

    def strict(self, lower: bool) -> Product:
        """W L or W U."""
        return self._strict[lower]

    def plan(self, lower: bool) -> Any:
        """I + W L or I + W U, planned."""
        if lower not in self._plans:
            P = self._strict[lower]
            T = Triangle(lower, P.indptr, P.indices, P.data, None)
            self._plans[lower] = plan_for(T, self.algorithm, self.A.device)
        return self._plans[lower]

    def refresh(self) -> None:
        """Take up the present values of A."""
        self._read(None)
        for plan in self._plans.values():
            plan.refresh()

    def blocks(self) -> np.ndarray:
        """The diagonal blocks on the host, zero where none is stored: shape (n / k, k, k)."""
        found = namespace(self.A.data).zeros((self.A.n, self.k), self.A.data.dtype)
        row = row_of_entries(self.A.indptr, self.A.nnz)[self._diagonal]
        found[row, self.A.indices[self._diagonal] % self.k] = self.A.data[self._diagonal]
        return cuda.placed(found, "cpu").reshape(-1, self.k, self.k)

    def _read(self, Dinv: Any) -> None:
        D = self.blocks()
        Dinv = np.linalg.pinv(D) if Dinv is None else np.asarray(Dinv)
        if Dinv.shape != D.shape:
            raise OptionError(f"expected Dinv of shape {D.shape}, found {Dinv.shape}")
        identity = np.eye(self.k, dtype=D.dtype)
        error = abs(Dinv @ D - identity).max(initial=0.0)
        self.is_regular = bool(error < np.sqrt(np.finfo(D.dtype).eps))
        self.W.data[...] = cuda.placed(Dinv.astype(D.dtype).ravel(), self.A.device)
        scaled = self._scaled()
        for lower, where in self._where.items():
            self._strict[lower].data[...] = scaled[where]

    def _scaled(self) -> Any:
        """The values of W A: the rows of a block have their columns in common."""
        A, k = self.A, self.k
        xp = namespace(A.data)
        row = row_of_entries(A.indptr, A.nnz)
        first = row - row % k
        offset = xp.arange(A.nnz, dtype=np.int32) - A.indptr[row]
        W = self.W.data.reshape(-1, k)
        total = xp.zeros(A.nnz, A.data.dtype)
        for m in range(k):
            total += W[row, m] * A.data[A.indptr[first + np.int32(m)] + offset]
        return total

    def _block_diagonal(self) -> Product:
        xp, n, k = namespace(self.A.data), self.A.n, self.k
        indptr = xp.arange(n + 1, dtype=np.int32) * np.int32(k)
        row = xp.arange(n, dtype=np.int32)
        columns = (row - row % k)[:, None] + xp.arange(k, dtype=np.int32)
        data = xp.empty(n * k, self.A.data.dtype)
        return Product(indptr, columns.astype(np.int32).ravel(), data, n)


class BlockGaussSeidel(Relaxation):
    """Sweeps over the block rows; a singular block has its pseudo-inverse, as in pyamg."""

    def __init__(self, blocks: Blocks, sweep: str, iterations: int = 1) -> None:
        self.blocks, self.iterations = blocks, iterations
        self._directions = {
            "forward": (True,),
            "backward": (False,),
            "symmetric": (True, False),
        }[sweep]
        for lower in self._directions:
            blocks.plan(lower)

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        for lower in self._directions:
            self.blocks.W.combine(v.r, v.b)
            if not from_zero:
                self.blocks.strict(not lower).combine(v.r, v.x, b=None, beta=-1.0, z=v.r)
            self.blocks.plan(lower).solve(v.x, v.r)
            from_zero = False

    def check(self) -> None:
        for lower in self._directions:
            self.blocks.plan(lower).check()


class BlockJacobi(Relaxation):
    """x <- (1 - omega) x + omega W (b - (A - D) x) with D the block diagonal of A."""

    def __init__(self, blocks: Blocks, omega: float = 1.0, iterations: int = 1) -> None:
        self.blocks, self.omega, self.iterations = blocks, omega, iterations
        self._product = Product(blocks.A.indptr, blocks.A.indices, blocks.A.data, blocks.A.n)

    def renumber(self, recipe: Any) -> None:
        self.omega = recipe.omega

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        blocks, omega = self.blocks, self.omega
        if from_zero:
            blocks.W.combine(v.x, v.b, beta=omega)
        elif blocks.is_regular:
            self._product.residual(v.r, v.x, v.b)
            blocks.W.combine(v.x, v.r, beta=omega, z=v.x)
        else:
            blocks.W.combine(v.spare, v.b, alpha=1 - omega, b=v.x, beta=omega)
            for lower in (True, False):
                blocks.strict(lower).combine(v.spare, v.x, beta=-omega, z=v.spare)
            v.swap()
