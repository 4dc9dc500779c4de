"""(D/omega + L) x_new = b - U x + (1/omega - 1) D x: Gauss-Seidel and SOR sweeps from any x.

A backward sweep exchanges L and U. Row by row this is x_i <- x_i + omega ((b - A x)_i / a_ii) with
the newest x, as every textbook writes it. A row whose diagonal entry is zero or not stored keeps
its x_i: its row of the triangle becomes that of the identity, and its right-hand side x_i.

Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 4.1.
"""

from __future__ import annotations

from typing import Any

from gpuilu.backend import namespace
from gpuilu.csr import CSR, row_of_entries, with_diagonal
from gpuilu.dag import remembered
from gpuilu.factor.split import Split
from gpuilu.products import Product
from gpuilu.relaxation.base import Relaxation, Vectors
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan, find
from gpuilu.trsv.select import choose

__all__ = ["GaussSeidel", "PointSplitting"]

SOLVES = 1000  # that a plan may expect: a smoother is applied again and again


def plan_for(T: Triangle, algorithm: str, device: str) -> Plan:
    """The triangle planned by the algorithm of that name, or by the one that `choose` finds."""
    kind = device.partition(":")[0]
    with remembered():
        name, _ = choose((T,), algorithm, kind, expected_solves=SOLVES, deterministic=True)
        return find(name, kind, deterministic=True)(T)


class PointSplitting:
    """A = L + D + U with planned triangles, shared by the smoothers of one matrix.

    Parameters
    ----------
    A : CSR
        Its arrays are kept, and read again by `refresh`.
    algorithm : str
        Triangular-solve algorithm, or "auto".
    """

    def __init__(self, A: CSR, algorithm: str = "auto") -> None:
        self.A, self.algorithm = A, algorithm
        full = with_diagonal(A, "insert")
        self._kept, self._nnz = full.kept, full.nnz
        self._split = Split(full.indptr, full.indices, full.diagonal, "LU")
        xp = namespace(A.data)
        self.D = xp.empty(A.n, A.data.dtype)
        self.skipped = xp.empty(A.n, bool)
        patterns = (self._split.pattern(lower) for lower in (True, False))
        self._strict = tuple(xp.empty(len(P.indices), A.data.dtype) for P in patterns)
        self._plans: dict[tuple[bool, float], Plan] = {}
        self._terms: dict[float, tuple[Any, Any]] = {}
        self._read()

    def _read(self) -> None:
        """D, L and U from the present values; the skipped rows of L and U become zero."""
        data = self.A.data
        xp = namespace(data)
        if self._kept is not None:
            data = xp.zeros(self._nnz, data.dtype)
            data[self._kept] = self.A.data
        self.D[...] = data[self._split.diagonal]
        self.skipped[...] = self.D == 0
        self.n_skipped = int(self.skipped.sum())
        triangles = (self._split.lower(data, None), self._split.upper(data, None))
        for strict, T in zip(self._strict, triangles, strict=True):
            strict[...] = T.data
            if self.n_skipped:
                strict[self.skipped[row_of_entries(T.indptr, len(strict))]] = 0

    def strict(self, lower: bool) -> Product:
        """L or U as something to multiply with."""
        P = self._split.pattern(lower)
        return Product(P.indptr, P.indices, self._strict[not lower], self.A.n)

    def plan(self, lower: bool, omega: float) -> Plan:
        """D/omega + L or D/omega + U, planned."""
        if (lower, omega) not in self._plans:
            P = self._split.pattern(lower)
            T = Triangle(lower, P.indptr, P.indices, self._strict[not lower], self._diagonal(omega))
            self._plans[lower, omega] = plan_for(T, self.algorithm, self.A.device)
        return self._plans[lower, omega]

    def terms(self, omega: float) -> tuple[Any, Any]:
        """(w, d) of the right-hand side w b - N x + d x; None for ones and for nothing."""
        if omega not in self._terms:
            self._terms[omega] = self._new_terms(omega)
        return self._terms[omega]

    def refresh(self) -> None:
        """Take up the present values of A."""
        self._read()
        for (_, omega), plan in self._plans.items():
            assert plan.T.diag is not None
            plan.T.diag[...] = self._diagonal(omega)
            plan.refresh()
        for omega, old in list(self._terms.items()):
            new = self._new_terms(omega)
            if any((a is None) != (b is None) for a, b in zip(old, new, strict=True)):
                self._terms[omega] = new
                continue
            for a, b in zip(old, new, strict=True):
                if a is not None:
                    a[...] = b

    def _diagonal(self, omega: float) -> Any:
        D = self.D / self.D.real.dtype.type(omega)
        D[self.skipped] = 1
        return D

    def _new_terms(self, omega: float) -> tuple[Any, Any]:
        if omega == 1 and not self.n_skipped:
            return None, None
        d = self.D * self.D.real.dtype.type(1 / omega - 1)
        d[self.skipped] = 1
        w = (~self.skipped).astype(d.dtype) if self.n_skipped else None
        return w, d


class GaussSeidel(Relaxation):
    """Sweeps over the rows in ascending ("forward") or descending order, or both in turn.

    Parameters
    ----------
    splitting : PointSplitting
    sweep : {"forward", "backward", "symmetric"}
    omega : float
        1 for Gauss-Seidel.
    iterations : int
    """

    def __init__(
        self, splitting: PointSplitting, sweep: str, omega: float = 1.0, iterations: int = 1
    ) -> None:
        self.splitting, self.omega, self.iterations = splitting, float(omega), iterations
        self._directions = {
            "forward": (True,),
            "backward": (False,),
            "symmetric": (True, False),
        }[sweep]
        for lower in self._directions:
            splitting.plan(lower, self.omega)

    @property
    def n_skipped(self) -> int:  # type: ignore[override]
        return self.splitting.n_skipped

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        for lower in self._directions:
            self._sweep(v, lower, from_zero)
            from_zero = False

    def _sweep(self, v: Vectors, lower: bool, from_zero: bool) -> None:
        splitting = self.splitting
        plan = splitting.plan(lower, self.omega)
        w, d = splitting.terms(self.omega)
        right = v.b if from_zero and w is None else v.r
        if not from_zero:
            z = None if d is None else v.x
            splitting.strict(not lower).combine(v.r, v.x, b=v.b, beta=-1.0, w=w, d=d, z=z)
        elif w is not None:
            namespace(v.x).multiply(w, v.b, out=v.r)
        plan.solve(v.x, right)

    def check(self) -> None:
        for lower in self._directions:
            self.splitting.plan(lower, self.omega).check()
