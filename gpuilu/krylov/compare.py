"""A x = b by one Krylov solver under several M: set-up, iterations, time to solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuilu.csr import canonical, inexact_dtype
from gpuilu.errors import (
    MissingDiagonalError,
    OptionError,
    SolveStalledError,
    ZeroPivotError,
    require_choice,
)
from gpuilu.krylov.choice import PRECONDITIONERS, choose_solver, preconditioner, warm_up
from gpuilu.krylov.run import Outcome, facts, solve
from gpuilu.text import aligned

__all__ = ["Comparison", "compare"]

WITHOUT_SOLVES = ("none", "jacobi")  # no triangular solves, so no algorithm for them


@dataclass(frozen=True)
class Comparison:
    """Runs side by side; its text is a table.

    Attributes
    ----------
    solver, reason : str
        The Krylov solver of all runs, and why it was chosen.
    outcomes : dict
        `Outcome` by name: the preconditioner's, with "by" and the algorithm where several were
        asked for.
    failures : dict
        By name, what was wrong with a preconditioner that could not be made or used.
    """

    solver: str
    reason: str
    outcomes: dict[str, Outcome]
    failures: dict[str, str]

    @property
    def fastest(self) -> str | None:
        """The name with the shortest set-up and solution together; None if nothing converged."""
        total = {k: o.setup_ms + o.solve_ms for k, o in self.outcomes.items() if o.converged}
        return min(total, key=total.__getitem__) if total else None

    def __str__(self) -> str:
        devices = ", ".join(sorted({o.device for o in self.outcomes.values()}))
        head = ["iterations", "set-up [ms]", "solution [ms]", "together [ms]", "true residual", ""]
        rows = [[f"{self.solver} on {devices}", *head]]
        rows += [[name, *self._cells(name, o)] for name, o in self.outcomes.items()]
        lines = [aligned(rows)]
        lines += [f"{name}: {reason}" for name, reason in self.failures.items()]
        return "\n".join(line.rstrip() for line in lines)

    def _cells(self, name: str, o: Outcome) -> list[str]:
        mark = "fastest" if name == self.fastest else "" if o.converged else "not converged"
        times = (o.setup_ms, o.solve_ms, o.setup_ms + o.solve_ms)
        return [str(o.iterations), *(f"{t:.2f}" for t in times), f"{o.true_residual:.1e}", mark]


def compare(
    A: Any,
    b: Any = None,
    *,
    preconditioners: Sequence[str] = ("none", "jacobi", "gauss_seidel", "ilu0"),
    algorithms: Sequence[str] = ("auto",),
    solver: str | None = None,
    rtol: float = 1e-6,
    maxiter: int | None = None,
    restart: int = 50,
    device: str | int = "auto",
    omega: float = 1.0,
) -> Comparison:
    """Solve A x = b under several preconditioners and triangular-solve algorithms.

    Parameters
    ----------
    A : sparse matrix or array of SciPy or cupyx, shape (n, n)
    b : array_like or cupy array, shape (n,), optional
        By default normal numbers, seed 0.
    preconditioners : sequence of str
        Names in `gpuilu.krylov.PRECONDITIONERS`.
    algorithms : sequence of str
        Triangular-solve algorithms; each preconditioner that solves is run with each of them. An
        algorithm whose last bits vary is allowed.
    solver : {"cg", "gmres", "bicgstab"}, optional
        One for all; by default cg if A is Hermitian with a positive diagonal, else gmres.
    rtol, maxiter, restart, device
        As for `gpuilu.krylov.solve`.
    omega : float
        Relaxation of sor and ssor.

    Returns
    -------
    Comparison
        ``print`` it.

    Raises
    ------
    OptionError, InvalidMatrixError, ShapeMismatchError
        If a name, A or b does not fit. What fails for one preconditioner alone, such as a zero
        pivot, is in `Comparison.failures`.

    Notes
    -----
    Each preconditioner is made and applied once before it is timed, so that no time includes
    compilation.

    Examples
    --------
    >>> import scipy.sparse as sp, gpuilu
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr()
    >>> found = gpuilu.compare(A, preconditioners=["none", "ilu0"])
    >>> {name: o.iterations for name, o in found.outcomes.items()}
    {'none': 50, 'ilu0': 1}
    """
    for name in preconditioners:
        require_choice("preconditioner", name, tuple(PRECONDITIONERS))
    if not preconditioners or not algorithms:
        raise OptionError("expected at least one preconditioner and one algorithm")
    if b is None:
        dtype = inexact_dtype(A.dtype)
        b = np.random.default_rng(0).standard_normal(canonical(A).n).astype(dtype)
    chosen, reason = (solver, "asked for") if solver else choose_solver(A)
    keywords: Any = {"solver": chosen, "rtol": rtol, "maxiter": maxiter, "restart": restart}
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for name, kind, options in _candidates(preconditioners, algorithms, device, omega):
        try:
            M = _made(kind, A, options, chosen)
            found = solve(A, b, M=M, device=device if M is None else "auto", **keywords)[1]
            outcomes[name] = replace(found, preconditioner=name)
        except (ZeroPivotError, MissingDiagonalError, SolveStalledError, _UnfitError) as error:
            failures[name] = str(error)
    return Comparison(chosen, reason, outcomes, failures)


class _UnfitError(Exception):
    """A preconditioner that the solver cannot take."""


def _candidates(
    kinds: Sequence[str], algorithms: Sequence[str], device: str | int, omega: float
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(name, kind of M, keywords) of all runs."""
    for kind in kinds:
        options: dict[str, Any] = {"device": device}
        if kind in WITHOUT_SOLVES:
            yield kind, kind, options
            continue
        options |= {"deterministic": False} | ({"omega": omega} if kind in ("sor", "ssor") else {})
        for algorithm in algorithms:
            name = kind if len(algorithms) == 1 else f"{kind} by {algorithm}"
            yield name, kind, {**options, "algorithm": algorithm}


def _made(kind: str, A: Any, options: dict[str, Any], solver: str) -> Any:
    """M, after one that took the compilation."""

    def make(A: Any) -> Any:
        return preconditioner(kind, A, **options)

    warm_up(make, A)
    M = make(A)
    if solver == "cg" and not getattr(facts(M), "is_symmetric", True):
        raise _UnfitError("it is not Hermitian, as cg needs it; choose solver gmres")
    return M
