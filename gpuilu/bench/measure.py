"""t(algorithm): solves in turn, algorithm after algorithm, round after round, in one process.

An algorithm that fails is a row with its error. A budget of time is shared by the algorithms: a
slow one gets fewer rounds, never none.
"""

from __future__ import annotations

import itertools
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuilu.backend import cuda, held_bytes, namespace
from gpuilu.bench.systems import System, wait
from gpuilu.errors import GpuiluError
from gpuilu.trsv.base import Plan, algorithms
from gpuilu.trsv.select import choose

__all__ = ["Contender", "Solver", "measure", "race"]

ROUNDS = 15
BURST = 4  # solves timed one after the other in a round, after one that is not
SLOW_S = 0.02  # a solve that takes longer is timed alone
REBUILDS = 3
EXPECTED_SOLVES = 100  # what "auto" is told


class Contender(ABC):
    """One thing to be timed: set up anew by `build`, then run again and again."""

    def __init__(self, name: str, system: System) -> None:
        self.name = name
        self.system = system
        self.solves_ms: list[float] = []
        self.setups_ms: list[float] = []
        self.error: Exception | None = None
        self.spent_s = 0.0
        self.is_slow = False

    @abstractmethod
    def build(self) -> None:
        """Make everything that does not depend on b."""

    @abstractmethod
    def run(self) -> None:
        """Solve once; on a GPU the work is only enqueued."""

    @abstractmethod
    def finish(self) -> None:
        """Look at the first result and raise what is wrong with it."""

    def release(self) -> None:  # noqa: B027
        """Let go of what `build` made."""

    def start(self) -> None:
        """Build and run once: compilation and first uses are over after it."""
        self.build()
        self.run()
        wait(self.system.device)
        self.finish()
        start = time.perf_counter()
        self.run()
        wait(self.system.device)
        self.is_slow = time.perf_counter() - start > SLOW_S

    def round(self) -> None:
        """Time a burst of solves, or one slow one."""
        if not self.is_slow:
            self.run()
        self.solves_ms += _burst(self.run, 1 if self.is_slow else BURST, self.system.device)

    def rebuild(self) -> None:
        """Time the set-up: build and first solve, less a solve, for some analyse at the first."""
        self.release()
        wait(self.system.device)
        start = time.perf_counter()
        self.build()
        self.run()
        wait(self.system.device)
        total_ms = (time.perf_counter() - start) * 1e3
        self.setups_ms.append(max(total_ms - statistics.median(self.solves_ms), 0.0))

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step against the clock; what it raises is kept as the contender's failure."""
        start = time.perf_counter()
        try:
            step()
        except Exception as error:  # whatever an algorithm raises is its result
            self.error = error.with_traceback(None)
            self.release()
        self.spent_s += time.perf_counter() - start


def _burst(run: Callable[[], None], count: int, device: str) -> list[float]:
    """Milliseconds of each of `count` runs. On a GPU events part them, and the host runs ahead."""
    if device == "cpu":
        ticks = [time.perf_counter()]
        for _ in range(count):
            run()
            ticks.append(time.perf_counter())
        return [1e3 * (b - a) for a, b in itertools.pairwise(ticks)]
    cp = cuda.cupy()
    events = [cp.cuda.Event() for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    events[-1].synchronize()
    return [cp.cuda.get_elapsed_time(a, b) for a, b in itertools.pairwise(events)]


# ---- triangular solvers -------------------------------------------------------------------------


class InaccurateError(GpuiluError, ArithmeticError):
    """The result is not that of a substitution."""


class Solver(Contender):
    """x = U^-1 L^-1 b, or one triangle of it, by an algorithm of the registry."""

    def __init__(self, name: str, system: System, algorithm: type[Plan]) -> None:
        super().__init__(name, system)
        self.algorithm = algorithm
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

    def round(self) -> None:
        super().round()
        self.check()

    def check(self) -> None:
        """Raise what the solves so far ran into."""
        for plan in self.plans if self.joined is None else [self.joined]:
            plan.check()

    def release(self) -> None:
        self.plans, self.joined = [], None


def race(contenders: Sequence[Contender], budget_s: float) -> None:
    """Time contenders in turn until each has had its share of the budget."""
    share_s = budget_s / max(len(contenders), 1)
    for contender in contenders:
        contender.attempt(contender.start)
        contender.spent_s = 0.0  # compiling and checking are not its fault
    for k in range(ROUNDS):
        for contender in contenders:
            if contender.error is None and (k == 0 or contender.spent_s < share_s / 2):
                contender.attempt(contender.round)
    for contender in contenders:
        for k in range(REBUILDS):
            if contender.error is None and (k == 0 or contender.spent_s < share_s):
                contender.attempt(contender.rebuild)
        contender.release()


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
        Seconds for all of them together; a first solve and one round of each are always made.
    card : str
        The card's name, for the yardstick.
    """
    names = list(names)
    chosen, facts, choice_ms = _choice(system) if "auto" in names else ("", {}, 0.0)
    timed = [name for name in names if name != "auto"]
    if chosen and chosen not in timed:
        timed.append(chosen)
    table = algorithms()
    kind = system.device.partition(":")[0]
    solvers = {name: Solver(name, system, table[name, kind]) for name in timed}
    race(list(solvers.values()), budget_s)
    rows = []
    for name in names:
        solver = solvers[chosen if name == "auto" else name]
        extra, more_ms = (facts, choice_ms) if name == "auto" else ({}, 0.0)
        rows += _rows(name, solver, card, extra, more_ms)
    return rows


def _choice(system: System) -> tuple[str, dict[str, Any], float]:
    """What "auto" chooses, and the milliseconds that choosing took."""
    kind = system.device.partition(":")[0]
    start = time.perf_counter()
    name, reason = choose(
        tuple(system.triangles),
        "auto",
        kind,
        expected_solves=EXPECTED_SOLVES,
        deterministic=True,
    )
    wait(system.device)
    elapsed_ms = (time.perf_counter() - start) * 1e3
    return name, {"chosen": name, "reason": reason}, elapsed_ms


def _rows(
    name: str, solver: Solver, card: str, extra: dict[str, Any], more_ms: float
) -> list[dict[str, Any]]:
    times = {
        "setup": [ms + more_ms for ms in solver.setups_ms],
        "solve": solver.solves_ms,
    }
    common = {"nbytes": solver.nbytes, "backward_error": solver.backward_error, **extra}
    rows = []
    for phase, found in times.items():
        row = {**solver.system.row(), "algorithm": name, "phase": phase, **summary(found), **common}
        floor = solver.system.floor_ms(card)
        if phase == "solve" and floor is not None:
            row["floor_ms"] = floor
        rows.append(row | failure(solver))
    return rows


def summary(times_ms: list[float]) -> dict[str, float | None]:
    """Median and quartiles; None where nothing was measured."""
    if not times_ms:
        return {"ms": None, "q1_ms": None, "q3_ms": None}
    q1, ms, q3 = (float(q) for q in np.percentile(times_ms, [25, 50, 75]))
    return {"ms": ms, "q1_ms": q1, "q3_ms": q3}


def failure(contender: Contender) -> dict[str, str]:
    """The keys of a row that tell what went wrong; none if nothing did."""
    error = contender.error
    if error is None:
        return {}
    return {"error": type(error).__name__, "message": str(error).split("\n")[0][:200]}
