"""Smoothers by pyamg's names and options: ("jacobi", {"omega": 4 / 3}) becomes a recipe.

The numbers that pyamg takes from spectral radii and diagonal blocks come from pyamg's own
functions, which keep them on the matrix, so that both packages use the same ones.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from gpuilu.errors import OptionError, require_choice, require_integer
from gpuilu.relaxation import Recipe

__all__ = ["adjoint_pair", "read_recipe", "recipe_for"]

SWEEPS = ("forward", "backward", "symmetric")


def recipe_for(A: Any, spec: Any) -> Recipe:
    """The recipe for a name, a pair (name, options) or None, with the numbers for this matrix.

    Parameters
    ----------
    A : SciPy sparse matrix, shape (n, n)
        CSR or BSR; its format decides what "block_" means, as in pyamg.
    spec : str, (str, dict) or None
    """
    name, options = spec if isinstance(spec, tuple) else (spec, {})
    name = "none" if name is None else name
    if name not in NAMES:
        raise OptionError(f"there is no smoother {name!r}; there are {sorted(NAMES)}")
    make = NAMES[name]
    known = [p for p in inspect.signature(make).parameters if p != "A"]
    for option in options:
        require_choice(f"an option of smoother {name!r}", option, tuple(known))
    recipe = make(A, **options)
    require_choice("sweep", recipe.sweep, SWEEPS)
    require_integer("iterations", recipe.iterations)
    return recipe


def read_recipe(smoother: Any, A: Any) -> Recipe:
    """The recipe of a smoother that pyamg itself has put into a hierarchy."""
    name = getattr(smoother, "__name__", "")
    if isinstance(smoother, functools.partial):
        options = dict(smoother.keywords)
    elif inspect.isfunction(smoother):
        options = dict(inspect.getclosurevars(smoother).nonlocals)
    else:
        options = {}
    if name.startswith("block_") and options.get("Dinv") is None:
        name = name.removeprefix("block_")  # what pyamg makes of blocks of one
    if name not in READERS or not READERS[name][0] <= set(options):
        raise OptionError(
            f"the smoother {smoother!r} cannot be read; put in one of {sorted(NAMES)} with "
            "gpuilu.amg.change_smoothers first"
        )
    return READERS[name][1](A, options)


def adjoint_pair(pre: Recipe, post: Recipe) -> bool:
    """Whether the postsmoother is the adjoint of the presmoother for a Hermitian A, as CG needs."""
    same = ("method", "omega", "iterations", "coefficients", "blocksize", "pivot")
    if any(getattr(pre, name) != getattr(post, name) for name in same):
        return False
    if pre.method not in ("gauss_seidel", "block_gauss_seidel"):
        return True
    pairs = (("forward", "backward"), ("backward", "forward"), ("symmetric", "symmetric"))
    return (pre.sweep, post.sweep) in pairs


# ---- the names ----------------------------------------------------------------------------------


def _none(A: Any) -> Recipe:
    return Recipe("none")


def _gauss_seidel(A: Any, iterations: int = 1, sweep: str = "forward") -> Recipe:
    return Recipe("gauss_seidel", sweep, iterations=iterations)


def _sor(A: Any, omega: float = 0.5, iterations: int = 1, sweep: str = "forward") -> Recipe:
    used = _omega_in_pyamg(A, omega, sweep)
    if used != omega:
        warnings.warn(
            "as in pyamg, 'sor' ignores omega for sweep='symmetric' and for BSR matrices; "
            "'ssor' honours it",
            stacklevel=2,
        )
    return Recipe("gauss_seidel", sweep, used, iterations)


def _omega_in_pyamg(A: Any, omega: float, sweep: str) -> float:
    return 1.0 if sweep == "symmetric" or A.format == "bsr" else float(omega)


def _ssor(A: Any, omega: float = 1.0, iterations: int = 1) -> Recipe:
    if not 0.0 < omega < 2.0:
        raise OptionError(f"omega must lie strictly between 0 and 2, found {omega!r}")
    return Recipe("gauss_seidel", "symmetric", float(omega), iterations)


def _ilu0(
    A: Any, iterations: int = 1, pivot: str = "raise", missing_diagonal: str = "raise"
) -> Recipe:
    return Recipe("ilu0", iterations=iterations, pivot=pivot, missing_diagonal=missing_diagonal)


def _jacobi(A: Any, iterations: int = 1, omega: float = 1.0, withrho: bool = True) -> Recipe:
    from pyamg.relaxation.smoothing import rho_D_inv_A

    rho = float(rho_D_inv_A(A)) if withrho else None
    return Recipe("jacobi", omega=float(omega / (rho or 1.0)), iterations=iterations, rho=rho)


def _block_jacobi(
    A: Any,
    iterations: int = 1,
    omega: float = 1.0,
    Dinv: Any = None,
    blocksize: int | None = None,
    withrho: bool = True,
) -> Recipe:
    from pyamg.relaxation.smoothing import rho_block_D_inv_A

    k, Dinv = _blocks(A, blocksize, Dinv)
    if k == 1:
        return _jacobi(A, iterations, omega, withrho)
    rho = float(rho_block_D_inv_A(A, Dinv)) if withrho else None
    omega = float(omega / (rho or 1.0))
    return Recipe("block_jacobi", "forward", omega, iterations, (), k, Dinv, rho=rho)


def _block_gauss_seidel(
    A: Any,
    iterations: int = 1,
    sweep: str = "forward",
    Dinv: Any = None,
    blocksize: int | None = None,
) -> Recipe:
    k, Dinv = _blocks(A, blocksize, Dinv)
    if k == 1:
        return _gauss_seidel(A, iterations, sweep)
    return Recipe("block_gauss_seidel", sweep, 1.0, iterations, (), k, Dinv)


def _blocks(A: Any, blocksize: int | None, Dinv: Any) -> tuple[int, Any]:
    """(k, inverses of the k x k diagonal blocks)."""
    from pyamg.util.utils import get_block_diag

    if blocksize is None and Dinv is not None:
        blocksize = Dinv.shape[1]
    if blocksize is None:
        blocksize = A.blocksize[0] if A.format == "bsr" else 1
    k = require_integer("blocksize", blocksize)
    if A.shape[0] % k:
        raise OptionError(f"blocks of {k} do not divide a matrix of order {A.shape[0]}")
    if k > 1 and Dinv is None:
        Dinv = get_block_diag(A, blocksize=k, inv_flag=True)
    return k, Dinv


def _richardson(A: Any, iterations: int = 1, omega: float = 1.0) -> Recipe:
    from pyamg.util.linalg import approximate_spectral_radius

    rho = float(approximate_spectral_radius(A))
    return Recipe("polynomial", iterations=iterations, coefficients=(float(omega) / rho,), rho=rho)


def _chebyshev(
    A: Any,
    lower_bound: float = 1.0 / 30.0,
    upper_bound: float = 1.1,
    degree: int = 3,
    iterations: int = 1,
) -> Recipe:
    from pyamg.relaxation.chebyshev import chebyshev_polynomial_coefficients
    from pyamg.util.linalg import approximate_spectral_radius

    rho = float(approximate_spectral_radius(A))
    bounds = (rho * lower_bound, rho * upper_bound)
    with_constant = chebyshev_polynomial_coefficients(*bounds, degree)
    coefficients = tuple(float(-c) for c in with_constant[:-1])
    return Recipe("polynomial", iterations=iterations, coefficients=coefficients, rho=rho)


NAMES: dict[str, Callable[..., Recipe]] = {
    "none": _none,
    "gauss_seidel": _gauss_seidel,
    "block_gauss_seidel": _block_gauss_seidel,
    "sor": _sor,
    "ssor": _ssor,
    "ilu0": _ilu0,
    "jacobi": _jacobi,
    "block_jacobi": _block_jacobi,
    "chebyshev": _chebyshev,
    "richardson": _richardson,
}


# ---- what pyamg has set up ----------------------------------------------------------------------


def _read_sweeps(A: Any, options: dict[str, Any]) -> Recipe:
    sweep = options["sweep"]
    omega = _omega_in_pyamg(A, options.get("omega", 1.0), sweep)
    return Recipe("gauss_seidel", sweep, omega, options["iterations"])


def _read_jacobi(A: Any, options: dict[str, Any]) -> Recipe:
    rho = getattr(A, "rho_D_inv", None)
    return Recipe(
        "jacobi", omega=float(options["omega"]), iterations=options["iterations"], rho=rho
    )


def _read_block_jacobi(A: Any, options: dict[str, Any]) -> Recipe:
    k, rho = options["Dinv"].shape[1], getattr(A, "rho_block_D_inv", None)
    omega, iterations = float(options["omega"]), options["iterations"]
    return Recipe("block_jacobi", "forward", omega, iterations, (), k, options["Dinv"], rho=rho)


def _read_block_sweeps(A: Any, options: dict[str, Any]) -> Recipe:
    k, sweep, iterations = options["Dinv"].shape[1], options["sweep"], options["iterations"]
    return Recipe("block_gauss_seidel", sweep, 1.0, iterations, (), k, options["Dinv"])


def _read_polynomial(A: Any, options: dict[str, Any]) -> Recipe:
    given = options.get("coefficients", [options.get("omega")])
    coefficients = tuple(float(c) for c in given)
    rho = getattr(A, "rho", None)
    return Recipe(
        "polynomial", iterations=options["iterations"], coefficients=coefficients, rho=rho
    )


# By pyamg's name: what must be known of it, and what makes a recipe of that.
READERS: dict[str, tuple[set[str], Callable[[Any, dict[str, Any]], Recipe]]] = {
    "none": (set(), lambda A, options: Recipe("none")),
    "gauss_seidel": ({"iterations", "sweep"}, _read_sweeps),
    "sor": ({"iterations", "sweep", "omega"}, _read_sweeps),
    "jacobi": ({"iterations", "omega"}, _read_jacobi),
    "block_jacobi": ({"iterations", "omega", "Dinv"}, _read_block_jacobi),
    "block_gauss_seidel": ({"iterations", "sweep", "Dinv"}, _read_block_sweeps),
    "chebyshev": ({"iterations", "coefficients"}, _read_polynomial),
    "richardson": ({"iterations", "omega"}, _read_polynomial),
}
