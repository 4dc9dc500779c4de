"""algorithm="measure": the fastest of all algorithms on these triangles, found by timing them.

One candidate at a time is built, timed and dropped; the fastest is then built for good, so that
never more memory is held than one algorithm takes, and what analyses they share. Times vary from
run to run, and so may the choice: results are the same bits from one run to the next only if the
choice is.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from gpuilu.backend import cuda, namespace
from gpuilu.dag import remembered
from gpuilu.errors import SolveStalledError, UnsupportedAlgorithmError
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan, algorithms

__all__ = ["fastest"]

ROUNDS = 5  # solves that are timed, after one that is not
HOPELESS = 4  # times the best so far: not worth building (predicted), or timing again (measured)


def fastest(
    triangles: tuple[Triangle, ...], device: str, *, deterministic: bool
) -> tuple[str, str]:
    """The name of the algorithm that solves these triangles soonest, and the times of all.

    `device` is "cpu" or "cuda". Vendors' and approximate algorithms do not take part.
    """
    times: dict[str, float] = {}
    skipped = []
    with remembered():
        for predicted, plan in _candidates(triangles, device, deterministic):
            best = min(times.values(), default=math.inf)
            found = None if predicted > HOPELESS * best else _time_ms(plan, triangles, best)
            if found is None:
                skipped.append(plan.name)
            else:
                times[plan.name] = found
    if not times:
        raise UnsupportedAlgorithmError(f"none of {skipped} can solve these triangles here")
    order = sorted(times, key=lambda name: times[name])
    told = ", ".join(f"{name} {times[name]:.3f}" for name in order)
    left_out = f"; left out: {', '.join(skipped)}" if skipped else ""
    return order[0], f"measured ms a solve: {told}{left_out}"


def _candidates(
    triangles: tuple[Triangle, ...], device: str, deterministic: bool
) -> list[tuple[float, type[Plan]]]:
    """(predicted ms, algorithm), the most promising first; 0 where nothing is predicted."""
    found = [
        (sum(plan.predicted_us(T) for T in triangles) / 1e3, plan)
        for (_, where), plan in sorted(algorithms().items())
        if where == device
        and plan.exact
        and not plan.vendor
        and (plan.deterministic or not deterministic)
    ]
    return sorted(found, key=lambda candidate: (candidate[0] == 0, candidate[0]))


def _time_ms(plan: type[Plan], triangles: tuple[Triangle, ...], best: float) -> float | None:
    """The median time of solving them all once; None where the algorithm cannot."""
    try:
        return sum(_median_ms(plan(T), best) for T in triangles)
    except (UnsupportedAlgorithmError, SolveStalledError, MemoryError):
        return None


def _median_ms(plan: Plan, best: float) -> float:
    b = namespace(plan.T.data).ones(plan.T.n, plan.T.dtype)
    x = b.copy()
    clock = _cpu_ms if plan.device == "cpu" else cuda.elapsed_ms
    clock(lambda: plan.solve(x, b))  # compiles, and takes its scratch memory
    found = []
    for _ in range(ROUNDS):
        found.append(clock(lambda: plan.solve(x, b)))
        if found[0] > HOPELESS * best:
            break
    plan.check()
    return statistics.median(found)


def _cpu_ms(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3
