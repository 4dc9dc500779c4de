"""t(contender): runs in turn, contender after contender, round after round, in one process.

A contender that fails keeps its error. A budget of time is shared by all: a slow one gets fewer
rounds; one whose single run takes more than its share gets none, and the run that showed it is its
measurement.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from gpuilu.backend import cuda
from gpuilu.bench.systems import System, wait

__all__ = ["Contender", "failure", "race", "summary"]

ROUNDS = 15
BURST = 4  # solves timed one after the other in a round, after one that is not
SLOW_S = 0.02  # a solve that takes longer is timed alone
REBUILDS, FEWEST_REBUILDS = 7, 3  # of a set-up; the fewest only where it is cheap
CHEAP_S = 0.1  # a set-up that takes longer is timed once if the budget is spent
LATE = 0.125  # of a share: solves up to this long are compared with the first after a set-up


class Contender(ABC):
    """One thing to be timed: set up anew by `build`, then run again and again."""

    timed = frozenset({"setup", "solve"})
    is_lazy = False  # does its set-up at the first run: building only makes ready what it is given

    def __init__(self, name: str, system: System) -> None:
        self.name = name
        self.system = system
        self.solves_ms: list[float] = []
        self.setups_ms: list[float] = []
        self.error: Exception | None = None
        self.spent_s = 0.0
        self.solve_s = 0.0

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

    @property
    def is_slow(self) -> bool:
        """Whether a solve is timed alone."""
        return self.solve_s > SLOW_S

    def start(self) -> None:
        """Build and run once: compilation and first uses are over after it."""
        self.build()
        self.run()
        wait(self.system.device)
        self.finish()
        self.solve_s = self._seconds(self.run)

    def settle(self, share_s: float) -> None:
        """Begin to count the time spent; a solve beyond the share is measured already."""
        self.spent_s = 0.0
        if self.solve_s > share_s and "solve" in self.timed:
            self.solves_ms.append(1e3 * self.solve_s)
            self.spent_s = self.solve_s

    def round(self) -> None:
        """Time a burst of solves, or one slow one."""
        if not self.is_slow:
            self.run()
        self.solves_ms += _burst(self.run, 1 if self.is_slow else BURST, self.system.device)

    def wants_round(self, share_s: float) -> bool:
        """Whether there is time for another round; for the first there always is."""
        if self.error is not None or "solve" not in self.timed:
            return False
        return not self.solves_ms or self.spent_s < share_s / 2

    def rebuild(self, share_s: float) -> None:
        """Time the set-up: building, and what the first solve after it takes beyond a later one."""
        self.release()
        wait(self.system.device)
        built_s = self._seconds(self.build)
        late_s = 0.0
        if self.is_lazy or self.solve_s <= LATE * share_s:
            first_s = self._seconds(self.run)
            later_s = [self._seconds(self.run) for _ in range(1 if self.is_slow else 3)]
            late_s = max(first_s - statistics.median(later_s), 0.0)
        self.setups_ms.append(1e3 * (late_s if self.is_lazy else built_s + late_s))

    def wants_rebuild(self, share_s: float) -> bool:
        """Whether to time the set-up again: a few times if cheap, more often if there is time."""
        found = self.setups_ms
        if self.error is not None or "setup" not in self.timed or len(found) >= REBUILDS:
            return False
        cheap = len(found) < FEWEST_REBUILDS and max(found, default=0.0) < 1e3 * CHEAP_S
        return cheap or self.spent_s < share_s

    def _seconds(self, work: Callable[[], None]) -> float:
        """Wall time of some work, to its end on the device."""
        start = time.perf_counter()
        work()
        wait(self.system.device)
        return time.perf_counter() - start

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


def race(contenders: Sequence[Contender], budget_s: float) -> None:
    """Time contenders in turn until each has had its share of the budget."""
    share_s = budget_s / max(len(contenders), 1)
    for contender in contenders:
        contender.attempt(contender.start)
        contender.settle(share_s)  # compiling and checking are not its fault
    for _ in range(ROUNDS):
        for contender in contenders:
            if contender.wants_round(share_s):
                contender.attempt(contender.round)
    for contender in contenders:
        while contender.wants_rebuild(share_s):
            contender.attempt(functools.partial(contender.rebuild, share_s))
        contender.release()


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
