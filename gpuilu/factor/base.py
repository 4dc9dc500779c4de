"""M = L U: what every factorisation makes, and the two phases by which it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import by_device, cuda, namespace, on_gpu
from gpuilu.backend.cpu import njit
from gpuilu.csr import CSR, INSERT, canonical, is_sparse, row_of_entries, with_diagonal
from gpuilu.errors import (
    PatternMismatchError,
    ShapeMismatchError,
    UnsupportedDtypeError,
    ZeroPivotError,
    require_choice,
)
from gpuilu.factor.split import Split
from gpuilu.triangle import Triangle

__all__ = ["Factorization", "Factors", "PatternFactorization"]


@dataclass(frozen=True, eq=False)
class Factors:
    """The triangles of M = L U (either may be absent) and what was changed to get them.

    Parameters
    ----------
    L, U : Triangle or None
    n_boosted : int
        Pivots that were replaced.
    shift : float
        Multiple of the identity that was added to A.
    first_zero_pivot : int or None
        Smallest row whose pivot was zero before it was replaced.
    is_symmetric : bool
        Whether M is Hermitian (to rounding), so that it may precondition CG.
    finite : bool
        Whether every entry must be finite; False for a triangle that only propagates.
    """

    L: Triangle | None
    U: Triangle | None
    n_boosted: int = 0
    shift: float = 0.0
    first_zero_pivot: int | None = None
    is_symmetric: bool = False
    finite: bool = True

    @property
    def triangles(self) -> tuple[Triangle, ...]:
        return tuple(T for T in (self.L, self.U) if T is not None)

    def astype(self, dtype: np.dtype) -> Factors:
        """The factors rounded to another dtype; raises where an entry overflows."""
        L, U = (None if T is None else T.astype(dtype) for T in (self.L, self.U))
        rounded = replace(self, L=L, U=U)
        changed = any(T.dtype != dtype for T in self.triangles)
        if changed and self.finite:
            rounded.require_finite(f"after rounding to {dtype}")
            rounded.require_no_zero_pivot(f"rounding to {dtype} made it so: keep the factors wider")
        return rounded

    def copy(self) -> Factors:
        """The same factors with values of their own."""
        L, U = (None if T is None else T.copy() for T in (self.L, self.U))
        return replace(self, L=L, U=U)

    def with_report(self, other: Factors) -> Factors:
        """These triangles with what `other` says of its pivots and symmetry."""
        return replace(other, L=self.L, U=self.U)

    def require_no_zero_pivot(self, remedy: str) -> Factors:
        """Raise ZeroPivotError at the smallest row with a zero on the diagonal of L or U."""
        rows = [
            int((T.diag == 0).argmax())
            for T in self.triangles
            if T.diag is not None and (T.diag == 0).any()
        ]
        if rows:
            raise zero_pivot_error(min(rows), remedy)
        return self

    def require_finite(self, when: str = "") -> Factors:
        """Raise ZeroPivotError at the smallest row of L or U with an entry that is not finite."""
        rows = [(_first_not_finite(T), T) for T in self.triangles]
        bad = [(row, T) for row, T in rows if row >= 0]
        if not bad:
            return self
        row, T = min(bad, key=lambda found: found[0])
        entries = T.data[int(T.indptr[row]) : int(T.indptr[row + 1])]
        if T.diag is not None and np.isfinite(entries).all():
            entries = T.diag[row : row + 1]
        raise not_finite_error(row, entries, when)


class Factorization(ABC):
    """The symbolic phase, done once: where the entries of L and U come from."""

    kind: str
    n: int
    nnz: int
    dtype: np.dtype

    @property
    def permutations(self) -> tuple[Any, Any]:
        """(perm_r, perm_c) where the factors are of a permuted matrix, as in SciPy's SuperLU."""
        return None, None

    @abstractmethod
    def factorize(self, source: Any, *, check: bool = True) -> Factors:
        """The numeric phase: new factors from a matrix, or from values, on the same pattern."""


class PatternFactorization(Factorization):
    """A factorisation of a square matrix A whose pattern, with a full diagonal, is kept."""

    def __init__(
        self, A: CSR, sides: str, missing_diagonal: str = "raise", remedy: str = INSERT
    ) -> None:
        require_choice("missing_diagonal", missing_diagonal, ("raise", "insert"))
        self.nnz = A.nnz
        self.n = A.n
        self.dtype = A.data.dtype
        self._missing_diagonal = missing_diagonal
        full = with_diagonal(A, missing_diagonal, remedy)
        # Copies: the user may sort or prune the matrix in place later.
        self.indptr, self.indices = full.indptr.copy(), full.indices.copy()
        self.kept = full.kept
        self._triangles = Split(self.indptr, self.indices, full.diagonal, sides)

    @property
    def diagonal(self) -> Any:
        """Positions of the diagonal entries in the pattern."""
        return self._triangles.diagonal

    @property
    def device(self) -> str:
        """Where the pattern lives."""
        return cuda.place_of(self.indptr)

    @abstractmethod
    def numeric(self, data: np.ndarray) -> Factors:
        """Factors from the values of A on the kept pattern, shape (nnz,); `data` is not changed."""

    def factorize(self, source: Any, *, check: bool = True) -> Factors:
        return self.numeric(self.values(source, check=check))

    def values(self, source: Any, *, check: bool = True) -> np.ndarray:
        """The values of a matrix (or a bare array in canonical CSR order) on the kept pattern."""
        if not isinstance(source, CSR) and not is_sparse(source) and hasattr(source, "dtype"):
            return self._bare_values(source)
        A = source if isinstance(source, CSR) else canonical(source)
        if A.n != self.n:
            raise ShapeMismatchError(
                f"expected a matrix of shape {(self.n, self.n)}, found {(A.n, A.n)}"
            )
        full = with_diagonal(A.to(self.device), self._missing_diagonal)
        data = self._same_dtype(full.data)
        if check or full.nnz != len(self.indices):
            self._require_same_pattern(full)
        return data

    def matrix(self, source: Any, dtype: np.dtype) -> Any:
        """A itself, as a sparse matrix of its own on the kept pattern."""
        with np.errstate(over="ignore", invalid="ignore"):
            data = self.values(source, check=False).astype(dtype)
        if not np.isfinite(data).all():
            p = int((~np.isfinite(data)).argmax())
            raise not_finite_error(int(row_of_entries(self.indptr, len(data))[p]), data[p : p + 1])
        pattern = (self.indices.copy(), self.indptr.copy())
        make = cuda.csr_matrix if on_gpu(data) else sp.csr_array
        return make((data, *pattern), shape=(self.n, self.n))

    def _bare_values(self, values: Any) -> np.ndarray:
        values = cuda.placed(values, self.device)
        if values.shape != (self.nnz,):
            raise ShapeMismatchError(
                f"expected {self.nnz} values in canonical CSR order (rows ascending, columns "
                f"ascending, duplicates summed), found an array of shape {values.shape}"
            )
        values = self._same_dtype(values)
        if self.kept is None:
            return values
        data = namespace(values).zeros(len(self.indices), self.dtype)
        data[self.kept] = values
        return data

    def _same_dtype(self, values: np.ndarray) -> np.ndarray:
        if not np.can_cast(values.dtype, self.dtype, "safe"):
            raise UnsupportedDtypeError(
                f"expected values that fit {self.dtype}, found {values.dtype}; "
                "convert them with .astype(...) or make a new preconditioner"
            )
        return values.astype(self.dtype, copy=False)

    def _require_same_pattern(self, A: CSR) -> None:
        row = _first_difference(A, self)
        if row < 0:
            return
        new, old = (M.indices[int(M.indptr[row]) : int(M.indptr[row + 1])] for M in (A, self))
        raise PatternMismatchError(
            f"the pattern differs from the analysed one, first in row {row}: columns "
            f"{_shortened(new)} instead of {_shortened(old)}; "
            "keep explicit zeros, or make a new preconditioner"
        )


def _first_difference(A: CSR, B: PatternFactorization) -> int:
    """The first row in which two patterns differ, -1 if none."""
    differs = A.indptr[1:] != B.indptr[1:]
    last = int(differs.argmax()) if differs.any() else A.n - 1
    stop = int(A.indptr[last]) if differs.any() else len(A.indices)
    entry = A.indices[:stop] != B.indices[:stop]
    if entry.any():
        return int(row_of_entries(A.indptr, len(A.indices))[int(entry.argmax())])
    return last if differs.any() else -1


def zero_pivot_error(row: int, remedy: str) -> ZeroPivotError:
    return ZeroPivotError(
        f"the pivot in row {row} is zero (numerically: the entry is stored); {remedy}; or permute "
        "or scale the matrix so that its diagonal dominates",
        row,
        0.0,
    )


def not_finite_error(row: int, entries: Any, when: str = "") -> ZeroPivotError:
    """The error for a row whose `entries` are not all finite."""
    value = entries[~np.isfinite(entries)][0].item()
    return ZeroPivotError(
        f"row {row} of the factors has an entry that is not finite ({value}){when and ' ' + when}: "
        "the matrix holds NaN or Inf there, or a pivot is too small; "
        "check the matrix, scale it, or try pivot='boost'",
        row,
        value,
    )


def is_hermitian(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> bool:
    """Whether A = A^H to rounding: |a_ij - conj(a_ji)| <= 16 eps (|a_ij| + |a_ji|)."""
    return bool(_is_hermitian(indptr, indices, data, 16 * np.finfo(data.dtype).eps))


def _is_hermitian_cuda(indptr: Any, indices: Any, data: Any, tolerance: float) -> bool:
    differs, n = cuda.marked(1), len(indptr) - 1
    instantiation = f"differs_from_adjoint<{cuda.value_type(data.dtype)}>"
    scalar = data.real.dtype.type(tolerance)
    cuda.for_each("pattern", instantiation, n, n, indptr, indices, data, scalar, differs)
    return int(differs.view(np.int32)[0]) < 0


def _shortened(columns: np.ndarray) -> str:
    return str(columns.tolist()) if len(columns) <= 8 else f"{columns[:8].tolist()[:-1]}..."


@njit
def _is_hermitian_cpu(indptr, indices, data, tolerance):
    """One pass: as i ascends, the entries (j, i) right of row j's diagonal are met in order."""
    n = len(indptr) - 1
    right = np.empty(n, indptr.dtype)
    for i in range(n):
        p = indptr[i]
        while p < indptr[i + 1] and indices[p] <= i:
            j = indices[p]
            q = p if j == i else right[j]
            if q >= indptr[j + 1] or indices[q] != i:
                return False
            a, b = data[p], np.conj(data[q])
            # Halves, because a - b may overflow; not <=, because a NaN is unlike itself.
            if not abs(a / 2 - b / 2) <= tolerance * (abs(a) / 2 + abs(b) / 2):
                return False
            if j < i:
                right[j] = q + 1
            p += 1
        right[i] = p
    for i in range(n):
        if right[i] != indptr[i + 1]:
            return False
    return True


_is_hermitian = by_device(_is_hermitian_cpu, _is_hermitian_cuda)


def _first_not_finite(T: Triangle) -> int:
    diag = T.data[:0] if T.diag is None else T.diag
    return int(_first_not_finite_row(T.indptr, T.data, diag))


@njit
def _first_not_finite_row_cpu(indptr, data, diag):
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            if not np.isfinite(data[p]):
                return i
        if len(diag) > 0 and not np.isfinite(diag[i]):
            return i
    return -1


def _first_not_finite_row_cuda(indptr: Any, data: Any, diag: Any) -> int:
    row, n = cuda.marked(1), len(indptr) - 1
    diag = diag if len(diag) else None
    instantiation = f"first_not_finite<{cuda.value_type(data.dtype)}>"
    cuda.for_each("pattern", instantiation, n, n, indptr, data, diag, row)
    return int(row.view(np.int32)[0])


_first_not_finite_row = by_device(_first_not_finite_row_cpu, _first_not_finite_row_cuda)
