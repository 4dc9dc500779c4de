"""z = M r: one multigrid cycle from zero, as an operator of SciPy and of cupyx."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from gpuilu.backend import cuda, namespace
from gpuilu.errors import ShapeMismatchError
from gpuilu.vectors import as_array, result_dtype

__all__ = ["CyclePreconditioner"]


class CyclePreconditioner(LinearOperator):
    """One cycle as M for SciPy's and cupyx's solvers; NumPy in, NumPy out; CuPy in, CuPy out.

    It computes in the hierarchy's dtype, so a float32 hierarchy may precondition a float64 system:
    the result has the dtype of the vector.
    """

    kind = "amg"

    def __init__(self, hierarchy: Any, cycle: str) -> None:
        super().__init__(hierarchy.dtype, hierarchy.shape)
        self.hierarchy, self.cycle = hierarchy, cycle

    @property
    def device(self) -> str:
        """Where the cycle runs."""
        return self.hierarchy.device

    def matvec(self, x: Any) -> Any:
        """M x for x of shape (n,) or (n, 1): a new array."""
        n, x = self.shape[0], as_array(x)
        if x.shape not in ((n,), (n, 1)):
            raise ShapeMismatchError(f"expected a vector of shape ({n},), found {x.shape}")
        hierarchy, here = self.hierarchy, cuda.place_of(x)
        if x.dtype.kind == "c" and hierarchy.dtype.kind != "c":
            return self.matvec(x.real) + 1j * self.matvec(x.imag)
        dtype = result_dtype(x.dtype, hierarchy.dtype)
        with cuda.on(hierarchy.device):
            flat = namespace(x).ascontiguousarray(x.reshape(-1), dtype=hierarchy.dtype)
            z = hierarchy.apply(cuda.placed(flat, hierarchy.device), self.cycle)
            z = cuda.placed(z, here)
        return z.astype(dtype, copy=False).reshape(x.shape)

    def matmat(self, X: Any) -> Any:
        """M X, column by column."""
        X = as_array(X)
        if X.ndim != 2:
            raise ShapeMismatchError(f"expected a 2-d array, found shape {X.shape}")
        columns = [self.matvec(X[:, c]) for c in range(X.shape[1])]
        xp = namespace(X)
        return xp.stack(columns, axis=1) if columns else xp.empty(X.shape, self.dtype)

    _matvec, _matmat = matvec, matmat

    def dot(self, x: Any) -> Any:
        """M x for an array; the product or scaled operator for an operator or a scalar."""
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().dot(x)
        x = as_array(x)
        return self.matvec(x) if x.ndim == 1 else self.matmat(x)

    def __matmul__(self, x: Any) -> Any:
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def __mul__(self, x: Any) -> Any:
        return self.dot(x)
