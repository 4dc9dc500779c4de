"""x <- x + B (b - A x) as pyamg calls it: smoothers for the levels of a pyamg hierarchy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.amg.specs import adjoint_pair, read_recipe, recipe_for
from gpuilu.backend import cuda
from gpuilu.csr import canonical
from gpuilu.errors import OptionError, ShapeMismatchError, UnsupportedDtypeError
from gpuilu.options import settled_device
from gpuilu.relaxation import Recipe, Relaxation, System, Vectors
from gpuilu.relaxation.block import in_blocks

__all__ = ["Smoother", "change_smoothers", "change_solve_matrix", "recipe_of", "smoother"]


class _Systems:
    """What the two smoothers of one matrix share; made anew for another matrix."""

    def __init__(self, device: str | int, algorithm: str) -> None:
        self.device, self.algorithm = device, algorithm
        self._A: Any = None
        self._made: dict[int, System] = {}

    def of(self, A: Any, recipe: Recipe) -> System:
        if A is not self._A:
            self._A, self._made = A, {}
        k = recipe.blocksize if recipe.is_by_blocks else 1
        if k not in self._made:
            C = in_blocks(A, k) if k > 1 else canonical(A)
            device, _ = settled_device(self.device, C)
            with cuda.on(device):
                self._made[k] = System(C.owned(device), self.algorithm)
        return self._made[k]


class Smoother:
    """A callable f(A, x, b) that changes x in place: what pyamg wants as a smoother.

    Prepared for one matrix; called with another one, it prepares itself for that.

    Attributes
    ----------
    spec : str, (str, dict) or None
        What it was made from.
    recipe : Recipe
        The method and the numbers in use.
    n_skipped : int
        Rows that are left as they are because their diagonal entry is zero or not stored.
    """

    def __init__(self, A: Any, spec: Any, systems: _Systems) -> None:
        self.spec, self._systems = spec, systems
        self.prepare(A)

    def prepare(self, A: Any) -> None:
        """Analyse A and take its numbers."""
        recipe = recipe_for(A, self.spec)
        system = self._systems.of(A, recipe)
        with cuda.on(system.A.device):
            self._relaxation: Relaxation = system.relaxation(recipe)
        self.recipe, self.device, self._A = recipe, system.A.device, A

    @property
    def n_skipped(self) -> int:
        """Rows that are left as they are."""
        return self._relaxation.n_skipped

    def __call__(self, A: Any, x: np.ndarray, b: np.ndarray) -> None:
        """Relax A x = b in place."""
        if A is not self._A:
            self.prepare(A)
        n = A.shape[0]
        if x.shape not in ((n,), (n, 1)) or b.shape not in ((n,), (n, 1)):
            raise ShapeMismatchError(
                f"expected x and b of shape ({n},) or ({n}, 1), found {x.shape} and {b.shape}"
            )
        if not A.dtype == x.dtype == b.dtype:
            raise UnsupportedDtypeError(
                f"A, x and b must have one dtype, as in pyamg; found {A.dtype}, {x.dtype} and "
                f"{b.dtype}"
            )
        with cuda.on(self.device):
            flat = (np.ascontiguousarray(a).reshape(-1) for a in (x, b))
            v = Vectors(*(cuda.placed(a, self.device) for a in flat))
            self._relaxation(v)
            result = cuda.placed(v.x, "cpu")
            self._relaxation.check()
        if not np.may_share_memory(result, x):
            x[...] = result.reshape(x.shape)

    @property
    def __name__(self) -> str:
        # pyamg's rebuild_smoother looks here, and would put its own smoother in this one's place.
        raise AttributeError(
            "pyamg cannot rebuild a smoother of gpuilu: call gpuilu.amg.change_solve_matrix(ml, A) "
            "instead of ml.change_solve_matrix(A)"
        )

    def __repr__(self) -> str:
        return f"<gpuilu smoother {self.spec!r} for order {self._A.shape[0]} on {self.device}>"


def smoother(A: Any, spec: Any, *, device: str | int = "auto", algorithm: str = "auto") -> Smoother:
    """A smoother for one level: ``level.presmoother = smoother(level.A, "gauss_seidel")``.

    Parameters
    ----------
    A : SciPy sparse matrix, shape (n, n)
        In CSR or BSR format, which decides what a block is.
    spec : str, (str, dict) or None
        As for `change_smoothers`.
    device, algorithm : str
        As for `gpuilu.ilu0`.

    Returns
    -------
    Smoother
        Set ``ml.symmetric_smoothing = True`` where pre- and postsmoother fit for CG.
    """
    return Smoother(A, spec, _Systems(device, algorithm))


def change_smoothers(
    ml: Any,
    presmoother: Any,
    postsmoother: Any,
    *,
    device: str | int = "auto",
    algorithm: str = "auto",
) -> None:
    """Put smoothers of this package into a pyamg hierarchy, under pyamg's names.

    Parameters
    ----------
    ml : pyamg.MultilevelSolver
        Changed in place; `ml.symmetric_smoothing` says whether its cycle may precondition CG.
    presmoother, postsmoother : str, (str, dict), None, or a list of these
        A name or ("name", options) for all levels, or one for each, the last one for the rest. The
        names "gauss_seidel", "block_gauss_seidel", "sor", "jacobi", "block_jacobi", "chebyshev" and
        "richardson" have pyamg's options, defaults and meaning, down to its "sor", which ignores
        omega for sweep="symmetric" and for BSR matrices. "ssor" (omega, iterations) honours it.
        "ilu0" (iterations, pivot, missing_diagonal) is x <- x + (L U)^-1 (b - A x).
    device : {"auto", "cpu", "cuda", "cuda:N"} or int
        Where the smoothers run; pyamg's vectors are on the host and go there and back in every
        call. A hierarchy that stays on the GPU is what `to_gpu` makes.
    algorithm : str
        Triangular-solve algorithm, as for `gpuilu.ilu0`.

    Raises
    ------
    OptionError
        For an unknown name or option.

    Notes
    -----
    On BSR levels "gauss_seidel" and "jacobi" act on single unknowns, the block methods on blocks.
    Rows with a zero diagonal are skipped, as in pyamg; `Smoother.n_skipped` counts them.
    """
    levels = ml.levels[:-1]
    pairs = list(zip(_one_each(presmoother, levels), _one_each(postsmoother, levels), strict=True))
    made = []
    for level, pair in zip(levels, pairs, strict=True):
        systems = _Systems(device, algorithm)
        made.append([Smoother(level.A, spec, systems) for spec in pair])
    for level, (pre, post) in zip(levels, made, strict=True):
        level.presmoother, level.postsmoother = pre, post
    ml.symmetric_smoothing = all(adjoint_pair(pre.recipe, post.recipe) for pre, post in made)


def change_solve_matrix(ml: Any, A: Any) -> None:
    """Let the hierarchy solve with another matrix on its finest level.

    Parameters
    ----------
    ml : pyamg.MultilevelSolver
    A : SciPy sparse matrix
        The coarse levels stay as they are.

    Notes
    -----
    pyamg's own method rebuilds smoothers by name, with default options, and knows its own ones
    alone. Here smoothers of this package keep their options; others are left as they are.
    """
    finest = ml.levels[0]
    if A.shape != finest.A.shape:
        raise ShapeMismatchError(f"expected a matrix of {finest.A.shape}, found {A.shape}")
    for f in (finest.presmoother, finest.postsmoother):
        if isinstance(f, Smoother):
            f.prepare(A)
    finest.A = A


def recipe_of(f: Any, A: Any) -> Recipe:
    """The recipe of a level's smoother, ours or pyamg's, for the level's matrix."""
    if not isinstance(f, Smoother):
        return read_recipe(f, A)
    return f.recipe if f._A is A else recipe_for(A, f.spec)


def _one_each(given: Any, levels: list[Any]) -> list[Any]:
    """One smoother for each level."""
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise OptionError("a list of smoothers must not be empty")
    return (listed + [listed[-1]] * len(levels))[: len(levels)]
