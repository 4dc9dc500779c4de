"""x <- x + B (b - A x), in place, from any start vector: `gpuilu.relax`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, is_cupy, namespace
from gpuilu.csr import CSR, VALUE_DTYPES, canonical
from gpuilu.errors import (
    OptionError,
    ShapeMismatchError,
    UnsupportedDtypeError,
    ZeroPivotError,
    require_choice,
    require_integer,
)
from gpuilu.options import resolve_device
from gpuilu.relaxation.base import Relaxation, Vectors
from gpuilu.relaxation.block import in_blocks
from gpuilu.relaxation.jacobi import diagonal_of
from gpuilu.relaxation.recipe import Recipe, System
from gpuilu.vectors import as_array

__all__ = ["relax"]

SWEEPS = ("forward", "backward", "symmetric")
METHODS = {
    "gauss_seidel": "gauss_seidel",
    "sor": "gauss_seidel",
    "ssor": "gauss_seidel",
    "jacobi": "jacobi",
    "block_gauss_seidel": "block_gauss_seidel",
    "block_jacobi": "block_jacobi",
    "ilu0": "ilu0",
}


def relax(
    A: Any,
    x: Any,
    b: Any,
    *,
    method: str = "gauss_seidel",
    sweep: str = "forward",
    omega: float = 1.0,
    iterations: int = 1,
    blocksize: int | None = None,
    zero_diagonal: str = "skip",
    algorithm: str = "auto",
    device: str | int = "auto",
) -> int:
    """x_i <- x_i + omega (b - A x)_i / a_ii and its kin: relax A x = b from x, in place.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
        Any SciPy or cupyx format, real or complex.
    x : ndarray, shape (n,), (n, 1) or (n, nrhs)
        Where the iteration starts, and where its result goes. Any strides.
    b : array_like, shape of x
        Right-hand sides.
    method : {"gauss_seidel", "sor", "ssor", "jacobi", "block_gauss_seidel", "block_jacobi", "ilu0"}
        "ilu0" is x <- x + (L U)^-1 (b - A x), with a matrix whose pivots are not zero.
    sweep : {"forward", "backward", "symmetric"}
        For "gauss_seidel", "sor" and "block_gauss_seidel": rows ascending, descending, or first
        the one and then the other. "ssor" is "sor" with both.
    omega : float
        Weight, for "sor", "ssor" (strictly between 0 and 2), "jacobi" and "block_jacobi".
    iterations : int
        How often; k sweeps are the k-fold composition of one.
    blocksize : int, optional
        Unknowns of a block, for the block methods; by default that of a BSR matrix, else 1.
    zero_diagonal : {"skip", "raise"}
        What a point-wise method does with a row whose diagonal entry is zero or not stored: leave
        its x_i as it is and count it, as pyamg does, or raise.
    algorithm, device : str
        As for `ilu0`; the device "auto" is that of x.

    Returns
    -------
    n_skipped : int
        Rows that were left as they were; 0 for the block methods and "ilu0".

    Raises
    ------
    InvalidMatrixError, ShapeMismatchError, UnsupportedDtypeError, OptionError
        If A, x, b or a keyword does not fit. x must have the dtype of the result.
    ZeroPivotError
        With ``zero_diagonal="raise"``; `.row` is the smallest such row.

    Notes
    -----
    The triangles are split off and analysed in every call. Where a matrix is relaxed again and
    again, make a smoother of it once: `gpuilu.amg.smoother`.

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 4.1.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, gpuilu
    >>> A = sp.csr_array([[2.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 2.0]])
    >>> x = np.array([0.0, 5.0, 0.0])
    >>> gpuilu.relax(A, x, [1.0, 2.0, 3.0]), x.tolist()  # row 1 has a zero diagonal
    (1, [-2.0, 5.0, -1.0])
    """
    recipe = _recipe(A, method, sweep, omega, iterations, blocksize)
    require_choice("zero_diagonal", zero_diagonal, ("skip", "raise"))
    C = in_blocks(A, recipe.blocksize) if recipe.is_by_blocks else canonical(A)
    b = as_array(b)
    _require_fit(C, x, b)
    name = cuda.place_of(x) if device == "auto" else resolve_device(device)
    with cuda.on(name):
        C = C.to(name)
        C = C.with_data(C.data.astype(x.dtype, copy=False))
        if zero_diagonal == "raise" and METHODS[method] in ("gauss_seidel", "jacobi"):
            _require_diagonal(C)
        made = System(C, algorithm).relaxation(recipe)
        if x.size:
            _run(made, x, b, name)
    return made.n_skipped


def _recipe(
    A: Any, method: str, sweep: str, omega: float, iterations: int, blocksize: int | None
) -> Recipe:
    require_choice("method", method, tuple(METHODS))
    require_choice("sweep", sweep, SWEEPS)
    weighted = method not in ("gauss_seidel", "block_gauss_seidel", "ilu0")
    if omega != 1 and not weighted:
        raise OptionError(f"{method} has no omega; found {omega!r}")
    if weighted and method.endswith("sor") and not 0.0 < omega < 2.0:
        raise OptionError(f"omega must lie strictly between 0 and 2, found {omega!r}")
    if blocksize is None:
        blocksize = A.blocksize[0] if getattr(A, "format", "") == "bsr" else 1
    return Recipe(
        METHODS[method],
        sweep="symmetric" if method == "ssor" else sweep,
        omega=float(omega),
        iterations=require_integer("iterations", iterations),
        blocksize=require_integer("blocksize", blocksize),
    )


def _require_fit(C: CSR, x: Any, b: Any) -> None:
    if not (isinstance(x, np.ndarray) or is_cupy(x)) or x.dtype not in VALUE_DTYPES:
        found = getattr(x, "dtype", type(x).__name__)
        raise UnsupportedDtypeError(
            f"x is changed in place: expected a NumPy or CuPy array of float32, float64, complex64 "
            f"or complex128, found {found}"
        )
    if x.ndim not in (1, 2) or x.shape[0] != C.n or x.shape != b.shape:
        raise ShapeMismatchError(
            f"expected x and b of shape ({C.n},) or ({C.n}, nrhs), found {x.shape} and {b.shape}"
        )
    if isinstance(x, np.ndarray) and not x.flags.writeable:
        raise ShapeMismatchError("x is changed in place, but it is read-only")
    if b.dtype.kind not in "biufc" or np.result_type(C.data.dtype, b.dtype, x.dtype) != x.dtype:
        raise UnsupportedDtypeError(
            f"x of dtype {x.dtype} cannot hold the result for A of {C.data.dtype} and b of "
            f"{b.dtype}; convert it"
        )


def _require_diagonal(C: CSR) -> None:
    zero = diagonal_of(C) == 0
    if zero.any():
        row = int(zero.argmax())
        raise ZeroPivotError(
            f"the diagonal entry of row {row} is zero or not stored ({int(zero.sum())} of {C.n} "
            "rows); zero_diagonal='skip' leaves such rows as they are",
            row,
            0.0,
        )


def _run(made: Relaxation, x: Any, b: Any, device: str) -> None:
    """Column by column on the device, then back into x."""
    columns, right = (a[:, None] if a.ndim == 1 else a for a in (x, b))
    for c in range(columns.shape[1]):
        start = namespace(x).array(columns[:, c], order="C")
        vectors = (start, namespace(b).ascontiguousarray(right[:, c], dtype=x.dtype))
        v = Vectors(*(cuda.placed(a, device) for a in vectors))
        made(v)
        columns[:, c] = cuda.placed(v.x, cuda.place_of(x))
    if device != "cpu":
        cuda.synchronize()
    made.check()
