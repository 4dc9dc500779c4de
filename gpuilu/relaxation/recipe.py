"""Which relaxation, with which numbers: a description, and what turns it into one for a matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuilu.csr import CSR
from gpuilu.relaxation.base import Nothing, Relaxation
from gpuilu.relaxation.block import BlockGaussSeidel, BlockJacobi, Blocks
from gpuilu.relaxation.gauss_seidel import GaussSeidel, PointSplitting
from gpuilu.relaxation.incomplete import Incomplete
from gpuilu.relaxation.jacobi import Jacobi
from gpuilu.relaxation.polynomial import Polynomial

__all__ = ["Recipe", "System"]


@dataclass(frozen=True, eq=False)
class Recipe:
    """A relaxation before it has a matrix; every number is the one that is used.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    sweep : {"forward", "backward", "symmetric"}
    omega : float
        Weight of Jacobi, of block Jacobi and of the sweeps.
    iterations : int
    coefficients : tuple of float
        Of a polynomial, in descending order of the power of A.
    blocksize : int
    Dinv : ndarray, shape (n / blocksize, blocksize, blocksize), optional
        Inverses of the diagonal blocks; computed if absent.
    pivot, missing_diagonal : str
        As for `gpuilu.ilu0`.
    rho : float or None
        The spectral radius, of A for a polynomial or of D^-1 A, that the numbers are scaled by.
    """

    method: str
    sweep: str = "forward"
    omega: float = 1.0
    iterations: int = 1
    coefficients: tuple[float, ...] = ()
    blocksize: int = 1
    Dinv: Any = None
    pivot: str = "raise"
    missing_diagonal: str = "raise"
    rho: float | None = None

    @property
    def is_by_blocks(self) -> bool:
        """Whether the matrix must have a pattern of whole blocks."""
        return self.method.startswith("block_")


class System:
    """A matrix and the parts that its relaxations share.

    Parameters
    ----------
    A : CSR
        With a pattern of whole blocks, where a recipe is by blocks. `refresh` reads its arrays
        again.
    algorithm : str
        Triangular-solve algorithm, or "auto".
    """

    def __init__(self, A: CSR, algorithm: str = "auto") -> None:
        self.A, self.algorithm = A, algorithm
        self._splitting: PointSplitting | None = None
        self._blocks: dict[int, Blocks] = {}
        self._made: list[Relaxation] = []

    def relaxation(self, recipe: Recipe) -> Relaxation:
        """The relaxation that a recipe describes, for this matrix."""
        made = METHODS[recipe.method](self, recipe)
        self._made.append(made)
        return made

    def refresh(self) -> None:
        """Take up the present values of the matrix in every relaxation made."""
        shared: list[Any] = [*self._blocks.values()]
        if self._splitting is not None:
            shared.append(self._splitting)
        for part in [*shared, *self._made]:
            part.refresh()

    @property
    def all_blocks(self) -> list[Blocks]:
        """The block rows of every size in use."""
        return list(self._blocks.values())

    @property
    def splitting(self) -> PointSplitting:
        """L + D + U."""
        if self._splitting is None:
            self._splitting = PointSplitting(self.A, self.algorithm)
        return self._splitting

    def blocks(self, recipe: Recipe) -> Blocks:
        """The block rows, scaled by the inverses of their diagonal blocks."""
        k = recipe.blocksize
        if k not in self._blocks:
            self._blocks[k] = Blocks(self.A, k, recipe.Dinv, self.algorithm)
        return self._blocks[k]


METHODS: dict[str, Callable[[System, Recipe], Relaxation]] = {
    "none": lambda system, recipe: Nothing(),
    "gauss_seidel": lambda system, recipe: GaussSeidel(
        system.splitting, recipe.sweep, recipe.omega, recipe.iterations
    ),
    "jacobi": lambda system, recipe: Jacobi(system.A, recipe.omega, recipe.iterations),
    "polynomial": lambda system, recipe: Polynomial(
        system.A, recipe.coefficients, recipe.iterations
    ),
    "block_gauss_seidel": lambda system, recipe: BlockGaussSeidel(
        system.blocks(recipe), recipe.sweep, recipe.iterations
    ),
    "block_jacobi": lambda system, recipe: BlockJacobi(
        system.blocks(recipe), recipe.omega, recipe.iterations
    ),
    "ilu0": lambda system, recipe: Incomplete(
        system.A, recipe.pivot, recipe.missing_diagonal, system.algorithm, recipe.iterations
    ),
}
