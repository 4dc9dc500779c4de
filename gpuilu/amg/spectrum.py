"""The spectral radius of A or of W A, by pyamg's estimate; the products stay on their device."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator

from gpuilu.backend import cuda
from gpuilu.products import Product
from gpuilu.relaxation import Vectors

__all__ = ["spectral_radius"]


def spectral_radius(A: Product, v: Vectors, W: Product | None = None) -> float:
    """rho(A), or rho(W A): a few steps of Arnoldi's method from a random vector.

    `v` is overwritten.
    """
    from pyamg.util.linalg import approximate_spectral_radius

    device = cuda.place_of(A.data)

    def matvec(x: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(x.reshape(-1), dtype=A.data.dtype)
        v.x[...] = cuda.placed(flat, device)
        A.combine(v.r, v.x)
        result = v.r
        if W is not None:
            W.combine(v.t, v.r)
            result = v.t
        return np.array(cuda.placed(result, "cpu"))

    operator = LinearOperator((A.n, A.n), matvec, dtype=A.data.dtype)
    return float(approximate_spectral_radius(operator))
