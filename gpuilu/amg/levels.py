"""A, P, R, smoothers and vectors of one level of a hierarchy, on one device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuilu.amg.smoothers import recipe_of
from gpuilu.amg.spectrum import spectral_radius
from gpuilu.backend import cuda, namespace
from gpuilu.csr import CSR, INDEX_MAX, canonical
from gpuilu.errors import InvalidMatrixError, OptionError
from gpuilu.products import Dense, Product
from gpuilu.relaxation import Recipe, System, Vectors
from gpuilu.relaxation.block import in_blocks
from gpuilu.relaxation.jacobi import diagonal_of

__all__ = ["Level", "Recipes", "coarse_inverse", "levels_of"]

Recipes = tuple[Recipe, Recipe]


class Level:
    """One level: x <- x + (a cycle from here down) (b - A x) on `vectors`.

    Parameters
    ----------
    A : CSR
        The level's matrix, on the device and in the hierarchy's dtype.
    recipes : (Recipe, Recipe) or None
        Pre- and postsmoother; None on the coarsest level.
    P, R : Product or None
    algorithm : str
        Triangular-solve algorithm of the smoothers.

    Attributes
    ----------
    dense : dict
        By kind of cycle: the whole cycle from here down, from x = 0, as one dense matrix. On the
        coarsest level the one under "coarse" is the solve.
    """

    def __init__(
        self,
        A: CSR,
        recipes: Recipes | None = None,
        P: Product | None = None,
        R: Product | None = None,
        algorithm: str = "auto",
    ) -> None:
        self.matrix, self.recipes, self.P, self.R = A, recipes, P, R
        self.A = Product(A.indptr, A.indices, A.data, A.n)
        xp = namespace(A.data)
        self.vectors = Vectors(*(xp.zeros(A.n, A.data.dtype) for _ in range(2)))
        self.dense: dict[Any, Dense] = {}
        self._system = System(A, algorithm)
        if recipes is not None:
            self.pre, self.post = (self._system.relaxation(recipe) for recipe in recipes)

    @property
    def n(self) -> int:
        """Unknowns."""
        return self.matrix.n

    @property
    def is_linear_step(self) -> bool:
        """Whether every smoother has the form x <- x + B (b - A x)."""
        if self.recipes is None:
            return True
        return all(blocks.is_regular for blocks in self._system.all_blocks)

    def check(self) -> None:
        """Raise what the smoothers ran into, if it is known already."""
        if self.recipes is not None:
            self.pre.check()
            self.post.check()

    def refresh(self) -> None:
        """Take up the present values of the matrix: triangles, diagonals, spectral radii."""
        self.dense.clear()
        if self.recipes is None:
            return
        self._system.refresh()
        made = (self.pre, self.post)
        self.recipes = tuple(  # type: ignore[assignment]
            self._rescaled(recipe, smoother)
            for recipe, smoother in zip(self.recipes, made, strict=True)
        )

    def _rescaled(self, recipe: Recipe, made: Any) -> Recipe:
        """Numbers that a spectral radius scales follow the new one."""
        if recipe.rho is None:
            return recipe
        rho = spectral_radius(self.A, self.vectors, self._scaling(recipe))
        ratio = recipe.rho / rho
        powers = range(len(recipe.coefficients), 0, -1)
        scaled = (c * ratio**p for c, p in zip(recipe.coefficients, powers, strict=True))
        new = replace(recipe, omega=recipe.omega * ratio, coefficients=tuple(scaled), rho=rho)
        made.renumber(new)
        return new

    def _scaling(self, recipe: Recipe) -> Product | None:
        """W where the recipe's spectral radius is that of W A, None where it is that of A."""
        if recipe.method == "block_jacobi":
            return self._system.blocks(recipe).W
        if recipe.method == "polynomial":
            return None
        D = diagonal_of(self.matrix)
        zero = D == 0
        D[zero] = 1
        D = 1 / D
        D[zero] = 0
        each = namespace(D).arange(self.n + 1, dtype=np.int32)
        return Product(each, each[:-1], D, self.n)


def levels_of(ml: Any, device: str, algorithm: str) -> list[Level]:
    """The levels of a pyamg hierarchy, moved to a device."""
    dtype = np.result_type(*(level.A.dtype for level in ml.levels))
    made = []
    for level in ml.levels[:-1]:
        recipes = tuple(recipe_of(f, level.A) for f in (level.presmoother, level.postsmoother))
        sizes = {recipe.blocksize for recipe in recipes if recipe.is_by_blocks}
        if len(sizes) > 1:
            raise OptionError(f"the smoothers of one level have blocks of {sorted(sizes)}")
        A = in_blocks(level.A, sizes.pop()) if sizes else canonical(level.A)
        A = A.owned(device, dtype)
        P, R = (_rectangular(M, dtype, device) for M in (level.P, level.R))
        made.append(Level(A, recipes, P, R, algorithm))  # type: ignore[arg-type]
    made.append(Level(canonical(ml.levels[-1].A).owned(device, dtype)))
    return made


def _rectangular(M: Any, dtype: np.dtype, device: str) -> Product:
    """A SciPy matrix of any shape and format as a product on a device."""
    C = M.tocsr()
    if C.nnz + max(C.shape) > INDEX_MAX:
        raise InvalidMatrixError(f"{C.nnz} entries do not fit 32-bit indices")
    indptr, indices, data = (
        cuda.placed(np.array(a, dtype=kind), device)
        for a, kind in ((C.indptr, np.int32), (C.indices, np.int32), (C.data, dtype))
    )
    return Product(indptr, indices, data, C.shape[1])


def coarse_inverse(solver: Any, A: Any) -> np.ndarray:
    """The dense matrix of a linear coarse solver, b -> solver(A, b), column by column.

    Raises
    ------
    OptionError
        If the solver is not linear to rounding.
    """
    n, dtype = A.shape[0], A.dtype
    K = np.zeros((n, n), dtype)
    for j in range(n):
        e = np.zeros(n, dtype)
        e[j] = 1
        K[:, j] = np.ravel(solver(A, e))
    b = np.random.default_rng(0).standard_normal(n).astype(dtype)
    x = np.ravel(solver(A, b))
    error = np.linalg.norm(K @ b - x)
    if not error <= np.finfo(dtype).eps ** 0.75 * np.linalg.norm(x):
        raise OptionError(
            f"the coarse solver {solver!r} is not linear, so it cannot become a matrix; pass "
            "coarse_solver='pinv' or another direct solver"
        )
    return K
