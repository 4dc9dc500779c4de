"""Test matrices for both devices."""

from __future__ import annotations

import cases
import numpy as np
import scipy.sparse as sp

DTYPES = (np.float64, np.float32, np.complex128, np.complex64)


def grid(*dims, dtype=np.float64):
    """The 5- or 7-point Laplacian."""
    n = int(np.prod(dims))
    A = sp.csr_array((n, n))
    for axis, m in enumerate(dims):
        T = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
        before = sp.eye_array(int(np.prod(dims[:axis])))
        after = sp.eye_array(int(np.prod(dims[axis + 1 :])))
        A = A + sp.kron(sp.kron(before, T), after)
    return sp.csr_array(A).astype(dtype)


def random(n, density, seed, dtype=np.float64):
    """Diagonally dominant, with a random unsymmetric pattern."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=density, rng=rng, format="csr")
    if np.dtype(dtype).kind == "c":
        A = A + 1j * sp.random_array((n, n), density=density, rng=rng, format="csr")
    D = sp.diags_array(np.asarray(abs(A).sum(axis=1)).ravel() + 1)
    return sp.csr_array(A + D).astype(dtype)


def arrow(n, dtype=np.float64):
    """Dense first row and column."""
    A = sp.lil_array((n, n))
    A.setdiag(float(n))
    A[0, :], A[:, 0] = 1.0, 1.0
    A[0, 0] = float(n)
    return A.tocsr().astype(dtype)


def chain(n, dtype=np.float64):
    """Tridiagonal: as many levels as rows."""
    return sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr().astype(dtype)


def wide_row(n, dtype=np.float64):
    """Sparse but for two rows that have entries everywhere."""
    A = random(n, 3 / n, 5).tolil()
    A[n // 2, :] = 1.0 / n
    A[n - 1, :] = 1.0 / n
    A[n // 2, n // 2] = A[n - 1, n - 1] = 4.0
    return A.tocsr().astype(dtype)


def mesh(n, dtype=np.float64):
    """A triangulation in an order of small bandwidth: irregular, and many levels."""
    L = cases.mesh(n).astype(dtype)
    L.data = cases.random_values(np.random.default_rng(7), L.nnz, dtype)
    A = L + L.T
    D = sp.diags_array(np.asarray(abs(A).sum(axis=1)).ravel() + 1)
    return sp.csr_array(A + D).astype(dtype)


CASES = {
    "1x1": lambda dtype: sp.csr_array(np.array([[5.0]])).astype(dtype),
    "diagonal": lambda dtype: sp.diags_array(np.arange(1.0, 40.0)).tocsr().astype(dtype),
    "chain of 1025": lambda dtype: chain(1025, dtype),
    "arrow": lambda dtype: arrow(513, dtype),
    "grid 7 x 9": lambda dtype: grid(7, 9, dtype=dtype),
    "grid 40 x 50": lambda dtype: grid(40, 50, dtype=dtype),
    "grid 9 x 8 x 7": lambda dtype: grid(9, 8, 7, dtype=dtype),
    "random 33": lambda dtype: random(33, 0.3, 4, dtype),
    "random 2000": lambda dtype: random(2000, 0.005, 2, dtype),
    "dense 200": lambda dtype: random(200, 1.0, 3, dtype),
    "wide rows": lambda dtype: wide_row(3000, dtype),
}


def on_gpu(csp, A):
    """The same matrix as a cupyx one."""
    return csp.csr_matrix(sp.csr_matrix(A))


def vector(n, dtype, seed=0, nrhs=None):
    """Random right-hand sides."""
    rng = np.random.default_rng(seed)
    shape = (n,) if nrhs is None else (n, nrhs)
    b = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        b = b + 1j * rng.standard_normal(shape)
    return b.astype(dtype)
