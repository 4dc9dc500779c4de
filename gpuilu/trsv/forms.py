"""T x = b, T^T x = b and T^H x = b: one triangle and its transposed forms, each planned once."""

from __future__ import annotations

import threading
from typing import Any

from gpuilu.backend import cuda, on_gpu
from gpuilu.triangle import Transposed, Triangle
from gpuilu.trsv.base import Plan

__all__ = ["TriangularForms"]


class TriangularForms:
    """The plans of one triangle by `trans`; T and H are made at first use."""

    def __init__(self, T: Triangle, algorithm: type[Plan]) -> None:
        self.T = T
        self.algorithm = algorithm
        self._plans: dict[str, Plan] = {"N": algorithm(T)}
        self._transposed: dict[str, Transposed] = {}
        self._building = threading.Lock()

    def solve(self, x: Any, trans: str, b: Any = None) -> None:
        """x <- op(T)^-1 b, or x <- op(T)^-1 x without b."""
        if x.dtype.kind == "c" and self.T.dtype.kind != "c":
            # A real triangle acts on real and imaginary parts alike: twice as many real columns.
            trans = "T" if trans == "H" else trans
            x, b = (a if a is None else _as_real(a) for a in (x, b))
        self.plan(trans).solve(x, b)

    def check(self) -> None:
        """Raise what earlier solves ran into."""
        for plan in list(self._plans.values()):
            plan.check()

    def plan(self, trans: str) -> Plan:
        """The plan for 'N', 'T' or 'H'; real triangles share T and H."""
        if trans == "H" and self.T.dtype.kind != "c":
            trans = "T"
        found = self._plans.get(trans)
        return self._made(trans) if found is None else found

    def _made(self, trans: str) -> Plan:
        with self._building:
            if trans not in self._plans:
                if on_gpu(self.T.data):
                    cuda.refuse_capture(
                        f"the first solve with trans={trans!r}, which builds that form (call "
                        f"prepare({trans!r}) before),"
                    )
                form = Transposed(self.T, conjugate=trans == "H")
                plan = self.algorithm(form.triangle)
                self._transposed[trans] = form
                self._plans[trans] = plan  # last: it is read without the lock
            return self._plans[trans]

    def assign(self, T: Triangle) -> None:
        """Copy new values into the triangle and into every form made so far."""
        self.T.assign(T)
        for form in self._transposed.values():
            form.refill()
        for plan in self._plans.values():
            plan.refresh()


def _as_real(x: Any) -> Any:
    """A complex (n,) or (n, nrhs) as real (n, 2 nrhs), without a copy."""
    return x.view(x.real.dtype).reshape(len(x), -1)
