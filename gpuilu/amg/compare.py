"""A x = b by pyamg on the CPU and by the same hierarchy moved to a device: times, iterations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuilu.amg.hierarchy import to_gpu
from gpuilu.backend import cuda
from gpuilu.bench.record import Record, environment
from gpuilu.text import aligned

__all__ = ["Side", "compare", "plot", "table", "write_record"]


@dataclass(frozen=True)
class Side:
    """What one of the two took.

    Attributes
    ----------
    algorithm : str
        "pyamg_cpu" or "amg_gpu" ("amg_cpu" for a hierarchy moved to the CPU).
    smoother : str
    iterations : int
        Of CG.
    setup_ms, move_ms : float
        Making the hierarchy, which is pyamg's work for both, and moving it (with the first cycle,
        which compiles and records).
    solve_ms : tuple of float
        Each of the repeated solves.
    residuals : tuple of float
        ||b - A x|| / ||b|| at each iteration.
    backward_error : float
        ||b - A x|| / (||A|| ||x|| + ||b||), in the maximum norm.
    nbytes : int
    """

    algorithm: str
    smoother: str
    iterations: int
    setup_ms: float
    move_ms: float
    solve_ms: tuple[float, ...]
    residuals: tuple[float, ...]
    backward_error: float
    nbytes: int

    @property
    def median_ms(self) -> float:
        """Median of the solves."""
        return float(np.median(self.solve_ms))


def compare(
    make: Callable[[], Any],
    b: np.ndarray,
    *,
    name: str,
    device: str | int = "auto",
    tol: float = 1e-8,
    cycle: str = "V",
    repeats: int = 3,
    **moving: Any,
) -> tuple[Side, Side]:
    """Solve by CG with a cycle as M, in pyamg and on a device.

    Parameters
    ----------
    make : callable
        Makes the pyamg hierarchy, smoothers included.
    b : ndarray, shape (n,)
    name : str
        What to call the smoother.
    device : str or int
        As for `to_gpu`; "auto" is a GPU if there is one.
    tol, cycle
        As for `Hierarchy.solve`.
    repeats : int
        Timed solves of each.
    **moving
        Other keywords of `to_gpu`.
    """
    setup_ms, ml = _timed(make)
    move_ms, moved = _timed(lambda: _moved(ml, b, device, cycle, moving))
    right = cuda.placed(b, moved.device)
    blank = Side("pyamg_cpu", name, 0, setup_ms, 0.0, (), (), 0.0, _bytes_of(ml))
    theirs = _solved(blank, ml, ml, b, tol, cycle, repeats)
    kind = "amg_cpu" if moved.device == "cpu" else "amg_gpu"
    blank = replace(blank, algorithm=kind, move_ms=move_ms, nbytes=moved.nbytes)
    with cuda.on(moved.device):
        ours = _solved(blank, moved, ml, right, tol, cycle, repeats)
    return theirs, ours


def _moved(ml: Any, b: np.ndarray, device: str | int, cycle: str, moving: dict[str, Any]) -> Any:
    moved = to_gpu(ml, device=device, **moving)
    moved.aspreconditioner(cycle).matvec(b)
    moved.check()
    return moved


def _solved(
    blank: Side, solver: Any, ml: Any, b: Any, tol: float, cycle: str, repeats: int
) -> Side:
    options = {"tol": tol, "cycle": cycle, "accel": "cg", "maxiter": 1000}
    residuals: list[float] = []
    x = cuda.placed(solver.solve(b, residuals=residuals, **options), "cpu")

    def solve() -> None:
        solver.solve(b, **options)
        if cuda.place_of(b) != "cpu":
            cuda.synchronize()

    A, right = ml.levels[0].A, cuda.placed(b, "cpu")
    norm_A = abs(A).sum(axis=1).max()
    error = abs(right - A @ x).max() / (norm_A * abs(x).max() + abs(right).max())
    return replace(
        blank,
        iterations=len(residuals) - 1,
        solve_ms=tuple(_timed(solve)[0] for _ in range(repeats)),
        residuals=tuple(float(r / residuals[0]) for r in residuals),
        backward_error=float(error),
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return (time.perf_counter() - start) * 1e3, result


def _bytes_of(ml: Any) -> int:
    matrices = [getattr(level, M) for level in ml.levels for M in "APR" if hasattr(level, M)]
    return sum(M.data.nbytes + M.indices.nbytes + M.indptr.nbytes for M in matrices)


# ---- what to show -------------------------------------------------------------------------------


def table(pairs: Iterable[tuple[Side, Side]]) -> str:
    """Iterations and times of each smoother, pyamg above, the moved hierarchy below."""
    head = ("smoother", "algorithm", "iterations", "set-up ms", "move ms", "solve ms", "faster")
    rows: list[tuple[str, ...]] = [head]
    for theirs, ours in pairs:
        for side in (theirs, ours):
            times = (f"{ms:.1f}" for ms in (side.setup_ms, side.move_ms, side.median_ms))
            faster = "" if side is theirs else f"{theirs.median_ms / ours.median_ms:.1f} x"
            rows.append((side.smoother, side.algorithm, str(side.iterations), *times, faster))
    return aligned(rows, left=len(head))


def plot(pairs: Iterable[tuple[Side, Side]], path: str | Path) -> None:
    """Save the residuals by iteration, pyamg's as lines and the moved hierarchy's as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    for k, (theirs, ours) in enumerate(pairs):
        colour = f"C{k}"
        axes.semilogy(theirs.residuals, color=colour, label=f"{theirs.smoother}, pyamg")
        label = f"{ours.smoother}, {ours.algorithm}"
        axes.semilogy(ours.residuals, ".", color=colour, label=label)
    axes.set(xlabel="iteration", ylabel="||b - A x|| / ||b||")
    axes.legend()
    figure.savefig(path)


def write_record(path: str | Path, case: str, ml: Any, pairs: Iterable[tuple[Side, Side]]) -> None:
    """Write the measurements as a JSON record: one row for each side and phase.

    Parameters
    ----------
    path : str or Path
    case : str
        The smoother's name is put behind it.
    ml : pyamg.MultilevelSolver
        One of the hierarchies, for n and nnz.
    pairs : iterable of (Side, Side)
    """
    A = ml.levels[0].A
    facts = {"n": A.shape[0], "nnz": int(A.nnz), "n_levels": len(ml.levels)}
    facts |= {"dtype": A.dtype.name, "nrhs": 1, "op": "apply", "trans": "N"}
    rows = [row for pair in pairs for side in pair for row in _rows(case, facts, side)]
    on_gpu = any(row["algorithm"] == "amg_gpu" for row in rows)
    header = environment(cuda.checked_device(None) if on_gpu else "cpu")
    Record(path, header, rows).save()


def _rows(case: str, facts: dict[str, Any], side: Side) -> Iterable[dict[str, Any]]:
    before = side.setup_ms + side.move_ms
    own = {k: v for k, v in asdict(side).items() if k not in ("residuals", "solve_ms")}
    own["case"] = f"{case} {side.smoother}"
    for phase, added in (("solve", 0.0), ("time_to_solution", before)):
        q1, q2, q3 = (float(q) + added for q in np.percentile(side.solve_ms, (25, 50, 75)))
        yield facts | own | {"phase": phase, "ms": q2, "q1_ms": q1, "q3_ms": q3}
