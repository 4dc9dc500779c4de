"""x <- x + M^-1 (b - A x) with M = L U: ILU(0) as a relaxation."""

from __future__ import annotations

from gpuilu.csr import CSR
from gpuilu.factories import ilu0
from gpuilu.products import Product
from gpuilu.relaxation.base import Relaxation, Vectors
from gpuilu.relaxation.gauss_seidel import SOLVES

__all__ = ["Incomplete"]


class Incomplete(Relaxation):
    """Pivots are treated as `gpuilu.ilu0` treats them; no row is skipped."""

    def __init__(
        self, A: CSR, pivot: str, missing_diagonal: str, algorithm: str, iterations: int = 1
    ) -> None:
        self.A, self.iterations = A, iterations
        self._product = Product(A.indptr, A.indices, A.data, A.n)
        self.M = ilu0(
            self._product.to_matrix(),
            pivot=pivot,
            missing_diagonal=missing_diagonal,
            algorithm=algorithm,
            device=A.device,
            expected_solves=SOLVES,
        )

    def refresh(self) -> None:
        self.M.update(self.A.data)

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        if from_zero:
            self.M.solve(v.b, out=v.x)
            return
        self._product.residual(v.r, v.x, v.b)
        self.M.solve(v.r, out=v.r)
        v.x += v.r

    def check(self) -> None:
        self.M._application.raise_known_trouble()
