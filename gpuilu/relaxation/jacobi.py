"""x <- x + omega D^-1 (b - A x): the weighted Jacobi iteration, one pass over A a step.

A row whose diagonal entry is zero or not stored keeps its x_i.
Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 4.1.
"""

from __future__ import annotations

from typing import Any

from gpuilu.backend import namespace
from gpuilu.csr import CSR
from gpuilu.products import Product
from gpuilu.relaxation.base import Relaxation, Vectors

__all__ = ["Jacobi"]


class Jacobi(Relaxation):
    """Point-wise, for matrices of any format."""

    def __init__(self, A: CSR, omega: float = 1.0, iterations: int = 1) -> None:
        self.A, self.omega, self.iterations = A, omega, iterations
        self._product = Product(A.indptr, A.indices, A.data, A.n)
        self._scale = namespace(A.data).empty(A.n, A.data.dtype)
        self.refresh()

    def refresh(self) -> None:
        D = diagonal_of(self.A)
        zero = D == 0
        self.n_skipped = int(zero.sum())
        D[zero] = 1
        self._scale[...] = D.dtype.type(self.omega) / D
        self._scale[zero] = 0

    def renumber(self, recipe: Any) -> None:
        self.omega = recipe.omega
        self.refresh()

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        if from_zero:
            namespace(v.x).multiply(self._scale, v.b, out=v.x)
            return
        self._product.combine(v.spare, v.x, b=v.b, beta=-1.0, w=self._scale, z=v.x)
        v.swap()


def diagonal_of(A: CSR) -> Any:
    """The diagonal of A, a new array, with zeros where no entry is stored."""
    stored = A.diagonal >= 0
    D = namespace(A.data).zeros(A.n, A.data.dtype)
    D[stored] = A.data[A.diagonal[stored]]
    return D
