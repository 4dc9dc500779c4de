"""x <- x + p(A) (b - A x): polynomial relaxation, by Horner's rule; Chebyshev's and Richardson's.

p(A) = c_0 A^k + c_1 A^(k-1) + ... + c_k. Each pass over A multiplies and adds at once.
Source: Adams, Brezina, Hu and Tuminaro, Parallel multigrid smoothing: polynomial versus
Gauss-Seidel, Journal of Computational Physics 188 (2003).
"""

from __future__ import annotations

from typing import Any

from gpuilu.csr import CSR
from gpuilu.products import Product
from gpuilu.relaxation.base import Relaxation, Vectors

__all__ = ["Polynomial"]


class Polynomial(Relaxation):
    """Coefficients in descending order of the power of A."""

    def __init__(self, A: CSR, coefficients: tuple[float, ...], iterations: int = 1) -> None:
        self.A = Product(A.indptr, A.indices, A.data, A.n)
        self.coefficients, self.iterations = coefficients, iterations

    def renumber(self, recipe: Any) -> None:
        self.coefficients = recipe.coefficients

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        A, (first, *rest) = self.A, self.coefficients
        if not rest:
            self._richardson(v, first, from_zero)
            return
        r = v.b
        if not from_zero:
            r = v.r
            A.residual(r, v.x, v.b)
        # h = c_0 r is never stored: the first pass multiplies r itself by A.
        h, beta, other = r, first, v.spare
        for c in rest[:-1]:
            target = v.t if h is not v.t else other
            A.combine(target, h, b=r, alpha=c, beta=beta)
            h, beta = target, 1.0
        A.combine(v.x, h, b=r, alpha=rest[-1], beta=beta, z=None if from_zero else v.x)

    def _richardson(self, v: Vectors, c: float, from_zero: bool) -> None:
        """X <- x + c (b - A x)."""
        if from_zero:
            v.x[...] = v.b
            v.x *= v.x.real.dtype.type(c)
            return
        self.A.combine(v.spare, v.x, alpha=c, b=v.b, beta=-c, z=v.x)
        v.swap()
