"""T x = b, T^T x = b and T^H x = b: one triangle and its transposed forms, each planned once."""

from __future__ import annotations

import threading
from typing import Any

from gpuilu.backend import cuda, on_gpu
from gpuilu.triangle import Transposed, Triangle
from gpuilu.trsv.base import Plan

__all__ = ["Chain", "TriangularForms"]


class TriangularForms:
    """The plans of one triangle by `trans`; T and H are made at first use."""

    def __init__(self, T: Triangle, algorithm: type[Plan]) -> None:
        self.T = T
        self.algorithm = algorithm
        self._plans: dict[str, Plan] = {"N": algorithm(T)}
        self._transposed: dict[str, Transposed] = {}
        self._building = threading.Lock()

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
                if on_gpu(self.T.data):
                    cuda.synchronize()  # another stream may be the next to use it
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


class Chain:
    """x = op(T_k)^-1 ... op(T_1)^-1 b: triangles of one dtype, solved one after the other.

    Two plans that are cheaper together are joined when they are made.
    """

    def __init__(self, forms: list[TriangularForms]) -> None:
        self.forms = forms
        self._is_real = all(f.T.dtype.kind != "c" for f in forms)
        self._joined: dict[str, tuple[Any, ...]] = {}
        self._made_so_far: tuple[Any, ...] = ()
        self._joining = threading.Lock()

    def solve(self, x: Any, trans: str, b: Any = None) -> None:
        """x <- the solution for b, or for x without b."""
        if self._is_real and x.dtype.kind == "c":
            # A real triangle acts on real and imaginary parts alike: twice as many real columns.
            x, b = (a if a is None else _as_real(a) for a in (x, b))
        for plan in self._joined.get(trans) or self.plans(trans):
            plan.solve(x, b)
            b = None

    def plans(self, trans: str) -> tuple[Any, ...]:
        """What solves, in turn; made at the first call."""
        made = self._made("T" if trans == "H" and self._is_real else trans)
        self._joined[trans] = made
        return made

    def check(self) -> None:
        """Raise what earlier solves ran into, if it is known already."""
        for plan in self._made_so_far:
            plan.check()

    def _made(self, trans: str) -> tuple[Any, ...]:
        plans = tuple(forms.plan(trans) for forms in self.forms)
        with self._joining:
            if trans not in self._joined:
                pair = plans[0].followed_by(plans[1]) if len(plans) == 2 else None
                self._joined[trans] = plans if pair is None else (pair,)
                self._made_so_far += self._joined[trans]
            return self._joined[trans]


def _as_real(x: Any) -> Any:
    """A complex (n,) or (n, nrhs) as real (n, 2 nrhs), without a copy."""
    return x.view(x.real.dtype).reshape(len(x), -1)
