"""A x = b from x = 0 until ||b - A x|| <= rtol ||b||: one observed run of a host's solver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from gpuilu.backend import cuda, is_cupy, namespace, on_gpu
from gpuilu.csr import canonical, inexact_dtype
from gpuilu.errors import OptionError, ShapeMismatchError, require_choice
from gpuilu.options import settled_device
from gpuilu.vectors import as_array

__all__ = ["SOLVERS", "Outcome", "facts", "solve"]

# The residual that a solver carries along drifts from the true one by rounding.
DRIFT = 1.1
# An iteration of gmres costs many of the others, and what stagnates seldom recovers.
MOST_ITERATIONS = {"cg": 10_000, "gmres": 2_000, "bicgstab": 10_000}


@dataclass(frozen=True)
class Outcome:
    """What one run of a Krylov solver took.

    Attributes
    ----------
    solver, preconditioner, device : str
        Names, and where the solver ran.
    converged : bool
        Whether ||b - A x|| <= rtol ||b||, up to 10 % for rounding.
    iterations : int
        Iterations begun: inner ones of gmres; a last half one of bicgstab counts.
    residuals : tuple of float
        ||b - A x|| / ||b|| after each iteration; for gmres as it carries it along.
    true_residual : float
        ||b - A x|| / ||b|| of the returned x, computed afresh; 0 for b = 0.
    n_applies : int
        Applies of M.
    setup_ms, solve_ms : float
        Wall time in milliseconds of making M, and from there to the solution.
    apply_ms : float or None
        Mean wall time of an apply in milliseconds; None if there was none.
    """

    solver: str
    preconditioner: str
    device: str
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    true_residual: float
    n_applies: int
    setup_ms: float
    solve_ms: float
    apply_ms: float | None


def solve(
    A: Any,
    b: Any,
    *,
    solver: str = "cg",
    M: Any = None,
    rtol: float = 1e-6,
    maxiter: int | None = None,
    restart: int = 50,
    device: str | int = "auto",
) -> tuple[Any, Outcome]:
    """Solve A x = b from x = 0 until ||b - A x|| <= rtol ||b||.

    Parameters
    ----------
    A : sparse matrix or array of SciPy or cupyx, shape (n, n)
    b : array_like or cupy array, shape (n,) or (n, 1)
    solver : {"cg", "gmres", "bicgstab"}
        The function of that name in `scipy.sparse.linalg`, or on a GPU in cupyx.
    M : LinearOperator, optional
        The preconditioner, an approximation of A^-1.
    rtol : float
        The only stopping tolerance, on the residual without M; there is no absolute one.
    maxiter : int, optional
        Most iterations; by default 10 n + 1, at most 10000 (gmres: 2000). gmres rounds it up to
        whole restart cycles.
    restart : int
        Iterations of gmres between restarts.
    device : {"auto", "cpu", "cuda", "cuda:N"} or int
        Where to solve. "auto": where M is; without M, by the rule of `gpuilu.ilu0`.

    Returns
    -------
    x : array, shape (n,)
        A NumPy array for a NumPy b, a CuPy array for a CuPy one.
    outcome : Outcome

    Raises
    ------
    InvalidMatrixError, ShapeMismatchError, UnsupportedDtypeError, DeviceMismatchError, OptionError
        If A, b, M or a keyword does not fit. A run that does not converge is no error.

    Notes
    -----
    SciPy's left-preconditioned gmres watches ||M (b - A x)||, which says little about x. Here gmres
    gets A M u = b and x = M u (preconditioned on the right), so that every solver stops on the same
    residual, and iterations with and without M may be compared. A run ends early at a residual that
    is not finite. Recording the residuals of cg and bicgstab costs a product with A each; that time
    is not in `solve_ms`. cupyx's gmres looks at the residual only where it restarts: there it is
    recorded, and there it stops.

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithms 9.1 (cg),
    7.7 (bicgstab) and 9.5 (gmres).
    """
    require_choice("solver", solver, tuple(SOLVERS))
    was_on_gpu = is_cupy(b)
    A, b = _checked_system(A, b, M, device)
    if maxiter is None:
        maxiter = min(10 * len(b) + 1, MOST_ITERATIONS[solver])
    if not (rtol > 0 and maxiter >= 1 and restart >= 1):
        found = f"found {rtol}, {maxiter} and {restart}"
        raise OptionError(f"expected rtol > 0, maxiter >= 1 and restart >= 1, {found}")
    with cuda.on(cuda.place_of(b)):
        run = _Run(A, b, M)
        if run.norm_b > 0 or np.isnan(run.norm_b):
            run.to_the_end(solver, rtol, maxiter, restart)
        x = run.x if was_on_gpu else cuda.placed(run.x, "cpu")
        return x, run.outcome(solver, rtol)


class _Timed:
    """x -> K x, counted and timed: what host solvers need of an operator."""

    def __init__(self, multiply: Callable[[Any], Any], dtype: np.dtype, n: int) -> None:
        self.dtype, self.shape = dtype, (n, n)
        self.multiply = multiply
        self.calls = 0
        self.elapsed_ms = 0.0

    def matvec(self, x: Any) -> Any:
        start = time.perf_counter()
        y = self.multiply(x)
        self.elapsed_ms += (time.perf_counter() - start) * 1e3
        self.calls += 1
        return y


class _NotFiniteError(Exception):
    """A residual is NaN or infinite: to go on would only take time."""


class _Run:
    """One run under observation: products, applies, residuals, and the time that observing took."""

    def __init__(self, A: Any, b: Any, M: Any) -> None:
        self.facts = facts(M)
        self.device = cuda.place_of(b)
        self.host = cuda.krylov_solvers() if on_gpu(b) else scipy.sparse.linalg
        self.A_raw, self.b, self.norm_b = A, b, float(np.linalg.norm(b))
        self.A = _Timed(A.__matmul__, A.dtype, len(b))
        self.M = None if M is None else _Timed(M.matvec, M.dtype, len(b))
        self.x = namespace(b).zeros(len(b), np.result_type(A.dtype, b.dtype))
        self.residuals: list[float] = []
        self.iterations: int | None = None  # where it is not the number of residuals
        self.solve_ms = self.observing_ms = 0.0

    def to_the_end(self, solver: str, rtol: float, maxiter: int, restart: int) -> None:
        start = time.perf_counter()
        with np.errstate(all="ignore"), contextlib.suppress(_NotFiniteError):
            self.x = SOLVERS[solver](self, rtol, maxiter, restart)
        self.wait()
        self.solve_ms = (time.perf_counter() - start) * 1e3 - self.observing_ms

    def wait(self) -> None:
        """Finish what is enqueued on a GPU, so that a clock may be read."""
        if on_gpu(self.b):
            cuda.synchronize()

    def note(self, residual: float) -> None:
        self.residuals.append(float(residual))
        if not np.isfinite(residual):
            raise _NotFiniteError

    def note_iterate(self, x: Any) -> None:
        self.wait()
        start = time.perf_counter()
        self.x = x
        residual = self.true_residual()
        self.observing_ms += (time.perf_counter() - start) * 1e3
        self.note(residual)

    def true_residual(self) -> float:
        """||b - A x|| / ||b||."""
        if self.norm_b == 0:
            return 0.0
        return float(np.linalg.norm(self.b - self.A_raw @ self.x)) / self.norm_b

    def outcome(self, solver: str, rtol: float) -> Outcome:
        true_residual = self.true_residual()
        n_applies = self.M.calls if self.M else 0
        return Outcome(
            solver=solver,
            preconditioner=_name(self.facts),
            device=self.device,
            converged=true_residual <= DRIFT * rtol,
            iterations=len(self.residuals) if self.iterations is None else self.iterations,
            residuals=tuple(self.residuals),
            true_residual=true_residual,
            n_applies=n_applies,
            setup_ms=float(getattr(self.facts, "setup_ms", 0.0)),
            solve_ms=self.solve_ms,
            apply_ms=self._apply_ms(),
        )

    def _apply_ms(self) -> float | None:
        """Mean time of an apply; on a GPU of ten more, since those of the run overlapped."""
        M = self.M
        if M is None or not M.calls:
            return None
        if not on_gpu(self.b):
            return M.elapsed_ms / M.calls
        self.wait()
        start = time.perf_counter()
        for _ in range(10):
            M.multiply(self.b)
        self.wait()
        return (time.perf_counter() - start) * 1e3 / 10


def _cg(run: _Run, rtol: float, maxiter: int, restart: int) -> Any:
    return run.host.cg(
        run.A, run.b, M=run.M, rtol=rtol, atol=0.0, maxiter=maxiter, callback=run.note_iterate
    )[0]


def _bicgstab(run: _Run, rtol: float, maxiter: int, restart: int) -> Any:
    x = run.host.bicgstab(
        run.A, run.b, M=run.M, rtol=rtol, atol=0.0, maxiter=maxiter, callback=run.note_iterate
    )[0]
    if run.A.calls % 2:  # an iteration is two products; SciPy may leave after one, without a call
        run.note_iterate(x)
    return x


def _gmres(run: _Run, rtol: float, maxiter: int, restart: int) -> Any:
    """A M u = b, x = M u: on the right, the residual that is minimised is the true one."""
    A, M = run.A, run.M
    both = A if M is None else _Timed(lambda u: A.matvec(M.matvec(u)), A.dtype, len(run.b))
    restart = min(restart, maxiter)
    cycles = -(-maxiter // restart)
    u = run.host.gmres(
        both,
        run.b,
        rtol=rtol,
        atol=0.0,
        restart=restart,
        maxiter=cycles * restart if on_gpu(run.b) else cycles,  # cupyx counts inner iterations
        callback=run.note,
        callback_type="pr_norm",
    )[0]
    if on_gpu(run.b):  # each cycle, and the first look, take a product for the residual
        run.iterations = A.calls - len(run.residuals) - 1
    return u if M is None else M.matvec(u)


SOLVERS: dict[str, Callable[[_Run, float, int, int], Any]] = {
    "cg": _cg,
    "gmres": _gmres,
    "bicgstab": _bicgstab,
}


def facts(M: Any) -> Any:
    """What tells kind, device and cost of M: its `info`, or M itself; None for no M."""
    return getattr(M, "info", M)


def _name(facts: Any) -> str:
    return "none" if facts is None else getattr(facts, "kind", type(facts).__name__)


def _checked_system(A: Any, b: Any, M: Any, device: str | int) -> tuple[Any, Any]:
    """A and b where the run is to be, as the host library's matrix and vector."""
    C = canonical(A)
    n, b = C.n, as_array(b)
    if b.shape not in ((n,), (n, 1)):
        raise ShapeMismatchError(f"expected b of shape ({n},) or ({n}, 1), found {b.shape}")
    if M is not None and M.shape != (n, n):
        raise ShapeMismatchError(f"expected M of shape ({n}, {n}), found {M.shape}")
    if device == "auto" and M is not None:
        device = getattr(facts(M), "device", "cpu")
    name, _ = settled_device(device, C)
    C = C.to(name)
    make = cuda.csr_matrix if on_gpu(C.data) else sp.csr_array
    b = cuda.placed(b.ravel().astype(inexact_dtype(b.dtype), copy=False), name)
    return make((C.data, C.indices, C.indptr), shape=(n, n)), b
