"""in_degree, T^T and level of a triangle: the steps of the papers' set-ups, each timed alone.

Levels in one self-scheduled launch (`dag`), without and with the sort of the rows by level, and
level after level as in section 4.4.1 of Li (2017) (`kahn`), which needs in-degrees and transpose.
"""

from __future__ import annotations

from typing import Any

from gpuilu.bench.products import product_row, transposes
from gpuilu.bench.race import Contender, race
from gpuilu.bench.systems import System
from gpuilu.dag import count_levels, in_degree, levels
from gpuilu.errors import GpuiluError
from gpuilu.kahn import kahn_levels
from gpuilu.triangle import transpose_pattern

__all__ = ["ANALYSES", "measure_analyses"]


class LevelsDifferError(GpuiluError, ArithmeticError):
    """Two analyses of one triangle do not agree."""


class Step(Contender):
    """A step that makes an array from the pattern of the first triangle."""

    timed = frozenset({"solve"})

    def __init__(self, name: str, system: System) -> None:
        super().__init__(name, system)
        self.T = system.triangles[0]
        self.result: Any = None

    def build(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def release(self) -> None:
        self.result = None


class InDegree(Step):
    """How many rows each row depends on."""

    def run(self) -> None:
        self.result = in_degree(self.T)


class Depths(Step):
    """The level of every row, and the largest."""

    def run(self) -> None:
        self.result = count_levels(self.T)


class SelfScheduled(Step):
    """The level sets: levels, and the rows sorted by them."""

    def run(self) -> None:
        self.result = levels(self.T).level


class Kahn(Step):
    """The level sets from in-degrees and the transpose, which is made before."""

    def build(self) -> None:
        self.transpose = transpose_pattern(self.T.indptr, self.T.indices)[:2]

    def run(self) -> None:
        self.result = kahn_levels(self.T, *self.transpose).level

    def finish(self) -> None:
        if not bool((levels(self.T).level == self.result).all()):
            raise LevelsDifferError("Kahn's levels are not those of the self-scheduled analysis")


# op: algorithm and what does it; the transposes are the products' own.
ANALYSES: dict[str, dict[str, type[Step]]] = {
    "in_degree": {"gpuilu": InDegree},
    "count_levels": {"self_scheduled": Depths},
    "levels": {"self_scheduled": SelfScheduled, "kahn": Kahn},
}


def measure_analyses(system: System, *, budget_s: float) -> list[dict[str, Any]]:
    """Rows of a record with the step in the place of `op` and phase "run"."""
    contenders = {
        (op, name): kind(name, system)
        for op, kinds in ANALYSES.items()
        for name, kind in kinds.items()
    }
    found: dict[tuple[str, str], Contender] = {**contenders, **transposes(system)}
    race(list(found.values()), budget_s)
    return [product_row(system, op, contender) for (op, _), contender in found.items()]
