"""Slow, plain, obviously right: what every fast path is compared with. No cleverness."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def pattern(A):
    """Dense boolean pattern of a sparse matrix, explicit zeros included."""
    A = sp.coo_array(A)
    P = np.zeros(A.shape, bool)
    P[A.coords] = True
    return P


def dense(A):
    """Dense values, duplicates summed."""
    return sp.coo_array(A).toarray()


def ilu0(A):
    """Packed ILU(0) factors (unit L below the diagonal, U on and above), by rows, k ascending."""
    P, LU = pattern(A), dense(A).astype(np.result_type(A.dtype, np.float32), copy=True)
    n = len(LU)
    for i in range(n):
        for k in range(i):
            if P[i, k]:
                LU[i, k] = LU[i, k] / LU[k, k]
                for j in range(k + 1, n):
                    if P[i, j] and P[k, j]:
                        LU[i, j] = LU[i, j] - LU[i, k] * LU[k, j]
    return LU


def substitute(T, b, lower=True, unit_diagonal=False):
    """Solve T x = b by substitution; the other triangle of the dense T is not read."""
    n = len(T)
    dtype = np.result_type(T, b)
    x = np.array(b, dtype=dtype)
    for i in range(n) if lower else range(n - 1, -1, -1):
        for j in range(i) if lower else range(i + 1, n):
            if T[i, j] != 0:
                x[i] = x[i] - T[i, j] * x[j]
        if not unit_diagonal:
            x[i] = x[i] / T[i, i]
    return x


def levels(T, lower=True):
    """level[i] = 1 + max level of the rows that row i depends on."""
    P = pattern(T)
    n = len(P)
    level = np.zeros(n, int)
    for i in range(n) if lower else range(n - 1, -1, -1):
        depends = [level[j] + 1 for j in (range(i) if lower else range(i + 1, n)) if P[i, j]]
        level[i] = max(depends, default=0)
    return level


def splitting(A, kind, sweep="symmetric", omega=1.0):
    """M of Gauss-Seidel, SOR and SSOR, dense."""
    A = dense(A)
    D, L, U = np.diag(np.diag(A)), np.tril(A, -1), np.triu(A, 1)
    if sweep == "forward":
        return D / omega + L
    if sweep == "backward":
        return D / omega + U
    return omega / (2 - omega) * (D / omega + L) @ np.linalg.inv(D) @ (D / omega + U)


def op(M, trans):
    """M, its transpose or its adjoint."""
    return {"N": M, "T": M.T, "H": M.conj().T}[trans]


def backward_error(T, x, b):
    """max over rows and right-hand sides of |b - T x| / (nnz_row eps (|T||x| + |b|)).

    Substitution keeps this below a small constant whatever the condition of T.
    """
    T = sp.csr_array(T)
    eps = np.finfo(x.dtype).eps
    x, b = (np.atleast_2d(np.asarray(v).T).T for v in (x, b))
    wide = np.clongdouble if "c" in (T.dtype.kind, x.dtype.kind, b.dtype.kind) else np.longdouble
    residual, scale = np.zeros(b.shape, np.longdouble), np.zeros(b.shape, np.longdouble)
    for i in range(T.shape[0]):
        row = slice(T.indptr[i], T.indptr[i + 1])
        t = T.data[row].astype(wide)[:, None]
        X = x[T.indices[row]].astype(wide)
        residual[i] = abs(b[i].astype(wide) - (t * X).sum(axis=0))
        scale[i] = ((abs(t) * abs(X)).sum(axis=0) + abs(b[i])) * max(len(t), 1)
    error = np.divide(residual, scale * eps, out=np.zeros_like(residual), where=scale != 0)
    return float(error.max(initial=0.0))


def random_matrix(rng, n, dtype=np.float64, density=0.2, diagonal=2.0):
    """A random csr_array: entries in [-1, 1] + [-1, 1] i, a full diagonal about `diagonal`."""

    def values(shape):
        real = rng.uniform(-1, 1, shape)
        return real + 1j * rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else real

    A = np.where(rng.random((n, n)) < density, values((n, n)), 0)
    np.fill_diagonal(A, diagonal + values(n))
    return sp.csr_array(A.astype(dtype))


def grid(nx, ny):
    """The 5-point Laplacian on an nx x ny grid, unknowns numbered along x."""
    x, y = (sp.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(m, m)) for m in (nx, ny))
    return sp.csr_array(sp.kronsum(x, y, format="csr"))


def forward_bound(T, x, b):
    """eps nnz_row |T^-1| (|T||x| + |b|), T dense: how far a backward error of 1 may carry x."""
    eps = np.finfo(x.dtype).eps
    length = np.maximum(np.count_nonzero(T, axis=1), 1)[:, None]
    return eps * abs(np.linalg.inv(T)) @ (length * (abs(T) @ abs(x) + abs(b)))
