"""y = d z + w (alpha b + beta A x): the product with a matrix and what is added to it, in one pass.

Relaxation and multigrid consist of such passes: residual, restriction, correction, Jacobi. Each
reads A once and allocates nothing; on a GPU it is one launch (kernels/spmv.cu), which a CUDA graph
can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from gpuilu.backend import by_device, cuda, on_gpu
from gpuilu.backend.cpu import njit

__all__ = ["Dense", "Product"]

LANES = (1, 2, 4, 8, 16, 32)  # a row may have


@dataclass(frozen=True, eq=False)
class Product:
    """A sparse matrix by rows, rectangular or square, as something to multiply with.

    Parameters
    ----------
    indptr, indices : int32 array, shapes (n + 1,) and (nnz,)
    data : array, shape (nnz,)
    n_columns : int
    """

    indptr: Any
    indices: Any
    data: Any
    n_columns: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.indices)

    def combine(
        self,
        y: Any,
        x: Any,
        *,
        alpha: float = 1.0,
        b: Any = None,
        beta: float = 1.0,
        w: Any = None,
        d: Any = None,
        z: Any = None,
    ) -> None:
        """y <- d z + w (alpha b + beta A x), on a GPU enqueued on the current stream.

        w and d are vectors, of ones if None; b and z are absent if None. All have the dtype of A.
        y may be b or z, but not x.
        """
        matrix = (self.indptr, self.indices, self.data)
        _combine(*matrix, x, alpha, beta, b, w, d, z, y)

    def residual(self, y: Any, x: Any, b: Any) -> None:
        """y <- b - A x."""
        self.combine(y, x, b=b, beta=-1.0)

    def to_matrix(self) -> Any:
        """The same arrays as a SciPy or cupyx matrix."""
        make = cuda.csr_matrix if on_gpu(self.data) else sp.csr_array
        shape = (self.n, self.n_columns)
        return make((self.data, self.indices, self.indptr), shape=shape)


@dataclass(frozen=True, eq=False)
class Dense:
    """A dense matrix by rows as something to multiply with.

    Parameters
    ----------
    data : array, shape (n, m), C-contiguous
    """

    data: Any

    def combine(
        self,
        y: Any,
        x: Any,
        *,
        alpha: float = 1.0,
        b: Any = None,
        beta: float = 1.0,
        w: Any = None,
        d: Any = None,
        z: Any = None,
    ) -> None:
        """y <- d z + w (alpha b + beta A x), as `Product.combine`."""
        _combine_dense(self.data, x, alpha, beta, b, w, d, z, y)


def _combine_cpu(
    indptr: Any,
    indices: Any,
    data: Any,
    x: Any,
    alpha: float,
    beta: float,
    b: Any,
    w: Any,
    d: Any,
    z: Any,
    y: Any,
) -> None:
    b, w, d, z = (y[:0] if vector is None else vector for vector in (b, w, d, z))
    real = data.real.dtype.type
    _combine_rows(indptr, indices, data, x, real(alpha), real(beta), b, w, d, z, y)


def _combine_cuda(
    indptr: Any,
    indices: Any,
    data: Any,
    x: Any,
    alpha: float,
    beta: float,
    b: Any,
    w: Any,
    d: Any,
    z: Any,
    y: Any,
) -> None:
    n, real = len(indptr) - 1, data.real.dtype.type
    lanes = lanes_for(len(indices) / max(n, 1))
    kernel = f"row_products<{cuda.value_type(data.dtype)},{lanes}>"
    rows, terms = cuda.struct(n, indptr, indices, data), cuda.struct(b, w, d, z)
    cuda.for_each("spmv", kernel, n * lanes, rows, x, real(alpha), real(beta), terms, y)


_combine = by_device(_combine_cpu, _combine_cuda)


def lanes_for(mean: float) -> int:
    """Lanes a row: a power of two, at most as many as a row has entries on average."""
    return next((lanes for lanes in LANES if 2 * lanes > mean), LANES[-1])


def _combine_dense_cpu(
    data: Any, x: Any, alpha: float, beta: float, b: Any, w: Any, d: Any, z: Any, y: Any
) -> None:
    real = data.real.dtype.type
    product = real(beta) * (data @ x)
    if b is not None:
        product += real(alpha) * b
    if w is not None:
        product *= w
    if z is not None:
        product += z if d is None else d * z
    y[...] = product


def _combine_dense_cuda(
    data: Any, x: Any, alpha: float, beta: float, b: Any, w: Any, d: Any, z: Any, y: Any
) -> None:
    n, m = data.shape
    real = data.real.dtype.type
    kernel = f"dense_products<{cuda.value_type(data.dtype)}>"
    terms = cuda.struct(b, w, d, z)
    cuda.for_each("spmv", kernel, n * cuda.WARP, n, m, data, x, real(alpha), real(beta), terms, y)


_combine_dense = by_device(_combine_dense_cpu, _combine_dense_cuda)


@njit
def _combine_rows(indptr, indices, data, x, alpha, beta, b, w, d, z, y):
    for i in range(len(indptr) - 1):
        s = data.dtype.type(0)
        for p in range(indptr[i], indptr[i + 1]):
            s += data[p] * x[indices[p]]
        s = beta * s
        if len(b):
            s += alpha * b[i]
        if len(w):
            s = w[i] * s
        if len(z):
            s += d[i] * z[i] if len(d) else z[i]
        y[i] = s
