"""T x = b: what a triangular-solve algorithm is, and the registry that finds them all."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

import gpuilu.trsv
from gpuilu.errors import UnknownAlgorithmError, UnsupportedAlgorithmError
from gpuilu.triangle import Triangle

__all__ = ["Plan", "algorithms", "find"]


class Plan(ABC):
    """One triangle analysed by one algorithm: everything a solve needs that is not b.

    A subclass in a module of `gpuilu.trsv` is an algorithm; defining it registers it. A transpose
    is a triangle of its own, so an algorithm only ever solves T x = b, for lower and upper T, with
    a unit or a stored diagonal. One that `divides` rounds a quotient by the diagonal once; others
    may multiply by the diagonal's reciprocal, itself rounded. A `vendor` algorithm is there to
    compare with: its memory is not ours to bound, and a column of a block need not give the bits of
    that column alone. A `special` algorithm is made for triangles of a kind: it solves others too,
    with more memory or not at all where that would be large.
    """

    name: ClassVar[str]
    device: ClassVar[str] = "cpu"
    deterministic: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    divides: ClassVar[bool] = True
    vendor: ClassVar[bool] = False
    special: ClassVar[bool] = False
    source: ClassVar[str] = ""

    def __init__(self, T: Triangle) -> None:
        self.T = T

    @abstractmethod
    def solve(self, x: Any, b: Any = None) -> None:
        """x <- T^-1 b, or x <- T^-1 x without b.

        x and b are C-contiguous, (n,) or (n, nrhs), of one dtype at least as wide as T's; they do
        not overlap.
        """

    @classmethod
    def predicted_us(cls, T: Triangle) -> float:
        """Microseconds that a solve will take at least, roughly, from T's levels; 0: no idea."""
        return 0.0

    def followed_by(self, other: Plan) -> Any:
        """Something with `solve` and `check` that does both solves for less, or None.

        `other` is a plan of the same algorithm; what is made keeps no values of its own.
        """
        return None

    def refresh(self) -> None:  # noqa: B027
        """Take up the triangle's present values; needed only where the plan holds copies."""

    def check(self) -> None:  # noqa: B027
        """Raise what earlier solves ran into, if it is known already."""


@cache
def algorithms() -> dict[tuple[str, str], type[Plan]]:
    """Every algorithm by (name, device)."""
    for module in pkgutil.iter_modules(gpuilu.trsv.__path__):
        importlib.import_module(f"gpuilu.trsv.{module.name}")
    return {(plan.name, plan.device): plan for plan in _concrete(Plan)}


def find(name: str, device: str, *, deterministic: bool) -> type[Plan]:
    """The algorithm of that name on that device, or an error that lists what there is."""
    table = algorithms()
    names = sorted(n for n, d in table if d == device)
    if (name, device) in table:
        plan = table[name, device]
        if deterministic and not plan.deterministic:
            raise UnsupportedAlgorithmError(
                f"algorithm {name!r} sums in an order that varies from run to run; "
                "pass deterministic=False to allow it"
            )
        return plan
    if any(name == known for known, _ in table):
        raise UnsupportedAlgorithmError(
            f"algorithm {name!r} does not run on {device!r}; there are {names}"
        )
    raise UnknownAlgorithmError(
        f"no algorithm is named {name!r}; on {device!r} there are 'auto', 'measure' and {names}"
    )


def _concrete(plan: Any) -> list[Any]:
    found = [plan] if "name" in vars(plan) else []
    return found + [c for sub in plan.__subclasses__() for c in _concrete(sub)]
