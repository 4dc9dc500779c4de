"""Launch every kernel family at small sizes, for compute-sanitizer; see sanitize.sh."""

from __future__ import annotations

import cupy as cp
import cupyx.scipy.sparse as csp
import numpy as np
import scipy.sparse as sp
from gpu_cases import DTYPES, grid, on_gpu, random, vector, wide_row

import gpuilu
from gpuilu.kahn import kahn_levels
from gpuilu.triangle import transpose_pattern
from gpuilu.trsv import row as row_module
from gpuilu.trsv.base import algorithms


def main():
    for dtype in DTYPES:
        for A in (grid(6, 7, dtype=dtype), wide_row(150, dtype)):
            operators(A, dtype)
        lanes(dtype)
        every_algorithm(dtype)
    gpuilu.gauss_seidel(on_gpu(csp, grid(5, 5)), iterations=2) @ cp.ones(25)
    print("sanitized:", cp.cuda.runtime.getDeviceProperties(0)["name"].decode())


def operators(A, dtype):
    """Gate, levels, ILU(0), both forms, one and several right-hand sides, an update."""
    G = on_gpu(csp, A)
    M = gpuilu.ilu0(G, pivot="boost")
    for trans in "NTH":
        for nrhs in (None, 5):
            M.solve(cp.asarray(vector(A.shape[0], dtype, nrhs=nrhs)), trans)
    M.update(G.data)
    M.check()


def lanes(dtype):
    """Every width of a row."""
    T = on_gpu(csp, sp.tril(random(70, 0.2, 2, dtype), format="csr"))
    original = row_module._lanes
    for width in row_module.LANES:
        row_module._lanes = lambda P, n_levels, width=width: width
        for unit in (False, True):
            S = gpuilu.TriangularSolver(T, unit_diagonal=unit, algorithm="row")
            for nrhs in (None, 3) if dtype == np.float64 else (None,):
                x = S.solve(cp.asarray(vector(70, dtype, nrhs=nrhs)))
                assert np.isfinite(x.get()).all()
    row_module._lanes = original


def every_algorithm(dtype):
    """One, several and very many right-hand sides; and Kahn's levels."""
    lower_one, upper_one = sp.tril(grid(6, 7, dtype=dtype)), sp.triu(wide_row(150, dtype))
    for lower, A in ((True, lower_one), (False, upper_one)):
        G = on_gpu(csp, A)
        for (name, device), plan in algorithms().items():
            if device == "cpu" or plan.vendor:
                continue
            keywords = {"lower": lower, "algorithm": name, "deterministic": plan.deterministic}
            S = gpuilu.TriangularSolver(G, **keywords)
            for nrhs in (None, 5, 40):
                x = S.solve(cp.asarray(vector(A.shape[0], dtype, nrhs=nrhs)))
                assert np.isfinite(x.get()).all()
    T = gpuilu.ilu0(on_gpu(csp, grid(6, 7, dtype=dtype)))._application.factors.L
    kahn_levels(T, *transpose_pattern(T.indptr, T.indices)[:2])


if __name__ == "__main__":
    main()
