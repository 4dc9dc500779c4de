"""Small matrices and right-hand sides that show what schedules can do to a kernel."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gpuilu.csr import canonical
from gpuilu.triangle import Triangle


def _grid(k):
    T = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(k, k))
    return sp.kron(sp.eye_array(k), T) + sp.kron(T, sp.eye_array(k))


def _random(n, rng):
    return sp.random_array((n, n), density=4 / n, rng=rng) + 3 * sp.eye_array(n)


def _chain(n):
    return sp.diags_array([-0.5, 1.5, 0.25], offsets=[-1, 0, 1], shape=(n, n))


def _arrow(n):
    A = sp.lil_array((n, n))
    A.setdiag(4.0)
    A[n - 1, :] = A[:, n - 1] = 0.5
    A[n - 1, n - 1] = n
    return A


PATTERNS = {
    "grid": lambda rng: _grid(9),
    "random": lambda rng: _random(150, rng),
    "chain": lambda rng: _chain(70),
    "arrow": lambda rng: _arrow(200),
    "dense": lambda rng: sp.csr_array(rng.uniform(0.1, 1.0, (24, 24)) + 24 * np.eye(24)),
    "diagonal": lambda rng: 2.0 * sp.eye_array(100),
    "one": lambda rng: sp.csr_array([[3.0]]),
    "odd": lambda rng: _random(33, rng),
}


def values(n, dtype, rng):
    """Random numbers away from zero, of any value dtype."""
    v = rng.uniform(0.5, 1.5, n)
    if np.dtype(dtype).kind == "c":
        v = v * np.exp(1j * rng.uniform(-1, 1, n))
    return v.astype(dtype)


def matrix(name, dtype="d", seed=0):
    """One of PATTERNS as canonical CSR with random values."""
    rng = np.random.default_rng(seed)
    A = sp.csr_array(PATTERNS[name](rng))
    A.data = (A.data * values(A.nnz, dtype, rng)).astype(dtype)
    return canonical(A)


def triangle(name, lower=True, unit=False, dtype="d", seed=0):
    """The lower or upper triangle of one of PATTERNS, with an easy diagonal."""
    A = matrix(name, dtype, seed)
    whole = sp.csr_array((A.data, A.indices, A.indptr), shape=(A.n, A.n))
    strict = sp.csr_array(sp.tril(whole, -1) if lower else sp.triu(whole, 1))
    rng = np.random.default_rng(seed + 1)
    indptr, indices = strict.indptr.astype(np.int32), strict.indices.astype(np.int32)
    diag = None if unit else 3 * values(A.n, dtype, rng)
    return Triangle(lower, indptr, indices, strict.data.astype(dtype), diag)


def dense_triangle(T):
    return T.to_csr().toarray()


MARK = {"f": np.uint32, "d": np.uint64}


def odd_values(n, dtype):
    """A right-hand side with NaN, both infinities, the private mark, zeros of both signs."""
    b = values(n, dtype, np.random.default_rng(3))
    reals = b.view(b.real.dtype)
    words = reals.view(MARK[reals.dtype.char])
    specials = (np.nan, np.inf, -np.inf, 0.0, -0.0)
    for k, special in enumerate(specials):
        reals[(7 * k + 3) % len(reals)] = special
    words[5 % len(reals) :: 11] = ~words.dtype.type(0)
    return b
