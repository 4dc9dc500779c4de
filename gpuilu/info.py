"""What a preconditioner is and what it cost, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Info"]


@dataclass(frozen=True)
class Info:
    """Facts about a `Preconditioner`.

    Attributes
    ----------
    kind : str
        "ilu0", "gauss_seidel", "sor", "ssor", "from_factors" or "triangular".
    n, nnz : int
        Order of the matrix and its stored entries (duplicates summed).
    dtype, factor_dtype : numpy.dtype
        Dtype of the operator and of the stored factors.
    device, device_reason : str
        Where the factors live, "cpu" or "cuda:N", and why.
    algorithm, reason : str
        The triangular-solve algorithm and why it was chosen.
    n_levels_lower, n_levels_upper : int or None
        Dependency levels of the two triangles; None where there is no such triangle.
    setup_ms, analysis_ms, factorization_ms : float
        Wall time in milliseconds of the set-up and of its two parts. The first use of a kind and
        dtype after installation includes compilation.
    apply_ms : float or None
        Fastest apply to one vector so far, in milliseconds; None before the first, and on a GPU,
        where an apply only enqueues work.
    nbytes : int
        Bytes held, in all forms built so far.
    n_boosted : int
        Pivots that were replaced (`pivot="boost"`).
    shift : float
        What was added to the diagonal (`pivot="shift"`).
    first_zero_pivot : int or None
        Smallest row whose pivot was zero before it was changed.
    is_symmetric : bool
        Whether the operator is Hermitian to rounding, as CG needs it.
    deterministic : bool
        Whether repeated applies give the same bits.
    """

    kind: str
    n: int
    nnz: int
    dtype: np.dtype
    factor_dtype: np.dtype
    device: str
    device_reason: str
    algorithm: str
    reason: str
    n_levels_lower: int | None
    n_levels_upper: int | None
    setup_ms: float
    analysis_ms: float
    factorization_ms: float
    apply_ms: float | None
    nbytes: int
    n_boosted: int
    shift: float
    first_zero_pivot: int | None
    is_symmetric: bool
    deterministic: bool

    def __str__(self) -> str:
        rows = {
            "entries": f"{self.nnz} ({self.nnz / max(self.n, 1):.1f} a row)",
            "factors": f"{self.factor_dtype}, on {self.device}: {self.device_reason}",
            "levels": self._levels(),
            "algorithm": f"{self.algorithm}: {self.reason}",
            "set-up": f"{self.setup_ms:.2f} ms: analysis {self.analysis_ms:.2f}, "
            f"factorisation {self.factorization_ms:.2f}",
            "apply": self._apply(),
            "memory": f"{self.nbytes / 1e6:.2f} MB",
            "pivots": self._pivots(),
            "symmetric": "yes" if self.is_symmetric else "no (not for CG)",
        }
        title = f"{self.kind} preconditioner, {self.n} x {self.n}, {self.dtype}"
        return "\n".join([title, *(f"  {name:<10} {text}" for name, text in rows.items())])

    def _levels(self) -> str:
        sides = {"lower": self.n_levels_lower, "upper": self.n_levels_upper}
        return ", ".join(f"{count} {side}" for side, count in sides.items() if count is not None)

    def _apply(self) -> str:
        if not self.apply_ms:
            return "not yet"
        break_even = self.setup_ms / self.apply_ms
        return f"{self.apply_ms:.3f} ms; the set-up cost as much as {break_even:.1f} applies"

    def _pivots(self) -> str:
        changes = []
        if self.n_boosted:
            changes.append(f"{self.n_boosted} boosted")
        if self.shift:
            changes.append(f"shifted by {self.shift:g}")
        if self.first_zero_pivot is not None:
            changes.append(f"first zero in row {self.first_zero_pivot}")
        return ", ".join(changes) or "none changed"
