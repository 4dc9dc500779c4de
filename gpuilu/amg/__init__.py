"""pyamg with this package's smoothers, and pyamg's hierarchies on a GPU."""

from gpuilu.amg.hierarchy import Hierarchy, to_gpu
from gpuilu.amg.smoothers import Smoother, change_smoothers, change_solve_matrix, smoother

__all__ = [
    "Hierarchy",
    "Smoother",
    "change_smoothers",
    "change_solve_matrix",
    "smoother",
    "to_gpu",
]
