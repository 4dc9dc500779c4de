"""x = U^-1 L^-1 b and its transposed forms: the factors, planned, as something to apply.

With permutations, M^-1 = P_c U^-1 L^-1 P_r. With `iterations` = k, the stationary iteration
x <- x + M^-1 (b - A x) is run k times from x = 0; its adjoint is the same with A^H and M^-H.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import cuda, held_bytes, map_arrays, namespace, on_gpu
from gpuilu.backend.locks import SharedLock
from gpuilu.dag import count_levels, remembered
from gpuilu.factor.base import Factorization, Factors, PatternFactorization
from gpuilu.info import Info
from gpuilu.options import Options
from gpuilu.trsv.base import algorithms, find
from gpuilu.trsv.forms import Chain, TriangularForms
from gpuilu.trsv.select import choose

__all__ = ["Application"]


class Application:
    """A factorisation, its present factors and their plans; shared by an operator and its views.

    Parameters
    ----------
    factorization : Factorization
    factors : Factors
        In the dtype in which they are to be kept.
    A : sparse matrix or None
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
        A: Any = None,
    ) -> None:
        self.factorization = factorization
        self.factors = factors
        self.dtype = dtype
        # Of the stored factors: an update keeps it.
        self.factor_dtype = factors.triangles[0].dtype if factors.triangles else dtype
        self.options = options
        self.algorithm, self.reason = algorithm
        self.iterations = iterations
        self.A = A
        self.analysis_ms = self.factorization_ms = 0.0
        self.apply_ms: float | None = None
        self._lock = SharedLock()
        self._n_levels: tuple[int | None, int | None] | None = None
        self.device = options.device
        self._on_gpu = options.device_kind == "cuda"
        self._order = cuda.StreamOrder() if self._on_gpu else None
        plan = find(self.algorithm, options.device_kind, deterministic=options.deterministic)
        self._L = None if factors.L is None else TriangularForms(factors.L, plan)
        self._U = None if factors.U is None else TriangularForms(factors.U, plan)
        both = [forms for forms in (self._L, self._U) if forms is not None]
        self._chains = {"N": Chain(both), "T": Chain(both[::-1])}
        self._chains["N"].plans("N")  # now: a capture could not hold what joins them
        perm_r, perm_c = factorization.permutations
        self._is_plain = iterations == 1 and perm_r is None and perm_c is None
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
        """Numeric phase, choice of the algorithm, plans."""
        start = time.perf_counter()
        factors = factorization.factorize(source)
        kept = options.factor_dtype or factorization.dtype
        factors = factors.astype(kept)
        factored = time.perf_counter()
        A = None
        if iterations > 1 and isinstance(factorization, PatternFactorization):
            A = factorization.matrix(source, kept)
        with remembered():
            algorithm = _chosen(factors, options, options.algorithm)
            built = cls(factorization, factors, dtype, options, algorithm, iterations, A)
        if built._on_gpu:
            cuda.synchronize()
        built.factorization_ms = (factored - start) * 1e3
        built.analysis_ms = (time.perf_counter() - factored) * 1e3
        return built

    @property
    def n(self) -> int:
        """Order of the matrix."""
        return self.factorization.n

    def apply(self, x: Any, trans: str, b: Any = None) -> None:
        """x <- op(M)^-1 b, or op(M)^-1 x without b; on a GPU the work is only enqueued.

        x and b are C-contiguous on this device, of the result's dtype, and do not overlap. `trans`
        is 'N', 'T', 'H', or 'C' for the conjugate of 'N'.
        """
        with self._lock.read():
            if self._order is not None:
                with self._order.apply():
                    self._apply_form(x, trans, b)
                return
            start = time.perf_counter()
            self._apply_form(x, trans, b)
            elapsed = (time.perf_counter() - start) * 1e3
        if x.ndim == 1:
            self.apply_ms = min(elapsed, self.apply_ms or elapsed)

    def _apply_form(self, x: Any, trans: str, b: Any) -> None:
        if trans == "C":
            np.conjugate(x if b is None else b, out=x)
            self._iterate(x, None, "N")
            np.conjugate(x, out=x)
        elif self._is_plain:
            self._chains["N" if trans == "N" else "T"].solve(x, trans, b)
        else:
            self._iterate(x, b, trans)

    def check(self) -> None:
        """Wait for the work in flight and raise what went wrong in it."""
        if self._order is not None:
            self._order.synchronize()
            self.raise_known_trouble()

    def raise_known_trouble(self) -> None:
        """Raise what earlier applies ran into, as far as it is known without waiting."""
        for chain in self._chains.values():
            chain.check()

    def _wait(self) -> None:
        """Wait for the set-up, for another stream may be the first to apply it."""
        if self._on_gpu:
            with self.on_device():
                cuda.synchronize()

    def is_on_device(self) -> bool:
        """Whether this application's device is the current one already."""
        return not self._on_gpu or cuda.is_current(self.device)

    def on_device(self) -> Any:
        """A context in which this application's device is the current one."""
        return cuda.on(self.device)

    def prepare(self, trans: str) -> None:
        """Build the transposed forms that an apply with `trans` needs."""
        with self._lock.read():
            self._chains["N" if trans == "N" else "T"].plans(trans)

    def update(self, source: Any, *, check: bool) -> None:
        """Factor new values aside, then copy them in; on failure nothing has changed."""
        if self._on_gpu:
            cuda.refuse_capture("an update")
        factors = self.factorization.factorize(source, check=check).astype(self.factor_dtype)
        A = self.A
        if A is not None:
            assert isinstance(self.factorization, PatternFactorization)
            A = self.factorization.matrix(source, self.factor_dtype)
        ordered = contextlib.nullcontext() if self._order is None else self._order.update()
        with self._lock.write(), ordered:
            for forms, T in ((self._L, factors.L), (self._U, factors.U)):
                if forms is not None and T is not None:
                    forms.assign(T)
            if self.A is not None and A is not None:
                self.A.data[...] = A.data
            self.factors = self.factors.with_report(factors)

    @property
    def nbytes(self) -> int:
        """Bytes held in all forms built so far, and by the factorisation."""
        return held_bytes(
            self.factorization, self.factors, self._chains, self._gather, self._scatter, self.A
        )

    def info(self) -> Info:
        """Facts for the user; counts the levels at the first call."""
        n_levels = self._count_levels()
        plan = find(self.algorithm, self.options.device_kind, deterministic=False)
        factors = self.factors
        return Info(
            kind=self.factorization.kind,
            n=self.n,
            nnz=self.factorization.nnz,
            dtype=self.dtype,
            factor_dtype=self.factor_dtype,
            device=self.device,
            device_reason=self.options.device_reason,
            algorithm=self.algorithm,
            reason=self.reason,
            n_levels_lower=n_levels[0],
            n_levels_upper=n_levels[1],
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

    def _count_levels(self) -> tuple[int | None, int | None]:
        if self._n_levels is None:
            L, U = self.factors.L, self.factors.U
            with self.on_device():
                lower, upper = (None if T is None else count_levels(T) for T in (L, U))
            self._n_levels = lower, upper
        return self._n_levels

    def reading(self) -> Any:
        """A context in which no update changes the factors."""
        return self._lock.read()

    def copy(self) -> Application:
        """The same in arrays of its own."""
        with self.on_device(), self._lock.read():
            A = None if self.A is None else self.A.copy()
            return self._rebuilt(self.factors.copy(), A)

    def to(self, device: str) -> Application:
        """The same on another device, its algorithm chosen anew."""
        options = replace(self.options, device=device, device_reason="moved there")
        move = cuda.mover(device)
        with self.on_device(), self._lock.read():
            factorization = map_arrays(self.factorization, move)
            factors = map_arrays(self.factors, move)
            A = None if self.A is None else _mapped_matrix(self.A, move)
        requested = options.algorithm
        if requested != "measure" and (requested, options.device_kind) not in algorithms():
            requested = "auto"
        with cuda.on(device), remembered():
            algorithm = _chosen(factors, options, requested)
            moved = Application(
                factorization, factors, self.dtype, options, algorithm, self.iterations, A
            )
            moved._wait()
        moved.analysis_ms, moved.factorization_ms = self.analysis_ms, self.factorization_ms
        return moved

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies, because pickling the arrays comes later, when an update may be changing them.
        arguments = self.copy()._rebuild_arguments()
        return (_restore, (arguments, self.analysis_ms, self.factorization_ms))

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

    def _iterate(self, x: Any, b: Any, trans: str) -> None:
        if self.iterations == 1:
            self._substitute(x, b, trans)
            return
        b = x.copy() if b is None else b
        self._substitute(x, b, trans)
        for _ in range(self.iterations - 1):
            r = b - self._multiply(x, trans)
            r = namespace(x).ascontiguousarray(r, dtype=x.dtype)
            self._substitute(r, None, trans)
            x += r

    def _multiply(self, x: np.ndarray, trans: str) -> np.ndarray:
        """op(A) x."""
        assert self.A is not None
        if trans == "N":
            return self.A @ x
        if trans == "T":
            return self.A.T @ x
        return (self.A.T @ x.conj()).conj()

    def _substitute(self, x: Any, b: Any, trans: str) -> None:
        side = "N" if trans == "N" else "T"
        if (order := self._gather[side]) is not None:
            x[...] = (x if b is None else b)[order]
            b = None
        self._chains[side].solve(x, trans, b)
        if (order := self._scatter[side]) is not None:
            x[...] = x[order]


def _chosen(factors: Factors, options: Options, algorithm: str) -> tuple[str, str]:
    """(name, reason) of the algorithm for these factors."""
    return choose(
        factors.triangles,
        algorithm,
        options.device_kind,
        expected_solves=options.expected_solves,
        deterministic=options.deterministic,
    )


def _mapped_matrix(A: Any, move: Any) -> Any:
    arrays = tuple(move(a) for a in (A.data, A.indices, A.indptr))
    make = cuda.csr_matrix if on_gpu(arrays[0]) else sp.csr_array
    return make(arrays, shape=A.shape)


def _restore(
    arguments: tuple[Any, ...], analysis_ms: float, factorization_ms: float
) -> Application:
    built = Application(*arguments)
    built._wait()
    built.analysis_ms, built.factorization_ms = analysis_ms, factorization_ms
    return built


def _inverse(perm: np.ndarray | None) -> np.ndarray | None:
    return None if perm is None else perm.argsort()
