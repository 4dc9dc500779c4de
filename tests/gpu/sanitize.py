"""Launch every kernel at small sizes, for compute-sanitizer; see sanitize.sh.

    python sanitize.py [dtype ...]

float64 goes through every path; the other dtypes, all four by default, through every kernel.
"planted" instead of a dtype is one kernel that reads what nobody wrote, for initcheck to find.
"""

from __future__ import annotations

import sys
from unittest import mock

import cupy as cp
import cupyx.scipy.sparse as csp
import numpy as np
import scipy.sparse as sp
from gpu_cases import DTYPES, chain, grid, mesh, on_gpu, random, vector, wide_row
from instantiations import INSTANTIATIONS

import gpuilu
from gpuilu.backend import cuda
from gpuilu.dag import levels
from gpuilu.kahn import kahn_levels
from gpuilu.products import LANES as PRODUCT_LANES
from gpuilu.products import Dense, Product
from gpuilu.triangle import transpose_pattern
from gpuilu.trsv import blocked, strips_grow, tile_level
from gpuilu.trsv import row as row_module
from gpuilu.trsv.base import algorithms
from gpuilu.trsv.strips_grow import grow

OWN = {
    name: plan
    for (name, device), plan in sorted(algorithms().items())
    if device == "cuda" and not plan.vendor
}
# For values of eight bytes at most.
COPYING = {("blocked", f"strips_{kernel}") for kernel in ("enter", "records", "entries")}
MAY_COPY = blocked._copied
FEWEST_ROWS = 16  # of a strip, so that small triangles have several, and entries between them


PLANTED = """
namespace gpuilu {
__global__ void planted(const int* unwritten, int* copy) {
    copy[threadIdx.x] = unwritten[threadIdx.x];
}
}
"""


def main(names):
    if names == ["planted"]:
        read_unwritten_memory()
    else:
        check(names)
    print("sanitized:", cp.cuda.runtime.getDeviceProperties(0)["name"].decode())


def read_unwritten_memory():
    module = cp.RawModule(code=PLANTED, backend="nvrtc", name_expressions=("gpuilu::planted",))
    unwritten, copy = (cp.cuda.memory.Memory(128) for _ in range(2))
    module.get_function("gpuilu::planted")((1,), (32,), (unwritten.ptr, copy.ptr))
    cp.cuda.runtime.deviceSynchronize()


def check(names):
    for dtype in [np.dtype(name).type for name in names] or DTYPES:
        launched = set()
        find = cuda.kernel

        def recorded(family, name, find=find, launched=launched):
            launched.add((family, template(name)))
            return find(family, name)

        with (
            mock.patch.object(cuda, "kernel", recorded),
            mock.patch.multiple(blocked, FEWEST_ROWS=FEWEST_ROWS, STRIPS=(32,)),
        ):
            everything(dtype)
        known = {(f, template(name)) for f, names in INSTANTIATIONS.items() for name in names}
        if dtype == np.complex128:
            known -= COPYING
        assert launched >= known, f"never launched: {sorted(known - launched)}"


def template(name):
    return name.partition("<")[0]


def everything(dtype):
    whole = dtype == np.float64
    for A in (grid(6, 7, dtype=dtype), wide_row(150, dtype))[: 2 if whole else 1]:
        operators(A, dtype)
    every_algorithm(dtype, (None, 5, 40) if whole else (None, 3))
    unsafe_pivots(dtype)
    lanes(dtype, whole)
    tiles_by_threads(dtype)
    products(dtype, PRODUCT_LANES if whole else PRODUCT_LANES[-1:])
    long_rows_and_kahn(dtype)
    strips(dtype, (grid(6, 7, dtype=dtype), wide_row(150, dtype)))
    strips(dtype, (random(60, 0.4, 3, dtype),), fewest_rows=60)  # several lanes a row
    if whole:
        strips(dtype, (chain(3000),), fewest_rows=2600)  # of 2600 steps: ring and window go round
    grown_strips(dtype)


def solve(S, dtype, nrhs=None, trans="N", b=None):
    b = vector(S.shape[0], dtype, nrhs=nrhs) if b is None else b
    assert np.isfinite(S.solve(cp.asarray(b), trans).get()).all()


def operators(A, dtype):
    """Gate, levels, ILU(0), both forms, one and several right-hand sides, an update; SSOR."""
    G = on_gpu(csp, A)
    M = gpuilu.ilu0(G, pivot="boost")
    for trans in "NTH" if np.dtype(dtype).kind == "c" else "NT":
        for nrhs in (None, 3):
            solve(M, dtype, nrhs, trans)
    M.update(G.data)
    M.check()
    solve(gpuilu.gauss_seidel(G, iterations=2), dtype)


def every_algorithm(dtype, widths):
    """A unit lower grid, and an upper triangle with rows that are cut and its diagonal stored.

    Each plan takes its values twice, for an update is not what a set-up does.
    """
    lower_one, upper_one = sp.tril(grid(6, 7, dtype=dtype)), sp.triu(wide_row(150, dtype))
    for lower, A in ((True, lower_one), (False, upper_one)):
        G = on_gpu(csp, A)
        for name, plan in OWN.items():
            keywords = {"algorithm": name, "deterministic": plan.deterministic}
            S = gpuilu.TriangularSolver(G, lower=lower, unit_diagonal=lower, **keywords)
            S.update(G)
            for nrhs in widths:
                solve(S, dtype, nrhs)


def unsafe_pivots(dtype):
    """A pivot whose reciprocal is too large to multiply with, for algorithms that would."""
    T, b = sp.tril(grid(6, 7, dtype=dtype), format="csr"), vector(42, dtype)
    T[0, 0], b[0] = 4 * np.finfo(dtype).tiny, 0
    for name, plan in OWN.items():
        if not plan.divides:
            solve(gpuilu.TriangularSolver(on_gpu(csp, T), algorithm=name), dtype, b=b)


def lanes(dtype, whole):
    """Every width of a row; the narrowest and the widest where not everything is asked for."""
    T = on_gpu(csp, sp.tril(random(70, 0.2, 2, dtype), format="csr"))
    for width in row_module.LANES if whole else row_module.LANES[:: len(row_module.LANES) - 1]:
        with mock.patch.object(row_module, "_lanes", lambda P, n_levels, width=width: width):
            for unit in (False, True)[: 2 if whole else 1]:
                S = gpuilu.TriangularSolver(T, unit_diagonal=unit, algorithm="row")
                for nrhs in (None, 3)[: 2 if whole else 1]:
                    solve(S, dtype, nrhs)


def tiles_by_threads(dtype):
    """Levels of tile rows wide enough that a thread takes a row."""
    with mock.patch.object(tile_level, "_cores", return_value=0):
        G = on_gpu(csp, sp.tril(wide_row(150, dtype)))
        S = gpuilu.TriangularSolver(G, algorithm="tile_level")
    for nrhs in (None, 3):
        solve(S, dtype, nrhs)


def products(dtype, widths):
    """Sparse products by rows of every length and the dense one, with every term."""
    x, b, w, d, z = (cp.asarray(vector(64, dtype, seed)) for seed in range(5))
    matrices = [random(64, (1.5 * width - 1) / 64, 1, dtype) for width in widths]
    rows = [on_gpu(csp, A) for A in matrices]
    sparse = [Product(G.indptr, G.indices, G.data, 64) for G in rows]
    for A in (*sparse, Dense(cp.asarray(matrices[-1].toarray()))):
        y = cp.empty(64, dtype)
        A.combine(y, x, alpha=0.5, b=b, beta=-2.0, w=w, d=d, z=z)
        assert np.isfinite(y.get()).all()


def long_rows_and_kahn(dtype):
    """Rows that a warp copies; and levels from in-degrees."""
    T = sp.tril(random(50, 1.0, 3, dtype), format="csr")
    S = gpuilu.TriangularSolver(on_gpu(csp, T), algorithm="row")
    solve(S, dtype)
    L = S._application.factors.L
    kahn_levels(L, *transpose_pattern(L.indptr, L.indices)[:2])


def strips(dtype, matrices, fewest_rows=FEWEST_ROWS):
    """Strips by each kind of gatherers, those that copy where they can."""
    for way in (blocked.SHARED_OUT, blocked.AT_ONCE[1], blocked.COPIED):

        def copied(info, n, dtype, copies=way == blocked.COPIED):
            return copies and MAY_COPY(info, 32 * len(info), dtype)

        patches = {"FEWEST_ROWS": fewest_rows, "_copied": copied, "_affordable": lambda *_: True}
        patches["FEWEST_TO_LEAVE"] = 99 if way == blocked.SHARED_OUT else 1  # x in a pass, or not
        if way != blocked.COPIED:
            patches["_far_at_once"] = lambda info, way=way: way
        for A in matrices:
            G = on_gpu(csp, sp.tril(A, format="csr"))
            with mock.patch.multiple(blocked, **patches):
                S = gpuilu.TriangularSolver(G, algorithm="blocked")
            S.update(G)
            for nrhs in (None, 3):
                solve(S, dtype, nrhs)


def grown_strips(dtype):
    """Strips grown along the dependencies, of both triangles, and solves in them."""
    A = mesh(300, dtype)
    for lower, T in ((True, sp.tril(A)), (False, sp.triu(A))):
        with (
            mock.patch.multiple(strips_grow, DEEPEST=8, TOGETHER=4, MEAN_ROWS=40),
            mock.patch.object(blocked, "predicted", lambda P, _: (0.0, grow(P, levels(P)))),
        ):
            S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, algorithm="blocked")
        solve(S, dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
