"""A = L + D + U: Gauss-Seidel, SOR and SSOR as the triangular factors of their splitting.

    forward    M = D/omega + L
    backward   M = D/omega + U
    symmetric  M = omega/(2 - omega) (D/omega + L) D^-1 (D/omega + U)

The symmetric one is kept as two triangles, M = (I + omega L D^-1) ((D/omega + U) / (2 - omega)), so
that an apply is two substitutions and nothing between them.
"""

from __future__ import annotations

import numpy as np

from gpuilu.csr import CSR
from gpuilu.errors import OptionError, require_choice
from gpuilu.factor.base import Factors, PatternFactorization, is_hermitian, zero_pivot_error

__all__ = ["Splitting"]

SWEEPS = ("forward", "backward", "symmetric")


class Splitting(PatternFactorization):
    """Gauss-Seidel (omega = 1), SOR (one sweep) or SSOR (both), by `kind`."""

    def __init__(
        self, A: CSR, kind: str, sweep: str, omega: float = 1.0, missing_diagonal: str = "raise"
    ) -> None:
        require_choice("sweep", sweep, SWEEPS)
        if not 0.0 < omega < 2.0:
            raise OptionError(f"omega must lie strictly between 0 and 2, found {omega!r}")
        sides = {"forward": "L", "backward": "U", "symmetric": "LU"}[sweep]
        super().__init__(A, sides, missing_diagonal)
        self.kind, self.sweep, self.omega = kind, sweep, float(omega)

    def numeric(self, data: np.ndarray) -> Factors:
        D = data[self.diagonal]
        zero = D == 0
        if zero.any():
            raise zero_pivot_error(int(zero.argmax()), "a splitting divides by the diagonal")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._split(data, D).require_finite()

    def _split(self, data: np.ndarray, D: np.ndarray) -> Factors:
        omega = data.real.dtype.type(self.omega)
        if self.sweep == "forward":
            return Factors(self._triangles.lower(data, D / omega), None)
        if self.sweep == "backward":
            return Factors(None, self._triangles.upper(data, D / omega))
        L = self._triangles.lower(data, diag=None)
        L.data[...] = L.data / D[L.indices] * omega
        U = self._triangles.upper(data, D / omega)
        U.data[...] /= 2 - omega
        assert U.diag is not None
        U.diag[...] /= 2 - omega
        symmetric = is_hermitian(self.indptr, self.indices, data)
        return Factors(L, U, is_symmetric=symmetric)
