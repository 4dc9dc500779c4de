"""A x = b by pyamg on the CPU and by the same hierarchy moved to a device: times, iterations.

CG with an incomplete factorisation on the same device stands beside them.
"""

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
from gpuilu.krylov import preconditioner, solve, warm_up
from gpuilu.text import aligned

__all__ = ["Side", "compare", "plot", "scalar_as_csr", "table", "without_multigrid", "write_record"]

SLOW_MS, VERY_SLOW_MS = 1e3, 1e4  # of pyamg's solves: timed twice at most, and once


@dataclass(frozen=True)
class Side:
    """What one of them took.

    Attributes
    ----------
    algorithm : str
        "pyamg_cpu" or "amg_gpu" ("amg_cpu" for a hierarchy moved to the CPU), or the name of a
        preconditioner without multigrid.
    smoother : str
        Empty without multigrid.
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
    built_ms: float = 0.0,
    **moving: Any,
) -> tuple[Side, Side]:
    """Solve by CG with a cycle as M, in pyamg and on a device.

    Parameters
    ----------
    make : callable
        Makes the pyamg hierarchy, smoothers included, or puts the smoothers into one.
    b : ndarray, shape (n,)
    name : str
        What to call the smoother.
    device : str or int
        As for `to_gpu`; "auto" is a GPU if there is one.
    tol, cycle
        As for `Hierarchy.solve`.
    repeats : int
        Timed solves of each; of pyamg's two if one takes a second, one if it takes ten.
    built_ms : float
        What was spent on the hierarchy before `make`; it belongs to the set-up.
    **moving
        Other keywords of `to_gpu`.
    """
    setup_ms, ml = _timed(make)
    ml.aspreconditioner(cycle).matvec(b)  # pyamg makes its coarse solver at the first cycle
    move_ms, moved = _timed(lambda: _moved(ml, b, device, cycle, moving))
    right = cuda.placed(b, moved.device)
    blank = Side("pyamg_cpu", name, 0, built_ms + setup_ms, 0.0, (), (), 0.0, _bytes_of(ml))
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

    def solve(**more: Any) -> Any:
        x = solver.solve(b, **more, **options)
        if cuda.place_of(b) != "cpu":
            cuda.synchronize()
        return x

    first_ms, x = _timed(lambda: solve(residuals=residuals))
    times = [first_ms] if solver is ml and first_ms > SLOW_MS else []
    if times:
        repeats = 1 if first_ms > VERY_SLOW_MS else 2
    times += [_timed(solve)[0] for _ in range(repeats - len(times))]
    return replace(
        blank,
        iterations=len(residuals) - 1,
        solve_ms=tuple(times),
        residuals=tuple(float(r / residuals[0]) for r in residuals),
        backward_error=_backward_error(ml.levels[0].A, x, b),
    )


def _backward_error(A: Any, x: Any, b: Any) -> float:
    x, b = cuda.placed(x, "cpu"), cuda.placed(b, "cpu")
    norm_A = abs(A).sum(axis=1).max()
    return float(abs(b - A @ x).max() / (norm_A * abs(x).max() + abs(b).max()))


def without_multigrid(
    A: Any,
    b: np.ndarray,
    *,
    name: str = "ilu0",
    device: str | int = "auto",
    tol: float = 1e-8,
    repeats: int = 3,
) -> Side:
    """Solve by CG with another preconditioner of this package: same system, device and tolerance.

    Parameters
    ----------
    A : SciPy sparse matrix, shape (n, n)
    b : ndarray, shape (n,)
    name : str
        In `gpuilu.krylov.PRECONDITIONERS`.
    device : str or int
        "auto" is a GPU if there is one.
    tol, repeats
        As for `compare`.
    """
    if device == "auto":
        device = "cuda" if cuda.available() else "cpu"

    def make(A: Any) -> Any:
        return preconditioner(name, A, device=device)

    warm_up(make, A)
    setup_ms, M = _timed(lambda: make(A))
    runs = [solve(A, b, M=M, rtol=tol) for _ in range(1 + repeats)]  # the first is not timed
    x, outcome = runs[0]
    return Side(
        algorithm=name,
        smoother="",
        iterations=outcome.iterations,
        setup_ms=setup_ms,
        move_ms=0.0,
        solve_ms=tuple(run.solve_ms for _, run in runs[1:]),
        residuals=(1.0, *outcome.residuals),
        backward_error=_backward_error(A, x, b),
        nbytes=M.nbytes,
    )


def scalar_as_csr(ml: Any) -> Any:
    """Turn the matrices of a hierarchy that are BSR with blocks of one into CSR.

    Smoothed aggregation makes such matrices even for a scalar problem, and pyamg's sweeps over them
    are several times slower than over CSR, with the same result. Before smoothers are put in.
    """
    for level in ml.levels:
        for letter in "APR":
            M = getattr(level, letter, None)
            if M is not None and M.format == "bsr" and M.blocksize == (1, 1):
                setattr(level, letter, M.tocsr())
    return ml


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return (time.perf_counter() - start) * 1e3, result


def _bytes_of(ml: Any) -> int:
    matrices = [getattr(level, M) for level in ml.levels for M in "APR" if hasattr(level, M)]
    return sum(M.data.nbytes + M.indices.nbytes + M.indptr.nbytes for M in matrices)


# ---- what to show -------------------------------------------------------------------------------


def table(pairs: Iterable[tuple[Side, Side]], others: Iterable[Side] = ()) -> str:
    """Iterations and times of each smoother, pyamg above the moved hierarchy; others last."""
    head = ("smoother", "algorithm", "iterations", "set-up ms", "move ms", "solve ms", "faster")
    rows: list[tuple[str, ...]] = [head]
    for theirs, ours in pairs:
        faster = f"{theirs.median_ms / ours.median_ms:.1f} x"
        rows += [_cells(theirs, ""), _cells(ours, faster)]
    rows += [_cells(side, "") for side in others]
    return aligned(rows, left=len(head))


def _cells(side: Side, faster: str) -> tuple[str, ...]:
    times = (f"{ms:.1f}" for ms in (side.setup_ms, side.move_ms, side.median_ms))
    return (side.smoother, side.algorithm, str(side.iterations), *times, faster)


def plot(pairs: Iterable[tuple[Side, Side]], path: str | Path, others: Iterable[Side] = ()) -> None:
    """Save the residuals by iteration, pyamg's as lines and the moved hierarchy's as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    for k, (theirs, ours) in enumerate(pairs):
        colour = f"C{k}"
        axes.semilogy(theirs.residuals, color=colour, label=f"{theirs.smoother}, pyamg")
        label = f"{ours.smoother}, {ours.algorithm}"
        axes.semilogy(ours.residuals, ".", color=colour, label=label)
    for side in others:
        axes.semilogy(side.residuals, color="gray", label=side.algorithm)
    axes.set(xlabel="iteration", ylabel="||b - A x|| / ||b||")
    axes.legend()
    figure.savefig(path)


def write_record(
    path: str | Path,
    case: str,
    ml: Any,
    pairs: Iterable[tuple[Side, Side]],
    others: Iterable[Side] = (),
) -> None:
    """Write the measurements as a JSON record: one row for each side and phase.

    Parameters
    ----------
    path : str or Path
    case : str
        The smoother's name is put behind it.
    ml : pyamg.MultilevelSolver
        One of the hierarchies, for n and nnz.
    pairs : iterable of (Side, Side)
    others : iterable of Side
        Without multigrid.
    """
    A = ml.levels[0].A
    facts = {"n": A.shape[0], "nnz": int(A.nnz), "n_levels": len(ml.levels)}
    facts |= {"dtype": A.dtype.name, "nrhs": 1, "op": "apply", "trans": "N"}
    sides = [side for pair in pairs for side in pair]
    on_gpu = any(side.algorithm == "amg_gpu" for side in sides)
    rows = [row for side in [*sides, *others] for row in _rows(case, facts, side)]
    header = environment(cuda.checked_device(None) if on_gpu else "cpu")
    Record(path, header, rows).save()


def _rows(case: str, facts: dict[str, Any], side: Side) -> Iterable[dict[str, Any]]:
    before = side.setup_ms + side.move_ms
    own = {k: v for k, v in asdict(side).items() if k not in ("residuals", "solve_ms")}
    own["case"] = f"{case} {side.smoother}".strip()
    for phase, added in (("solve", 0.0), ("time_to_solution", before)):
        q1, q2, q3 = (float(q) + added for q in np.percentile(side.solve_ms, (25, 50, 75)))
        yield facts | own | {"phase": phase, "ms": q2, "q1_ms": q1, "q3_ms": q3}
