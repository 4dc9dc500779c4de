"""Exact ILU(0), Gauss-Seidel, SOR and SSOR preconditioners with fast triangular solves.

>>> import numpy as np, scipy.sparse as sp, scipy.sparse.linalg as spla, gpuilu
>>> A = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr()
>>> x, info = spla.cg(A, np.ones(50), M=gpuilu.ilu0(A))
>>> info
0
"""

import importlib
import typing

from gpuilu.errors import (
    BackendUnavailableError,
    CaptureError,
    DeviceMismatchError,
    GpuiluError,
    InvalidMatrixError,
    KernelCompileError,
    MissingDiagonalError,
    NotTriangularError,
    OptionError,
    PatternMismatchError,
    ShapeMismatchError,
    SolveStalledError,
    UnknownAlgorithmError,
    UnsupportedAlgorithmError,
    UnsupportedDtypeError,
    ZeroPivotError,
)
from gpuilu.factories import TriangularSolver, from_factors, gauss_seidel, ilu0, sor, ssor
from gpuilu.info import Info
from gpuilu.preconditioner import Preconditioner
from gpuilu.relaxation import relax

__version__ = "0.1.0"

__all__ = [
    "BackendUnavailableError",
    "CaptureError",
    "DeviceMismatchError",
    "GpuiluError",
    "Info",
    "InvalidMatrixError",
    "KernelCompileError",
    "MissingDiagonalError",
    "NotTriangularError",
    "OptionError",
    "PatternMismatchError",
    "Preconditioner",
    "ShapeMismatchError",
    "SolveStalledError",
    "TriangularSolver",
    "UnknownAlgorithmError",
    "UnsupportedAlgorithmError",
    "UnsupportedDtypeError",
    "ZeroPivotError",
    "from_factors",
    "gauss_seidel",
    "ilu0",
    "relax",
    "sor",
    "ssor",
]

# Public names of the adapters to hosts, which stand above this module: looked up when used.
_ABOVE = {"compare": "gpuilu.krylov"}


def __getattr__(name: str) -> typing.Any:
    if name not in _ABOVE:
        raise AttributeError(f"module 'gpuilu' has no attribute {name!r}")
    return getattr(importlib.import_module(_ABOVE[name]), name)
