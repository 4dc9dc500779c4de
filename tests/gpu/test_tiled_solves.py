"""The tiled solves on the GPU: the storage is that of the CPU, every format and launch is right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from cases import PATTERNS, as_triangle, triangle
from gpu_cases import DTYPES, grid, on_gpu, random, vector
from reference import backward_error, op
from tile_systems import tiled_triangle

import gpuilu
from gpuilu.backend import map_arrays
from gpuilu.trsv import tile_level
from gpuilu.trsv.tiles import lay_out

LIMIT = 4


def assert_same_layout(cp, T):
    mine, place = lay_out(map_arrays(T, cp.asarray))
    theirs, expected = lay_out(T)
    assert np.array_equal(place.get(), expected)
    for field in dataclasses.fields(theirs):
        a, b = getattr(mine, field.name), getattr(theirs, field.name)
        if isinstance(b, np.ndarray):
            assert isinstance(a, cp.ndarray)
            assert a.dtype == b.dtype
            assert np.array_equal(a.get(), b), field.name
        else:
            assert a == b, field.name


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("case", [c for c in PATTERNS if "pattern" not in c])
def test_the_storage_is_that_of_the_cpu(cp, case, lower):
    assert_same_layout(cp, as_triangle(triangle(PATTERNS[case](), lower=lower), lower))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("lower", [True, False])
def test_every_format_is_right_by_warps_by_threads_and_waiting(cp, csp, monkeypatch, lower, dtype):
    T = tiled_triangle(lower, dtype=dtype)
    assert_same_layout(cp, T)
    T = T.to_csr()
    for nrhs in (None, 1, 3, 8):
        b = vector(T.shape[0], dtype, nrhs=nrhs)
        found = []
        for algorithm, cores in (("tile_syncfree", 1), ("tile_level", 10**9), ("tile_level", 0)):
            monkeypatch.setattr(tile_level, "_cores", lambda cores=cores: cores)
            S = gpuilu.TriangularSolver(on_gpu(csp, T), lower=lower, algorithm=algorithm)
            for trans in "NTH":
                x = S.solve(cp.asarray(b), trans)
                assert backward_error(op(T, trans), x.get(), b) <= LIMIT
            found.append(x.get())
        assert all(np.array_equal(x, found[0]) for x in found)


@pytest.mark.parametrize("algorithm", ["tile_level", "tile_syncfree"])
def test_repeats_updates_and_graphs_give_the_same_bits(cp, csp, algorithm):
    A = on_gpu(csp, grid(64, 65))
    M = gpuilu.ilu0(A, algorithm=algorithm)
    b = cp.asarray(vector(A.shape[0], np.float64))
    first, out = M @ b, cp.empty_like(b)
    for _ in range(50):
        assert bool((M @ b == first).all())
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        M.solve(b, out=out)
        stream.begin_capture()
        M.solve(b, out=out)
        graph = stream.end_capture()
        for _ in range(3):
            out.fill(0)
            graph.launch()
        stream.synchronize()
        assert bool((out == first).all())
    M.update(2 * A)
    assert bool((M @ b == first / 2).all())


@pytest.mark.parametrize("algorithm", ["tile_level", "tile_syncfree"])
def test_a_large_unstructured_triangle_agrees_with_the_cpu(cp, csp, algorithm):
    T = sp.tril(random(20000, 0.0005, 9, np.float64), format="csr")
    b = vector(20000, np.float64)
    x = gpuilu.TriangularSolver(on_gpu(csp, T), algorithm=algorithm).solve(cp.asarray(b))
    y = gpuilu.TriangularSolver(T, device="cpu").solve(b)
    assert np.linalg.norm(x.get() - y) <= 1e-12 * np.linalg.norm(y)
