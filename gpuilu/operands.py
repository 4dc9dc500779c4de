"""Sparse matrices and operators beside M in a product, of SciPy or of cupyx."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from gpuilu.backend import cuda, is_cupy

__all__ = ["as_operator", "is_operator"]


def is_operator(x: Any) -> bool:
    """Whether x is a sparse matrix of either library, or an operator of cupyx."""
    if sp.issparse(x):
        return True
    return is_cupy(x) and (hasattr(x, "tocsr") or hasattr(x, "matvec"))


def as_operator(x: Any, like: Any = None) -> Any:
    """x as a LinearOperator of the library that `like` (default: x itself) belongs to."""
    if is_cupy(x if like is None else like):
        return cuda.as_cupyx_operator(x)
    return aslinearoperator(x)
