"""Factors that exist already: one triangle alone, or L and U (and permutations) from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuilu.backend import cuda, map_arrays
from gpuilu.csr import CSR, canonical, row_of_entries, with_diagonal
from gpuilu.errors import (
    InvalidMatrixError,
    NotTriangularError,
    PatternMismatchError,
    ShapeMismatchError,
)
from gpuilu.factor.base import Factorization, Factors, PatternFactorization

__all__ = ["GivenFactors", "GivenTriangle", "pair_of"]


STORE = "store it, or pass unit_diagonal=True where it is meant to be one"


class GivenTriangle(PatternFactorization):
    """T itself: a triangle to solve with, its diagonal stored or taken as one."""

    kind = "triangular"

    def __init__(self, T: CSR, lower: bool, unit_diagonal: bool) -> None:
        require_triangular(T, lower)
        missing = "insert" if unit_diagonal else "raise"
        super().__init__(T, "L" if lower else "U", missing, STORE)
        self.lower, self.unit_diagonal = lower, unit_diagonal

    def numeric(self, data: np.ndarray) -> Factors:
        diag = None if self.unit_diagonal else data[self.diagonal]
        if self.lower:
            return Factors(self._triangles.lower(data, diag), None, finite=False)
        return Factors(None, self._triangles.upper(data, diag), finite=False)


class GivenFactors(Factorization):
    """P_r A P_c = L U as given; a diagonal of L that is all ones is not stored.

    `perm_r` and `perm_c` have SciPy's meaning (`scipy.sparse.linalg.SuperLU`).
    """

    kind = "from_factors"

    def __init__(
        self,
        source: Any,
        perm_r: Any = None,
        perm_c: Any = None,
        device: str = "cpu",
        widened: Callable[[CSR], CSR] = lambda T: T,
    ) -> None:
        L, U = (canonical(T).to(device) for T in pair_of(source))
        self.given_dtype = np.result_type(L.data, U.data)
        L, U = widened(L), widened(U)
        if L.n != U.n:
            raise ShapeMismatchError(f"L is {L.n} x {L.n} but U is {U.n} x {U.n}")
        self.n = L.n
        self.nnz = L.nnz + U.nnz
        self.dtype = np.result_type(L.data, U.data)
        self._unit = _has_ones(
            with_diagonal(L, "raise", "store the ones of a unit diagonal").data, L
        )
        self._L = GivenTriangle(L, lower=True, unit_diagonal=self._unit)
        self._U = GivenTriangle(U, lower=False, unit_diagonal=False)
        perms = {"perm_r": perm_r, "perm_c": perm_c}
        perms = {name: getattr(source, name, given) for name, given in perms.items()}
        self._permutations: tuple[Any, ...] = tuple(
            _permutation(p, self.n, name) for name, p in perms.items()
        )
        if device != "cpu":
            self._permutations = map_arrays(self._permutations, cuda.mover(device))

    @property
    def permutations(self) -> tuple[Any, Any]:
        perm_r, perm_c = self._permutations
        return perm_r, perm_c

    def factorize(self, source: Any, *, check: bool = True) -> Factors:
        L, U = pair_of(source)
        self._require_same_permutations(source)
        if self._unit and not _has_ones(self._L.values(L, check=check), self._L):
            raise PatternMismatchError(
                "the diagonal of L was all ones and no longer is; make a new preconditioner"
            )
        lower = self._L.factorize(L, check=check).L
        upper = self._U.factorize(U, check=check).U
        factors = Factors(lower, upper).astype(self.dtype)
        return factors.require_no_zero_pivot("the factors given are singular").require_finite()

    def _require_same_permutations(self, source: Any) -> None:
        for name, old in zip(("perm_r", "perm_c"), self._permutations, strict=True):
            if hasattr(source, name):
                new = _permutation(getattr(source, name), self.n, name)
                kept = None if old is None else cuda.placed(old, "cpu")
                if (new is None) != (kept is None) or (new is not None and (new != kept).any()):
                    raise PatternMismatchError(f"{name} differs from that of the factors given")


def pair_of(source: Any) -> tuple[Any, Any]:
    """(L, U) from a pair or from anything with attributes L and U, such as a SuperLU."""
    if isinstance(source, tuple) and len(source) == 2:
        return source
    if hasattr(source, "L") and hasattr(source, "U"):
        return source.L, source.U
    raise InvalidMatrixError(
        f"expected a pair (L, U) or an object with L and U, found {type(source).__name__}"
    )


def _has_ones(data: Any, L: CSR | GivenTriangle) -> bool:
    """Whether the diagonal of L with these values is all ones."""
    return bool((data[L.diagonal] == 1).all())


def _permutation(perm: Any, n: int, name: str) -> np.ndarray | None:
    """A checked copy; None for the identity."""
    if perm is None:
        return None
    perm = np.array(cuda.placed(perm, "cpu"))
    if (
        perm.dtype.kind not in "iu"
        or perm.shape != (n,)
        or not np.array_equal(np.sort(perm), np.arange(n))
    ):
        raise InvalidMatrixError(f"{name} must be a permutation of 0 to {n - 1}")
    return None if np.array_equal(perm, np.arange(n)) else perm


def require_triangular(T: CSR, lower: bool) -> None:
    """Raise at the first entry, row by row, in the wrong triangle."""
    row = row_of_entries(T.indptr, T.nnz)
    wrong = T.indices > row if lower else T.indices < row
    if wrong.any():
        p = int(wrong.argmax())
        side = "lower" if lower else "upper"
        raise NotTriangularError(
            f"expected a {side} triangular matrix, found entry ({int(row[p])}, "
            f"{int(T.indices[p])}); take scipy.sparse.{'tril' if lower else 'triu'}(A) first, "
            "or factor A"
        )
