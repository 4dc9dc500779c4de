"""x = U^-1 L^-1 b and its transposed forms: the factors, planned, as something to apply.

With permutations, M^-1 = P_c U^-1 L^-1 P_r. With `iterations` = k, the stationary iteration
x <- x + M^-1 (b - A x) is run k times from x = 0; its adjoint is the same with A^H and M^-H.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend.locks import SharedLock
from gpuilu.dag import count_levels
from gpuilu.factor.base import Factorization, Factors, PatternFactorization
from gpuilu.info import Info
from gpuilu.options import Options
from gpuilu.trsv.base import find
from gpuilu.trsv.forms import TriangularForms
from gpuilu.trsv.select import choose

__all__ = ["Application"]


class Application:
    """A factorisation, its present factors and their plans; shared by an operator and its views.

    Parameters
    ----------
    factorization : Factorization
    factors : Factors
        In the dtype in which they are to be kept.
    A : csr_array or None
        The matrix itself, for `iterations` > 1.
    """

    def __init__(
        self,
        factorization: Factorization,
        factors: Factors,
        dtype: np.dtype,
        options: Options,
        algorithm: tuple[str, str],
        iterations: int = 1,
        A: sp.csr_array | None = None,
    ) -> None:
        self.factorization = factorization
        self.factors = factors
        self.dtype = dtype
        self.options = options
        self.algorithm, self.reason = algorithm
        self.iterations = iterations
        self.A = A
        self.analysis_ms = self.factorization_ms = 0.0
        self.apply_ms: float | None = None
        self._lock = SharedLock()
        self._n_levels: tuple[int | None, int | None] | None = None
        plan = find(self.algorithm, options.device, deterministic=options.deterministic)
        self._L = None if factors.L is None else TriangularForms(factors.L, plan)
        self._U = None if factors.U is None else TriangularForms(factors.U, plan)
        perm_r = getattr(factorization, "perm_r", None)
        perm_c = getattr(factorization, "perm_c", None)
        self._gather = {"N": _inverse(perm_r), "T": _inverse(perm_c)}
        self._scatter = {"N": perm_c, "T": perm_r}

    @classmethod
    def build(
        cls,
        factorization: Factorization,
        source: Any,
        dtype: np.dtype,
        options: Options,
        iterations: int = 1,
    ) -> Application:
        """Numeric phase and choice of the algorithm: from a symbolic factorisation to something to apply."""
        start = time.perf_counter()
        factors = factorization.factorize(source)
        kept = options.factor_dtype or factorization.dtype
        factors = factors.astype(kept)
        factored = time.perf_counter()
        algorithm = choose(
            factors.triangles,
            options.algorithm,
            options.device,
            expected_solves=options.expected_solves,
            deterministic=options.deterministic,
        )
        A = None
        if iterations > 1 and isinstance(factorization, PatternFactorization):
            A = factorization.matrix(source).astype(kept)
        built = cls(factorization, factors, dtype, options, algorithm, iterations, A)
        built.factorization_ms = (factored - start) * 1e3
        built.analysis_ms = (time.perf_counter() - factored) * 1e3
        return built

    @property
    def n(self) -> int:
        return self.factorization.n

    @property
    def factor_dtype(self) -> np.dtype:
        triangles = self.factors.triangles
        return triangles[0].dtype if triangles else self.dtype

    def apply(self, x: np.ndarray, trans: str) -> None:
        """x <- op(M)^-1 x in place; `trans` is 'N', 'T', 'H', or 'C' for the conjugate of 'N'."""
        with self._lock.read():
            start = time.perf_counter()
            if trans == "C":
                np.conjugate(x, out=x)
                self._iterate(x, "N")
                np.conjugate(x, out=x)
            else:
                self._iterate(x, trans)
            elapsed = (time.perf_counter() - start) * 1e3
        if x.ndim == 1:
            self.apply_ms = min(elapsed, self.apply_ms or elapsed)

    def prepare(self, trans: str) -> None:
        """Build the transposed forms that an apply with `trans` needs."""
        for forms in (self._L, self._U):
            if forms is not None:
                forms.plan(trans)

    def update(self, source: Any, *, check: bool) -> None:
        """Factor new values into fresh arrays, then copy them in; on failure nothing has changed."""
        factors = self.factorization.factorize(source, check=check).astype(self.factor_dtype)
        A = self.A
        if A is not None:
            assert isinstance(self.factorization, PatternFactorization)
            A = self.factorization.matrix(source)
        with self._lock.write():
            for forms, T in ((self._L, factors.L), (self._U, factors.U)):
                if forms is not None and T is not None:
                    forms.assign(T)
            if self.A is not None and A is not None:
                self.A.data[...] = A.data
            self.factors = self.factors.with_report(factors)

    @property
    def nbytes(self) -> int:
        held = sum(forms.nbytes for forms in (self._L, self._U) if forms is not None)
        if self.A is not None:
            held += self.A.data.nbytes + self.A.indices.nbytes + self.A.indptr.nbytes
        return held + self.factorization.nbytes

    def info(self) -> Info:
        if self._n_levels is None:
            L, U = self.factors.L, self.factors.U
            self._n_levels = (L and count_levels(L), U and count_levels(U))
        plan = find(self.algorithm, self.options.device, deterministic=False)
        factors = self.factors
        return Info(
            kind=self.factorization.kind,
            n=self.n,
            nnz=self.factorization.nnz,
            dtype=self.dtype,
            factor_dtype=self.factor_dtype,
            device=self.options.device,
            algorithm=self.algorithm,
            reason=self.reason,
            n_levels_lower=self._n_levels[0],
            n_levels_upper=self._n_levels[1],
            setup_ms=self.analysis_ms + self.factorization_ms,
            analysis_ms=self.analysis_ms,
            factorization_ms=self.factorization_ms,
            apply_ms=self.apply_ms,
            nbytes=self.nbytes,
            n_boosted=factors.n_boosted,
            shift=factors.shift,
            first_zero_pivot=factors.first_zero_pivot,
            is_symmetric=factors.is_symmetric,
            deterministic=plan.deterministic,
        )

    def copy(self) -> Application:
        """The same in arrays of its own."""
        A = None if self.A is None else self.A.copy()
        return self._rebuilt(self.factors.copy(), A)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._rebuild_arguments(), self.analysis_ms, self.factorization_ms))

    def _rebuild_arguments(self, factors: Factors | None = None, A: Any = None) -> tuple[Any, ...]:
        return (
            self.factorization,
            factors or self.factors,
            self.dtype,
            self.options,
            (self.algorithm, self.reason),
            self.iterations,
            self.A if A is None else A,
        )

    def _rebuilt(self, factors: Factors, A: Any) -> Application:
        arguments = self._rebuild_arguments(factors, A)
        return _restore(arguments, self.analysis_ms, self.factorization_ms)

    def _iterate(self, x: np.ndarray, trans: str) -> None:
        if self.iterations == 1:
            self._substitute(x, trans)
            return
        b = x.copy()
        self._substitute(x, trans)
        for _ in range(self.iterations - 1):
            r = np.ascontiguousarray(b - self._multiply(x, trans), dtype=x.dtype)
            self._substitute(r, trans)
            x += r

    def _multiply(self, x: np.ndarray, trans: str) -> np.ndarray:
        """op(A) x."""
        assert self.A is not None
        if trans == "N":
            return self.A @ x
        if trans == "T":
            return self.A.T @ x
        return (self.A.T @ x.conj()).conj()

    def _substitute(self, x: np.ndarray, trans: str) -> None:
        side = "N" if trans == "N" else "T"
        if (order := self._gather[side]) is not None:
            x[...] = x[order]
        for forms in (self._L, self._U) if side == "N" else (self._U, self._L):
            if forms is not None:
                forms.solve(x, trans)
        if (order := self._scatter[side]) is not None:
            x[...] = x[order]


def _restore(arguments: tuple[Any, ...], analysis_ms: float, factorization_ms: float) -> Application:
    built = Application(*arguments)
    built.analysis_ms, built.factorization_ms = analysis_ms, factorization_ms
    return built


def _inverse(perm: np.ndarray | None) -> np.ndarray | None:
    return None if perm is None else np.argsort(perm)
