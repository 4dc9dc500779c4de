"""T x = b by the algorithms of the registry: set-up and solve of each, as rows of a record."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gpuilu.backend import held_bytes, namespace
from gpuilu.bench.race import Contender, failure, race, summary
from gpuilu.bench.systems import System
from gpuilu.dag import remembered
from gpuilu.errors import GpuiluError
from gpuilu.trsv.base import Plan, algorithms
from gpuilu.trsv.select import choose

__all__ = ["Solver", "measure"]

EXPECTED_SOLVES = {"setup": 100, "setup_once": 1}  # what "auto" is told, by phase


class InaccurateError(GpuiluError, ArithmeticError):
    """The result is not that of a substitution."""


class Solver(Contender):
    """x = U^-1 L^-1 b, or one triangle of it, by an algorithm of the registry."""

    def __init__(self, name: str, system: System, algorithm: type[Plan]) -> None:
        super().__init__(name, system)
        self.algorithm = algorithm
        self.is_lazy = algorithm.vendor  # whose user has the matrix in its format already
        self.vectors = [system.b]
        self.vectors += [namespace(system.b).empty_like(system.b) for _ in system.triangles]
        self.plans: list[Plan] = []
        self.joined: Any = None  # both solves in one go, as an operator does them
        self.backward_error: float | None = None
        self.nbytes: int | None = None

    def build(self) -> None:
        self.plans = [self.algorithm(T) for T in self.system.triangles]
        self.joined = self.plans[0].followed_by(self.plans[1]) if len(self.plans) == 2 else None

    def run(self) -> None:
        if self.joined is not None:
            self.joined.solve(self.vectors[-1], self.vectors[0])
            return
        for k, plan in enumerate(self.plans):
            plan.solve(self.vectors[k + 1], self.vectors[k])

    def finish(self) -> None:
        self.check()
        self.nbytes = held_bytes(self.plans, self.joined)
        if self.joined is not None:  # what lies between, which it does not give
            self.plans[0].solve(self.vectors[1], self.vectors[0])
        self.backward_error = self.system.backward_error(self.vectors)
        bound = self.system.bound()
        if self.algorithm.exact and not self.backward_error <= bound:
            raise InaccurateError(f"backward error {self.backward_error:.1e}, bound {bound:.1e}")

    def start(self) -> None:
        super().start()
        self.check()

    def round(self) -> None:
        super().round()
        self.check()

    def check(self) -> None:
        """Raise what the solves so far ran into."""
        for plan in self.plans if self.joined is None else [self.joined]:
            plan.check()

    def release(self) -> None:
        self.plans, self.joined = [], None

    def predicted_ms(self) -> float:
        """What the algorithm expects a solve to take; 0 where it has no idea."""
        with remembered():
            return sum(self.algorithm.predicted_us(T) for T in self.system.triangles) / 1e3


class Chosen(Solver):
    """The set-up of "auto": choosing, and the plans of what is chosen, as a preconditioner does."""

    timed = frozenset({"setup"})  # the solves are those of the algorithm itself

    def __init__(self, system: System, expected_solves: int) -> None:
        self.expected_solves = expected_solves
        name, self.reason = self._choice(system)  # which also compiles what choosing needs
        super().__init__("auto", system, algorithms()[name, _kind(system)])

    def build(self) -> None:
        with remembered():
            name, self.reason = self._choice(self.system)
            self.algorithm = algorithms()[name, _kind(self.system)]
            super().build()

    def _choice(self, system: System) -> tuple[str, str]:
        return choose(
            tuple(system.triangles),
            "auto",
            _kind(system),
            expected_solves=self.expected_solves,
            deterministic=True,
        )


def measure(
    system: System, names: Iterable[str], *, budget_s: float, card: str
) -> list[dict[str, Any]]:
    """Rows of a record for a system: set-up and solve of each algorithm, in `names`' order.

    Parameters
    ----------
    system : System
    names : iterable of str
        Algorithms of the system's device; "auto" is timed as what it chooses.
    budget_s : float
        Seconds for all of them together; a first solve and a set-up of each are always made.
    card : str
        The card's name, for the yardstick.
    """
    names = list(names)
    autos = {p: Chosen(system, k) for p, k in EXPECTED_SOLVES.items()} if "auto" in names else {}
    timed = [name for name in names if name != "auto"]
    if autos and autos["setup"].algorithm.name not in timed:
        timed.append(autos["setup"].algorithm.name)
    table = algorithms()
    solvers = {name: Solver(name, system, table[name, _kind(system)]) for name in timed}
    race([*solvers.values(), *autos.values()], budget_s)
    rows = []
    for name in names:
        if name == "auto":
            rows += _rows_of_auto(autos, solvers[autos["setup"].algorithm.name], card)
        else:
            solver = solvers[name]
            rows += [_row(solver, name, phase, card) for phase in ("setup", "solve")]
    return rows


def _kind(system: System) -> str:
    return system.device.partition(":")[0]


def _rows_of_auto(autos: dict[str, Chosen], solver: Solver, card: str) -> list[dict[str, Any]]:
    """Set-ups of their own; the solve is that of what is chosen."""
    rows = []
    for phase, auto in {**autos, "solve": autos["setup"]}.items():
        row = _row(solver if phase == "solve" else auto, "auto", phase, card)
        told = {"chosen": auto.algorithm.name, "reason": auto.reason}
        rows.append(row | told | {"expected_solves": auto.expected_solves})
    return rows


def _row(solver: Solver, name: str, phase: str, card: str) -> dict[str, Any]:
    times = solver.solves_ms if phase == "solve" else solver.setups_ms
    row = {**solver.system.row(), "algorithm": name, "phase": phase, **summary(times)}
    row |= {"nbytes": solver.nbytes, "backward_error": solver.backward_error}
    floor = solver.system.floor_ms(card)
    if phase == "solve" and floor is not None:
        row["floor_ms"] = floor
    predicted = solver.predicted_ms() if phase == "solve" else 0.0
    if 0 < predicted < math.inf:
        row["predicted_ms"] = predicted
    return row | failure(solver)
