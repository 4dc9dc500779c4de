"""x <- x + B (b - A x): what a relaxation is, and the vectors it works on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gpuilu.backend import namespace

__all__ = ["Relaxation", "Vectors"]


class Vectors:
    """A start vector x, a right-hand side b and scratch, all of one length and dtype.

    A step that cannot be done in place writes to `spare` and calls `swap`: x is then another array.
    """

    def __init__(self, x: Any, b: Any) -> None:
        self.x, self.b = x, b
        xp = namespace(x)
        self.spare, self.r, self.t = (xp.empty_like(x) for _ in range(3))

    def swap(self) -> None:
        """Let the spare vector be x."""
        self.x, self.spare = self.spare, self.x


class Relaxation(ABC):
    """One relaxation for one matrix: prepared once, applied again and again.

    Applying it enqueues work on the current stream, allocates nothing that lasts and waits for
    nothing, so that a CUDA graph can hold it.

    Attributes
    ----------
    n_skipped : int
        Rows that are left as they are because their diagonal entry is zero or not stored.
    """

    n_skipped: int = 0
    iterations: int = 1

    def __call__(self, v: Vectors, *, from_zero: bool = False) -> None:
        """`iterations` steps on v.x; `from_zero` says that x is to be taken as zero."""
        for k in range(self.iterations):
            self.step(v, from_zero=from_zero and k == 0)

    @abstractmethod
    def step(self, v: Vectors, *, from_zero: bool) -> None:
        """One step. With `from_zero` the content of v.x is not read."""

    def refresh(self) -> None:  # noqa: B027
        """Take up new values of the matrix, which are in its arrays already.

        What several relaxations share, `recipe.System` refreshes.
        """

    def renumber(self, recipe: Any) -> None:  # noqa: B027
        """Take omega and coefficients from a new recipe, where there are any."""

    def check(self) -> None:  # noqa: B027
        """Raise what earlier steps ran into, if it is known already."""


class Nothing(Relaxation):
    """x <- x."""

    def step(self, v: Vectors, *, from_zero: bool) -> None:
        if from_zero:
            v.x[...] = 0
