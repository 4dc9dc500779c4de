"""x <- x + B (b - A x): relaxation from any start vector, one method a file."""

from gpuilu.relaxation.base import Relaxation, Vectors
from gpuilu.relaxation.recipe import Recipe, System
from gpuilu.relaxation.relax import relax

__all__ = ["Recipe", "Relaxation", "System", "Vectors", "relax"]
