"""The keywords that every factory takes, checked once and carried by the object."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuilu.backend import cpu, cuda
from gpuilu.csr import CSR, VALUE_DTYPES
from gpuilu.errors import OptionError, UnsupportedDtypeError, require_integer

__all__ = ["Options", "resolve_device", "settled_device"]

SMALLEST_ON_GPU = 100_000  # rows from which a SciPy matrix goes to the GPU by itself


@dataclass(frozen=True)
class Options:
    """Keywords common to all factories.

    Parameters
    ----------
    algorithm : str
        Name of a triangular-solve algorithm, "auto" or "measure".
    device : str
        Where the factors live: "cpu" or "cuda:N"; "auto" until a matrix has been seen.
    factor_dtype : dtype or None
        Dtype in which the factors are stored; None for the matrix's own.
    expected_solves : int
        Applies over which the analysis may be paid back; "auto" weighs it.
    deterministic : bool
        Refuse algorithms whose results vary from run to run in the last bits.
    device_reason : str
        Why the factors live where they do.
    """

    algorithm: str = "auto"
    device: str = "cpu"
    factor_dtype: np.dtype | None = None
    expected_solves: int = 100
    deterministic: bool = True
    device_reason: str = "asked for"

    @classmethod
    def checked(
        cls,
        algorithm: str,
        device: str | int,
        factor_dtype: Any,
        expected_solves: int,
        deterministic: bool,
    ) -> Options:
        """Options from a factory's keywords; raises for a value that cannot be honoured."""
        if factor_dtype is not None:
            factor_dtype = _value_dtype(factor_dtype)
        expected_solves = require_integer("expected_solves", expected_solves)
        device = resolve_device(device)
        return cls(algorithm, device, factor_dtype, expected_solves, bool(deterministic))

    @property
    def device_kind(self) -> str:
        """The kind of device, "cpu" or "cuda"."""
        return self.device.partition(":")[0]

    def for_matrix(self, A: CSR) -> Options:
        """With the device settled for this matrix."""
        device, reason = settled_device(self.device, A)
        return replace(self, device=device, device_reason=reason)

    def widened(self, A: CSR) -> CSR:
        """A in the dtype in which it is to be factored: its own, or factor_dtype if wider."""
        if self.factor_dtype is None:
            return A
        if A.data.dtype.kind == "c" and self.factor_dtype.kind != "c":
            raise UnsupportedDtypeError(
                f"factor_dtype {self.factor_dtype} would drop the imaginary part of a "
                f"{A.data.dtype} matrix; use a complex one"
            )
        dtype = np.result_type(A.data.dtype, self.factor_dtype)
        return A.with_data(A.data.astype(dtype, copy=False))


def _value_dtype(dtype: Any) -> np.dtype:
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in VALUE_DTYPES:
        raise UnsupportedDtypeError(
            f"factor_dtype must be float32, float64, complex64 or complex128, found {dtype}"
        )
    return found


def resolve_device(device: str | int) -> str:
    """`device=` as "auto", "cpu" or "cuda:N", or an error if there is no such device."""
    if device in ("auto", "cpu"):
        return str(device)
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    kind, _, number = name.partition(":")
    if kind != "cuda" or (number and not number.isdecimal()):
        raise OptionError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', found {device!r}")
    return cuda.checked_device(int(number) if number else None)


def settled_device(device: str | int, A: CSR) -> tuple[str, str]:
    """(device, why) for a matrix: the one asked for, or by rule for "auto".

    A cupyx matrix stays on its GPU; a SciPy matrix goes to one where that pays.
    """
    name = resolve_device(device)
    if name != "auto":
        return name, "asked for"
    if A.device != "cpu":
        return A.device, "the matrix is there"
    if A.n < SMALLEST_ON_GPU:
        return "cpu", f"n = {A.n} is below {SMALLEST_ON_GPU}, too small to pay for a GPU"
    if cpu.is_forked():
        return "cpu", "a forked process cannot use the GPU"
    if not cuda.available():
        return "cpu", "there is no GPU that CuPy can use"
    return cuda.checked_device(None), f"n = {A.n} pays for the GPU"
