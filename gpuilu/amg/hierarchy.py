"""A pyamg hierarchy on one device: its cycles, solves and updates, without a trip to the host."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuilu.amg import accel as acceleration
from gpuilu.amg.cycles import COARSE, KINDS, Cycles
from gpuilu.amg.galerkin import renewed
from gpuilu.amg.levels import coarse_inverse, levels_of
from gpuilu.amg.operator import CyclePreconditioner
from gpuilu.backend import cuda, held_bytes, is_cupy, namespace
from gpuilu.errors import OptionError, ShapeMismatchError, UnsupportedDtypeError
from gpuilu.options import resolve_device
from gpuilu.products import Dense
from gpuilu.vectors import as_array

__all__ = ["Hierarchy", "to_gpu"]

DENSE_ROWS = 1024  # a level of at most so many rows becomes, with all below it, one dense matrix


def to_gpu(
    ml: Any,
    *,
    device: str | int = "cuda",
    coarse_solver: Any = None,
    dense_rows: int | None = None,
    algorithm: str = "auto",
) -> Hierarchy:
    """Move a pyamg hierarchy to a GPU: A, P, R, the smoothers and the coarse solve.

    Parameters
    ----------
    ml : pyamg.MultilevelSolver
        It stays as it is. Its smoothers may be pyamg's (the Gauss-Seidel, SOR, Jacobi and block
        methods, Chebyshev, Richardson) or those of `change_smoothers`.
    device : {"cuda", "cuda:N", "cpu"} or int
        "cpu" runs the same cycles with NumPy, for machines without a GPU.
    coarse_solver : str, tuple or callable, optional
        As in pyamg, instead of the solver of `ml`. It must be linear: it becomes a dense matrix.
    dense_rows : int, optional
        From the first level with at most so many rows the rest of a cycle, a linear map, is one
        dense matrix: one launch instead of many that only cost latency. By default 1024 on a GPU
        and 0, never, on the CPU.
    algorithm : str
        Triangular-solve algorithm of Gauss-Seidel smoothers.

    Returns
    -------
    Hierarchy

    Raises
    ------
    OptionError
        If a smoother or the coarse solver cannot be moved; the message says what to do.
    BackendUnavailableError
        If there is no such device.
    """
    name = resolve_device(device)
    if name == "auto":
        name = resolve_device("cuda") if cuda.available() else "cpu"
    if dense_rows is None:
        dense_rows = 0 if name == "cpu" else DENSE_ROWS
    with cuda.on(name):
        return Hierarchy(ml, name, coarse_solver, dense_rows, algorithm)


class Hierarchy:
    """A multigrid hierarchy with pyamg's `solve` and `aspreconditioner`; made by `to_gpu`.

    One cycle runs at a time: applies from several streams or threads wait for each other.

    Attributes
    ----------
    shape, dtype
        Of the matrix on the finest level.
    device : str
    levels : list of Level
    symmetric_smoothing : bool
        Whether the cycle may precondition CG.
    """

    def __init__(
        self, ml: Any, device: str, coarse_solver: Any, dense_rows: int, algorithm: str
    ) -> None:
        self.device = device
        self.levels = levels_of(ml, device, algorithm)
        self.shape = (self.levels[0].n,) * 2
        self.dtype = self.levels[0].matrix.data.dtype
        self.symmetric_smoothing = bool(ml.symmetric_smoothing)
        self._algorithm = algorithm
        self._coarse_solver = ml.coarse_solver if coarse_solver is None else coarse_solver
        self._lock = threading.RLock()
        self._order = None if device == "cpu" else cuda.StreamOrder()
        self._cycles = Cycles(self.levels, dense_rows)
        self._set_coarse(ml.levels[-1].A)
        if self._order is not None:
            cuda.synchronize()  # other streams may use it at once

    def __repr__(self) -> str:
        sizes = ", ".join(str(level.n) for level in self.levels)
        return f"<gpuilu hierarchy of {sizes} unknowns, {self.dtype}, on {self.device}>"

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices, smoothers and vectors."""
        return held_bytes(self.levels)

    # ---- solving ---------------------------------------------------------------------------------

    def solve(
        self,
        b: Any,
        x0: Any = None,
        tol: float = 1e-5,
        maxiter: int = 100,
        cycle: str = "V",
        accel: Any = None,
        callback: Callable[[Any], object] | None = None,
        residuals: list[float] | None = None,
        cycles_per_level: int = 1,
        return_info: bool = False,
    ) -> Any:
        """Solve A x = b by cycles, or by a Krylov method with a cycle as its preconditioner.

        Parameters
        ----------
        b : array_like or CuPy array, shape (n,) or (n, 1)
        x0 : array, optional
            Where to start; zero by default.
        tol : float
            Stop at ||b - A x|| < tol ||b||.
        maxiter : int
            Most iterations.
        cycle : {"V", "W", "F"}
        accel : str or callable, optional
            Name of a Krylov solver: on the CPU of pyamg.krylov or SciPy, on a GPU of cupyx ("cg",
            "gmres", "bicgstab", "cgs", "minres"). A callable has the interface of pyamg's or of
            SciPy's solvers, and gets matrix and vectors on this hierarchy's device.
        callback : callable, optional
            Called as callback(x) after each iteration.
        residuals : list, optional
            Takes the residual norms, the first one included.
        cycles_per_level : int
            V-cycles that follow on each level of an F-cycle.
        return_info : bool
            Return (x, info), info being 0, or the number of iterations without convergence.

        Returns
        -------
        x : array, shape (n,)
            A NumPy array for a NumPy b, a CuPy array for a CuPy one.

        Raises
        ------
        OptionError, ShapeMismatchError, UnsupportedDtypeError
            If an argument does not fit.
        """
        kind = _kind(cycle)
        right = as_array(b)
        here = cuda.place_of(right)
        with cuda.on(self.device):
            right = self._vector("b", right)
            start = None if x0 is None else self._vector("x0", as_array(x0))
            told = None if callback is None else _told_at(callback, here)
            if accel is None:
                stop = (tol, maxiter)
                x, info = self._iterate(
                    right, start, stop, (kind, cycles_per_level), told, residuals
                )
            else:
                self._warn_of(accel)
                M = self.aspreconditioner(kind)
                A = self.levels[0].A.to_matrix()
                x, info = acceleration.run(accel, A, right, start, M, tol, maxiter, told, residuals)
            x = cuda.placed(x, here)
        return (x, info) if return_info else x

    def aspreconditioner(self, cycle: str = "V") -> CyclePreconditioner:
        """One cycle from x = 0 as an operator M for SciPy's and cupyx's solvers.

        Parameters
        ----------
        cycle : {"V", "W", "F"}
        """
        return CyclePreconditioner(self, _kind(cycle))

    def apply(self, b: Any, kind: str = "V") -> Any:
        """A new array: one cycle from x = 0 for a right-hand side on this device."""
        with self._exclusively():
            v = self.levels[0].vectors
            v.b[...] = b
            self._cycle(kind, 1, from_zero=True)
            return v.x.copy()

    def check(self) -> None:
        """Wait for the cycles in flight and raise what went wrong in them."""
        with cuda.on(self.device):
            if self._order is not None:
                self._order.synchronize()
            self._raise_known_trouble()

    # ---- values ----------------------------------------------------------------------------------

    def update(self, A: Any) -> None:
        """Take a matrix of the same pattern: A P, R A P, ... again, P and R staying as they are.

        Parameters
        ----------
        A : sparse matrix, shape (n, n)
            SciPy or cupyx, with the pattern of the first one.

        Raises
        ------
        PatternMismatchError, ShapeMismatchError, UnsupportedDtypeError
            If A does not fit; nothing has changed.

        Notes
        -----
        Triangles, diagonals, block inverses, ILU factors, spectral radii and the coarse solve are
        all renewed. If a smoother or the coarse solver fails on the new values, the old ones are
        put back.
        """
        with cuda.on(self.device), self._exclusively():
            self._cycles.clear()
            with renewed(self.levels, A, self._algorithm):
                self._set_coarse(_host_matrix(self.levels[-1]))

    # ---- inside ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """One thread and, on a GPU, one stream at a time."""
        if self._order is not None:
            cuda.refuse_capture("a multigrid cycle")
        with self._lock, contextlib.nullcontext() if self._order is None else self._order.update():
            yield

    def _cycle(self, kind: str, per_level: int, *, from_zero: bool) -> None:
        self._raise_known_trouble()
        self._cycles(kind, per_level, from_zero=from_zero)

    def _iterate(
        self,
        b: Any,
        x0: Any,
        stop: tuple[float, int],
        cycle: tuple[str, int],
        callback: Callable[[Any], object] | None,
        residuals: list[float] | None,
    ) -> tuple[Any, int]:
        tol, maxiter = stop
        norm_b = _norm(b) or 1.0
        with self._exclusively():
            v, A = self.levels[0].vectors, self.levels[0].A
            v.b[...] = b
            v.x[...] = 0 if x0 is None else x0
            if residuals is not None:
                A.residual(v.r, v.x, v.b)
                residuals[:] = [_norm(v.r)]
            for k in range(1, maxiter + 1):
                self._cycle(*cycle, from_zero=x0 is None and k == 1)
                A.residual(v.r, v.x, v.b)
                norm_r = _norm(v.r)
                if residuals is not None:
                    residuals.append(norm_r)
                if callback is not None:
                    x = v.x.copy()
                    callback(x.copy())
                    v.b[...], v.x[...] = b, x  # it may have run a cycle itself
                if norm_r < tol * norm_b:
                    return v.x.copy(), 0
            self._raise_known_trouble()
            return v.x.copy(), maxiter

    def _vector(self, name: str, a: Any) -> Any:
        """An argument of `solve` as a vector on this device."""
        n = self.shape[0]
        if a.shape not in ((n,), (n, 1)):
            raise ShapeMismatchError(
                f"expected {name} of shape ({n},) or ({n}, 1), found {a.shape}"
            )
        if a.dtype.kind not in "biufc" or np.result_type(a.dtype, self.dtype) != self.dtype:
            raise UnsupportedDtypeError(
                f"{name} of dtype {a.dtype} does not fit a hierarchy of {self.dtype}; convert it"
            )
        flat = namespace(a).ascontiguousarray(a.reshape(-1), dtype=self.dtype)
        return cuda.placed(flat, self.device)

    def _warn_of(self, accel: Any) -> None:
        if accel == "cg" and not self.symmetric_smoothing:
            warnings.warn(
                "pre- and postsmoother are not adjoint to each other: the cycle is not symmetric, "
                "as cg needs it",
                stacklevel=3,
            )

    def _set_coarse(self, A: Any) -> None:
        """The coarse solve as a matrix."""
        K = coarse_inverse(_fresh(self._coarse_solver), A).astype(self.dtype)
        self.levels[-1].dense[COARSE] = Dense(cuda.placed(np.ascontiguousarray(K), self.device))

    def _raise_known_trouble(self) -> None:
        for level in self.levels:
            level.check()


def _fresh(given: Any) -> Any:
    """A coarse solver of pyamg's kind without factors: pyamg's keep those of their first matrix."""
    from pyamg import coarse_grid_solver

    return type(given)() if hasattr(given, "name") else coarse_grid_solver(given)


def _host_matrix(level: Any) -> Any:
    matrix = level.A.to_matrix()
    return matrix.get() if is_cupy(matrix) else matrix


def _kind(cycle: str) -> str:
    kind = str(cycle).upper()
    if kind not in KINDS:
        raise OptionError(
            f"cycle must be one of {KINDS}, found {cycle!r} (AMLI cycles are not linear; pyamg "
            "runs them on the CPU, also with smoothers of gpuilu)"
        )
    return kind


def _norm(a: Any) -> float:
    return float(namespace(a).linalg.norm(a))


def _told_at(callback: Callable[[Any], object], place: str) -> Callable[[Any], object]:
    return lambda x: callback(cuda.placed(x, place))
