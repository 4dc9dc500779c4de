"""Every error gpuilu raises: each is a `GpuiluError` and the built-in that a user would catch."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = [
    "BackendUnavailableError",
    "CaptureError",
    "DeviceMismatchError",
    "GpuiluError",
    "InvalidMatrixError",
    "KernelCompileError",
    "MissingDiagonalError",
    "NotTriangularError",
    "OptionError",
    "PatternMismatchError",
    "ShapeMismatchError",
    "SolveStalledError",
    "UnknownAlgorithmError",
    "UnsupportedAlgorithmError",
    "UnsupportedDtypeError",
    "ZeroPivotError",
]


class GpuiluError(Exception):
    """Base class of every error raised by gpuilu."""


class InvalidMatrixError(GpuiluError, ValueError):
    """The input is not a well-formed square sparse matrix."""


class NotTriangularError(GpuiluError, ValueError):
    """A matrix given as triangular has an entry in the wrong triangle."""


class PatternMismatchError(GpuiluError, ValueError):
    """`update` was given values on another sparsity pattern."""


class ShapeMismatchError(GpuiluError, ValueError):
    """An array has the wrong shape for this operator."""


class DeviceMismatchError(GpuiluError, ValueError):
    """Arrays live on devices that cannot be used together."""


class OptionError(GpuiluError, ValueError):
    """A keyword has a value that is not among its choices."""


class UnsupportedDtypeError(GpuiluError, TypeError):
    """The dtype is not float32, float64, complex64 or complex128, nor convertible to one."""


class MissingDiagonalError(InvalidMatrixError):
    """A diagonal entry is not stored in the pattern.

    Attributes
    ----------
    row : int
        The smallest row without a stored diagonal entry.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.row))


class ZeroPivotError(GpuiluError, ArithmeticError, np.linalg.LinAlgError):
    """A pivot is zero, or a factor has an entry that is not finite.

    Attributes
    ----------
    row : int
        The smallest row where it happened.
    value : number
        The offending pivot or factor entry.
    """

    def __init__(self, message: str, row: int, value: complex) -> None:
        super().__init__(message)
        self.row = row
        self.value = value

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.row, self.value))


class UnknownAlgorithmError(GpuiluError, ValueError):
    """No triangular-solve algorithm has this name."""


class UnsupportedAlgorithmError(GpuiluError, ValueError):
    """The algorithm exists but cannot be used here (device, dtype or determinism)."""


class BackendUnavailableError(GpuiluError, ImportError):
    """The requested device or an optional package is not available."""


class CaptureError(GpuiluError, RuntimeError):
    """Something that cannot be part of a CUDA graph was asked for during a stream capture."""


class KernelCompileError(GpuiluError, RuntimeError):
    """A CUDA kernel did not compile.

    Attributes
    ----------
    log : str
        The compiler's log.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.log))


class SolveStalledError(GpuiluError, RuntimeError):
    """A GPU solve made no progress within its time limit and was abandoned."""


def require_integer(name: str, value: Any) -> int:
    """The keyword `name` as an int of at least 1, or OptionError."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise OptionError(f"{name} must be a whole number, found {value!r}") from error
    if number < 1:
        raise OptionError(f"{name} must be at least 1, found {value}")
    return number


def require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise OptionError unless the keyword `name` has one of its values."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {choices}, found {value!r}")
