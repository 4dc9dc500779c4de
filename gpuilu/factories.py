"""M for A: the functions that make preconditioners, and the triangular solver."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuilu.application import Application
from gpuilu.backend import cuda
from gpuilu.csr import CSR, canonical
from gpuilu.errors import require_integer
from gpuilu.factor.base import Factorization
from gpuilu.factor.given import GivenFactors, GivenTriangle, pair_of
from gpuilu.factor.ilu0 import ILU0
from gpuilu.factor.splitting import Splitting
from gpuilu.options import Options
from gpuilu.preconditioner import Preconditioner

__all__ = ["TriangularSolver", "from_factors", "gauss_seidel", "ilu0", "sor", "ssor"]

_KEYWORDS = """algorithm : str
        Triangular-solve algorithm: "auto"; "measure", which times all of them and keeps the
        fastest (a longer set-up, and a choice that may vary); or a name: on the CPU "serial" or
        "level", on a GPU "row", "blocked" and others.
    device : {"auto", "cpu", "cuda", "cuda:N"} or int
        Where the factors live. "auto": a cupyx matrix stays on its GPU; a SciPy matrix goes to the
        current GPU, if there is one, from 100,000 rows on. `info.device_reason` tells.
    factor_dtype : dtype, optional
        Store the factors in another dtype, for instance float32 under a float64 operator: half
        the memory traffic for a preconditioner of about the same quality.
    expected_solves : int
        Applies over which an analysis may be paid back; "auto" weighs it.
    deterministic : bool
        Refuse algorithms whose last bits vary from run to run."""

_ERRORS = """InvalidMatrixError
        If A is not a well-formed square sparse matrix.
    MissingDiagonalError
        If a diagonal entry is not stored and `missing_diagonal` is "raise".
    ZeroPivotError
        If a pivot is zero or a factor entry is not finite; `.row` is the smallest such row.
    UnsupportedDtypeError, OptionError, UnknownAlgorithmError, UnsupportedAlgorithmError
        If a keyword cannot be honoured."""


def _documented(function: Any) -> Any:
    """Put what all factories share into a docstring."""
    function.__doc__ = function.__doc__.replace("{keywords}", _KEYWORDS).replace(
        "{errors}", _ERRORS
    )
    return function


@_documented
def ilu0(
    A: Any,
    *,
    pivot: str = "raise",
    missing_diagonal: str = "raise",
    algorithm: str = "auto",
    device: str | int = "auto",
    factor_dtype: Any = None,
    expected_solves: int = 100,
    deterministic: bool = True,
) -> Preconditioner:
    """(L U)_ij = a_ij on the pattern of A: incomplete LU without fill, ILU(0).

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any SciPy or cupyx format, real or complex. Explicit zeros belong to the pattern.
    pivot : {"raise", "boost", "shift"}
        What a bad pivot does. "raise": a zero pivot is an error. "boost": pivots smaller than
        sqrt(eps) times the largest entry of their row are raised to that, keeping sign or phase.
        "shift": A + s I is factored instead, with the first of s = 0, t, 2t, 4t, ... that works,
        t = max|a_ij| / 1000. `info` counts what was changed.
    missing_diagonal : {"raise", "insert"}
        What a diagonal entry that is not stored does; "insert" puts an explicit zero there.
    {keywords}

    Returns
    -------
    Preconditioner
        With ``M.L`` unit lower and ``M.U`` upper triangular.

    Raises
    ------
    {errors}

    Notes
    -----
    Cost: one pass over the rows, O(sum over entries (i, k) of the length of row k). Memory: two
    copies of the pattern and one of the values.

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithm 10.4.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, gpuilu
    >>> A = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(3, 3)).tocsr()
    >>> M = gpuilu.ilu0(A)
    >>> np.allclose(A @ M.matvec(np.ones(3)), 1.0)  # tridiagonal: ILU(0) is exact
    True
    """
    options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
    return _from_matrix(A, options, lambda C: ILU0(C, pivot, missing_diagonal))


@_documented
def gauss_seidel(
    A: Any,
    *,
    sweep: str = "symmetric",
    iterations: int = 1,
    missing_diagonal: str = "raise",
    algorithm: str = "auto",
    device: str | int = "auto",
    factor_dtype: Any = None,
    expected_solves: int = 100,
    deterministic: bool = True,
) -> Preconditioner:
    """M = D + L, D + U, or (D + L) D^-1 (D + U): Gauss-Seidel sweeps from x = 0.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any SciPy or cupyx format, real or complex; L, D, U are its strict triangles and diagonal.
    sweep : {"symmetric", "forward", "backward"}
        Only the symmetric sweep of a Hermitian A may precondition CG.
    iterations : int
        Sweeps composed into one apply; more than one keeps A.
    missing_diagonal : {"raise", "insert"}
        What a diagonal entry that is not stored does; an inserted zero is a zero pivot here.
    {keywords}

    Returns
    -------
    Preconditioner
        Forward: ``M.L`` is D + L and ``M.U`` None; backward the other way; symmetric: both,
        ``M.L`` unit lower.

    Raises
    ------
    {errors}

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.2.
    """
    options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
    return _from_matrix(
        A,
        options,
        lambda C: Splitting(C, "gauss_seidel", sweep, 1.0, missing_diagonal),
        iterations,
    )


@_documented
def sor(
    A: Any,
    *,
    omega: float,
    sweep: str = "forward",
    iterations: int = 1,
    missing_diagonal: str = "raise",
    algorithm: str = "auto",
    device: str | int = "auto",
    factor_dtype: Any = None,
    expected_solves: int = 100,
    deterministic: bool = True,
) -> Preconditioner:
    """M = D/omega + L or D/omega + U: successive over-relaxation from x = 0.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any SciPy or cupyx format, real or complex; L, D, U are its strict triangles and diagonal.
    omega : float
        Relaxation, strictly between 0 and 2.
    sweep : {"forward", "backward", "symmetric"}
        "symmetric" is the same as `ssor`.
    iterations : int
        Sweeps composed into one apply; more than one keeps A.
    missing_diagonal : {"raise", "insert"}
        What a diagonal entry that is not stored does; an inserted zero is a zero pivot here.
    {keywords}

    Returns
    -------
    Preconditioner

    Raises
    ------
    {errors}

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 4.1.
    """
    options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
    return _from_matrix(
        A, options, lambda C: Splitting(C, "sor", sweep, omega, missing_diagonal), iterations
    )


@_documented
def ssor(
    A: Any,
    *,
    omega: float = 1.0,
    iterations: int = 1,
    missing_diagonal: str = "raise",
    algorithm: str = "auto",
    device: str | int = "auto",
    factor_dtype: Any = None,
    expected_solves: int = 100,
    deterministic: bool = True,
) -> Preconditioner:
    """M = omega/(2 - omega) (D/omega + L) D^-1 (D/omega + U): symmetric SOR.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any SciPy or cupyx format, real or complex; L, D, U are its strict triangles and diagonal.
    omega : float
        Relaxation, strictly between 0 and 2.
    iterations : int
        Double sweeps composed into one apply; more than one keeps A.
    missing_diagonal : {"raise", "insert"}
        What a diagonal entry that is not stored does; an inserted zero is a zero pivot here.
    {keywords}

    Returns
    -------
    Preconditioner
        With ``M.L`` unit lower, ``M.U`` upper triangular and ``M.L @ M.U`` = M.

    Raises
    ------
    {errors}

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.2.
    """
    options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
    return _from_matrix(
        A,
        options,
        lambda C: Splitting(C, "ssor", "symmetric", omega, missing_diagonal),
        iterations,
    )


@_documented
def from_factors(
    L: Any,
    U: Any = None,
    perm_r: Any = None,
    perm_c: Any = None,
    *,
    algorithm: str = "auto",
    device: str | int = "auto",
    factor_dtype: Any = None,
    expected_solves: int = 100,
    deterministic: bool = True,
) -> Preconditioner:
    """P_r A P_c = L U from factors computed elsewhere, or from a SciPy `SuperLU`.

    Parameters
    ----------
    L : sparse matrix, shape (n, n), or SuperLU
        Lower triangular with its diagonal stored; or the result of `scipy.sparse.linalg.splu` or
        `spilu`, alone.
    U : sparse matrix, shape (n, n)
        Upper triangular with a diagonal free of zeros.
    perm_r, perm_c : array_like of int, shape (n,), optional
        Row and column permutations as SciPy's SuperLU defines them.
    {keywords}

    Returns
    -------
    Preconditioner

    Raises
    ------
    {errors}
    NotTriangularError
        If L or U has an entry in the wrong triangle.

    Notes
    -----
    ``M.L`` and ``M.U`` are the factors as given, without the permutations.
    """
    options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
    start = time.perf_counter()
    source = L if U is None else (L, U)
    options = options.for_matrix(canonical(pair_of(source)[0]))
    with cuda.on(options.device):
        factorization = GivenFactors(source, perm_r, perm_c, options.device, options.widened)
        return _assembled(factorization, source, options, start, factorization.given_dtype)


class TriangularSolver(Preconditioner):
    """Solve T x = b for a sparse triangular matrix T, again and again.

    Parameters
    ----------
    T : sparse matrix or array, shape (n, n)
        Triangular; an entry in the other triangle is an error.
    lower : bool
        Whether T is lower (default) or upper triangular.
    unit_diagonal : bool
        Take the diagonal as ones; a stored one is ignored and none need be stored.
    algorithm, device, factor_dtype, expected_solves, deterministic
        As for `ilu0`.

    Raises
    ------
    NotTriangularError
        At the first entry, row by row, in the wrong triangle.
    InvalidMatrixError, MissingDiagonalError, UnsupportedDtypeError, OptionError

    Notes
    -----
    Substitution is exact: ``|b - T x| <= c nnz_row eps (|T| |x|)`` by rows. A zero or NaN on the
    diagonal is not an error here: Inf and NaN propagate into the solution.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, gpuilu
    >>> T = sp.csr_array([[2.0, 0.0], [1.0, 4.0]])
    >>> gpuilu.TriangularSolver(T).solve([2.0, 9.0])
    array([1., 2.])
    """

    def __init__(
        self,
        T: Any,
        *,
        lower: bool = True,
        unit_diagonal: bool = False,
        algorithm: str = "auto",
        device: str | int = "auto",
        factor_dtype: Any = None,
        expected_solves: int = 100,
        deterministic: bool = True,
    ) -> None:
        options = Options.checked(algorithm, device, factor_dtype, expected_solves, deterministic)
        made = _from_matrix(T, options, lambda C: GivenTriangle(C, lower, unit_diagonal))
        super().__init__(made._application)


def _from_matrix(
    A: Any,
    options: Options,
    symbolic: Callable[[CSR], Factorization],
    iterations: int = 1,
) -> Preconditioner:
    """Gate, symbolic phase, numeric phase, plans."""
    iterations = require_integer("iterations", iterations)
    start = time.perf_counter()
    C = canonical(A)
    options = options.for_matrix(C)
    with cuda.on(options.device):
        wide = options.widened(C.to(options.device))
        return _assembled(symbolic(wide), wide, options, start, C.data.dtype, iterations)


def _assembled(
    factorization: Factorization,
    source: Any,
    options: Options,
    start: float,
    dtype: np.dtype,
    iterations: int = 1,
) -> Preconditioner:
    symbolic_ms = (time.perf_counter() - start) * 1e3
    application = Application.build(factorization, source, dtype, options, iterations)
    application.analysis_ms += symbolic_ms
    return Preconditioner(application)
