"""M by name, and which Krylov solver fits A and M."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from gpuilu.backend import cuda, is_cupy
from gpuilu.csr import CSR, canonical, inexact_dtype
from gpuilu.errors import OptionError, ZeroPivotError, require_choice
from gpuilu.factories import gauss_seidel, ilu0, sor, ssor
from gpuilu.krylov.run import facts
from gpuilu.options import settled_device

__all__ = [
    "PRECONDITIONERS",
    "Jacobi",
    "choose_solver",
    "is_hermitian",
    "preconditioner",
    "warm_up",
]


class Jacobi(LinearOperator):
    """x = D^-1 b, with D the diagonal of A: the yardstick that costs next to nothing.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
    device : {"auto", "cpu", "cuda", "cuda:N"} or int
        Where the diagonal is kept, by the rule of `gpuilu.ilu0`.

    Raises
    ------
    ZeroPivotError
        If a diagonal entry is zero or not stored.
    """

    kind = "jacobi"

    def __init__(self, A: Any, *, device: str | int = "auto") -> None:
        start = time.perf_counter()
        C = canonical(A)
        self.device, _ = settled_device(device, C)
        with cuda.on(self.device):
            self._inverse = 1 / _checked_diagonal(C.to(self.device))
            self.is_symmetric = not bool(self._inverse.imag.any())
        super().__init__(C.data.dtype, A.shape)
        self.setup_ms = (time.perf_counter() - start) * 1e3

    def matvec(self, x: Any) -> Any:
        """D^-1 x in a new array; a CuPy array where the diagonal is on a GPU."""
        return self._matvec(x) if is_cupy(x) else super().matvec(x)

    def _matvec(self, x: Any) -> Any:
        return self._inverse * x.ravel()

    def _rmatvec(self, x: Any) -> Any:
        return self._inverse.conj() * x.ravel()


def _checked_diagonal(A: CSR) -> Any:
    diagonal = A.data[A.diagonal] if A.nnz else A.data
    zero = (A.diagonal < 0) | (diagonal == 0) if A.nnz else A.diagonal < 0
    if zero.any():
        row = int(zero.argmax())
        raise ZeroPivotError(
            f"row {row} has a zero or no diagonal entry ({int(zero.sum())} of {A.n} rows), and "
            "Jacobi divides by it; permute the matrix or precondition otherwise",
            row,
            0.0,
        )
    return diagonal


def _none(A: Any, *, device: str | int = "auto") -> None:
    settled_device(device, canonical(A))


PRECONDITIONERS: dict[str, Callable[..., Any]] = {
    "none": _none,
    "jacobi": Jacobi,
    "ilu0": ilu0,
    "gauss_seidel": gauss_seidel,
    "sor": sor,
    "ssor": ssor,
}


def preconditioner(name: str, A: Any, **keywords: Any) -> Any:
    """M for A by its name in `PRECONDITIONERS`; None for "none".

    Raises
    ------
    OptionError
        If there is no such name, or a keyword is unknown to it or missing.
    """
    require_choice("preconditioner", name, tuple(PRECONDITIONERS))
    make = PRECONDITIONERS[name]
    _, *taken = inspect.signature(make).parameters.values()
    names = [parameter.name for parameter in taken]
    for keyword in keywords:
        if keyword not in names:
            raise OptionError(f"{name} takes no {keyword}, only {', '.join(names) or 'the matrix'}")
    for parameter in taken:
        if parameter.default is parameter.empty and parameter.name not in keywords:
            raise OptionError(f"{name} needs {parameter.name}")
    return make(A, **keywords)


def warm_up(make: Callable[[Any], Any], A: Any) -> None:
    """Make M for A and apply it once, unused: compile whatever a timing is to be free of.

    The first use of a kind, dtype, algorithm and device on a machine compiles; later processes load
    what was compiled.
    """
    M = make(A)
    if M is not None:
        M.matvec(np.zeros(A.shape[0], inexact_dtype(A.dtype)))


def choose_solver(A: Any, M: Any = None) -> tuple[str, str]:
    """cg where A is Hermitian with a positive diagonal and M is Hermitian, else gmres; and why.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
    M : LinearOperator, optional

    Returns
    -------
    solver, reason : str
    """
    if not is_hermitian(A):
        return "gmres", "the matrix is not Hermitian"
    if not (A.diagonal().real > 0).all():
        return "gmres", "the diagonal is not positive, so the matrix is not positive definite"
    if not getattr(facts(M), "is_symmetric", True):
        return "gmres", "the preconditioner is not Hermitian"
    return "cg", "the matrix is Hermitian with a positive diagonal"


def is_hermitian(A: Any) -> bool:
    """Whether A = A^H to rounding."""
    gap = abs(A - A.conj().T)
    return gap.nnz == 0 or gap.max() <= 10 * np.finfo(inexact_dtype(A.dtype)).eps * abs(A).max()
