"""The keywords that every factory takes, checked once and carried by the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.csr import CSR, VALUE_DTYPES
from gpuilu.errors import BackendUnavailableError, OptionError, UnsupportedDtypeError

__all__ = ["Options", "resolve_device"]


@dataclass(frozen=True)
class Options:
    """Keywords common to all factories.

    Parameters
    ----------
    algorithm : str
        Name of a triangular-solve algorithm, or "auto".
    device : str
        Where the factors live: "cpu".
    factor_dtype : dtype or None
        Dtype in which the factors are stored; None for the matrix's own.
    expected_solves : int
        Applies over which the analysis may be paid back; "auto" weighs it.
    deterministic : bool
        Refuse algorithms whose results vary from run to run in the last bits.
    """

    algorithm: str = "auto"
    device: str = "cpu"
    factor_dtype: np.dtype | None = None
    expected_solves: int = 100
    deterministic: bool = True

    @classmethod
    def checked(
        cls,
        algorithm: str,
        device: str | int,
        factor_dtype: Any,
        expected_solves: int,
        deterministic: bool,
    ) -> Options:
        if factor_dtype is not None:
            factor_dtype = np.dtype(factor_dtype)
            if factor_dtype not in VALUE_DTYPES:
                raise UnsupportedDtypeError(
                    "factor_dtype must be float32, float64, complex64 or complex128, "
                    f"found {factor_dtype}"
                )
        if expected_solves < 1:
            raise OptionError(f"expected_solves must be at least 1, found {expected_solves}")
        device = resolve_device(device)
        return cls(algorithm, device, factor_dtype, int(expected_solves), bool(deterministic))

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


def resolve_device(device: str | int) -> str:
    """The device that `device=` means here, or an error."""
    if device in ("auto", "cpu"):
        return "cpu"
    if isinstance(device, int) or str(device).split(":")[0] == "cuda":
        raise BackendUnavailableError(
            f"device {device!r}: this version of gpuilu runs on the CPU only; "
            "use device='auto' or device='cpu'"
        )
    raise OptionError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', found {device!r}")
