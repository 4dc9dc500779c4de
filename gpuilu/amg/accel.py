"""A x = b by a Krylov solver of the host, with a cycle as M: pyamg's `accel`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import scipy.sparse.linalg

from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.errors import OptionError

__all__ = ["run"]


def run(
    accel: Any,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    tol: float,
    maxiter: int,
    callback: Callable[[Any], object] | None,
    residuals: list[float] | None,
) -> tuple[Any, int]:
    """(x, info) of one run; A, b and x0 are on one device."""
    solver = found(accel, on_gpu(b)) if isinstance(accel, str) else accel
    known = inspect.signature(solver).parameters
    if "residuals" in known:  # pyamg's interface
        options = {"tol": tol, "callback": callback, "residuals": residuals}
    else:
        options = {"rtol" if "rtol" in known else "tol": tol}
        options |= {"atol": 0.0} if "atol" in known else {}
        options["callback"] = _watching(A, b, x0, callback, residuals)
    x, info = solver(A, b, x0=x0, maxiter=maxiter, M=M, **options)
    return x.reshape(-1), int(info)


def found(name: str, on_device: bool) -> Any:
    """The solver of that name: pyamg's or SciPy's on the host, cupyx's on a GPU."""
    if on_device:
        hosts = [cuda.krylov_solvers()]
    else:
        import pyamg.krylov

        hosts = [pyamg.krylov, scipy.sparse.linalg]
    for host in hosts:
        if hasattr(host, name):
            return getattr(host, name)
    raise OptionError(f"{' and '.join(host.__name__ for host in hosts)} have no solver {name!r}")


def _watching(
    A: Any,
    b: Any,
    x0: Any,
    callback: Callable[[Any], object] | None,
    residuals: list[float] | None,
) -> Callable[[Any], object] | None:
    """A callback that also notes ||b - A x||; solvers of SciPy's kind do not keep it."""
    if residuals is None:
        return callback
    norm = namespace(b).linalg.norm
    residuals[:] = [float(norm(b if x0 is None else b - A @ x0))]

    def watch(x: Any) -> None:
        # gmres calls with a residual norm instead of an iterate
        residuals.append(float(x) if getattr(x, "ndim", 0) == 0 else float(norm(b - A @ x)))
        if callback is not None:
            callback(x)

    return watch
