"""The kernels without waiting on the emulator: one thread or warp a row."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, matrix, triangle

from gpuilu import csr
from gpuilu import triangle as triangles
from gpuilu.backend import cuda
from gpuilu.factor import base

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)
DTYPES = ["f", "d", "F", "D"]


def check_gather(source, seed, long_row):
    rng = np.random.default_rng(seed)
    length = rng.integers(0, 70, 40)
    first = rng.integers(0, len(source) - 70, 40).astype(np.int32)
    indptr = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
    result = np.zeros(indptr[-1], source.dtype)
    with pytest.MonkeyPatch.context() as patch, Device(seed=seed, resident=4) as used:
        patch.setattr(cuda, "LONG_ROW", long_row)
        cuda.gather_rows(indptr, first, source, result)
    assert np.array_equal(result, triangles._gather_rows_cpu(indptr, first, source))
    return used.launched


@pytest.mark.parametrize("part", range(2))
def test_rows_are_gathered_under_200_seeds(part):
    source = np.arange(500.0)
    for seed in range(100 * part, 100 * part + 100):
        check_gather(source, seed, long_row=0)
        check_gather(source, seed, long_row=10**6)


@pytest.mark.parametrize("dtype", ["i", *DTYPES])
def test_rows_are_gathered_in_every_dtype(dtype):
    for seed in range(3):
        for long_row in (0, 10**6):
            check_gather(np.arange(500).astype(dtype), seed, long_row)


def check_scan(indptr, indices, n, index, seed):
    expected = csr._scan_cpu(indptr, indices, n)
    with Device(seed=seed, resident=4):
        found = csr._scan_cuda(indptr.astype(index), indices.astype(index), n)
    assert found[:3] == expected[:3]
    if found[0] < 0:
        assert np.array_equal(found[3], expected[3])


def broken(seed):
    """A pattern, and the same damaged in the way that the seed says."""
    A = matrix(NAMES[seed % len(NAMES)], seed=seed)
    indptr, indices = A.indptr.copy(), A.indices.copy()
    row = seed % A.n
    match seed % 5:
        case 1:
            indptr[row + 1] = indptr[row] - 1
        case 2:
            indices[indptr[row]] = A.n
        case 3:
            indices[indptr[row]] = -1
        case 4:
            indices[indptr[row] : indptr[row + 1]] = indices[indptr[row]]
    return indptr, indices, A.n


@pytest.mark.parametrize("part", range(2))
def test_patterns_are_scanned_under_200_seeds(part):
    for seed in range(100 * part, 100 * part + 100):
        check_scan(*broken(seed), np.int32, seed)


def test_patterns_of_64_bit_indices_are_scanned():
    for seed in range(15):
        check_scan(*broken(seed), np.int64, seed)


def check_hermitian(dtype, seed):
    A = matrix("grid", dtype, seed)
    for data in (A.data, np.ones_like(A.data), np.where(A.indices == 3, 2, 1).astype(dtype)):
        with Device(seed=seed, resident=4):
            found = base._is_hermitian_cuda(A.indptr, A.indices, data, 1e-6)
        assert found == base._is_hermitian_cpu(A.indptr, A.indices, data, 1e-6)


def test_symmetry_is_seen_under_200_seeds():
    for seed in range(200):
        check_hermitian("d", seed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetry_is_seen_in_every_dtype(dtype):
    for seed in range(3):
        check_hermitian(dtype, seed)


def check_finite(dtype, seed):
    T = triangle("grid", unit=seed % 2 == 0, dtype=dtype, seed=seed)
    diag = T.data[:0] if T.diag is None else T.diag
    for where in (T.data, diag)[: 1 + (seed % 2)]:
        if seed % 3:
            where[[seed % len(where), -1]] = (np.nan, np.inf)[seed % 3 - 1]
        with Device(seed=seed, resident=4):
            found = base._first_not_finite_row_cuda(T.indptr, T.data, diag)
        assert found == base._first_not_finite_row_cpu(T.indptr, T.data, diag)


def test_entries_that_are_not_finite_are_found_under_200_seeds():
    for seed in range(200):
        check_finite("d", seed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_entries_that_are_not_finite_are_found_in_every_dtype(dtype):
    for seed in range(6):
        check_finite(dtype, seed)
