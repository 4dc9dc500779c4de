"""The ILU(0) kernel on the emulator: in real arithmetic the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, matrix

from gpuilu.errors import SolveStalledError
from gpuilu.factor.ilu0 import ILU0, NOT_FINITE, OK, ZERO, _max_abs

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)


def factor(A, boost=0.0, **device):
    """What kernel and CPU make of A: ((status, row, boosted, first zero), LU) of each."""
    symbolic = ILU0(A)
    ours, cpu = A.data.copy(), A.data.copy()
    with Device(**device):
        told = symbolic._eliminate_cuda(ours, boost, _max_abs(A.data) or 1.0)
    return (told, ours), (symbolic._eliminate(cpu, boost), cpu)


def check(name, dtype, seed):
    A = matrix(name, dtype, seed)
    (told, ours), (expected, cpu) = factor(A, seed=seed, resident=1 + seed % 3)
    assert told == expected
    assert told[0] == OK
    if np.dtype(dtype).kind == "f":
        assert np.array_equal(ours, cpu)
    else:
        np.testing.assert_allclose(ours, cpu, rtol=100 * np.finfo(ours.dtype).eps)


@pytest.mark.parametrize("part", range(4))
def test_factors_are_the_cpus_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        check(NAMES[seed % len(NAMES)], "d", seed)


@pytest.mark.parametrize("dtype", ["f", "F", "D"])
@pytest.mark.parametrize("name", NAMES)
def test_factors_are_the_cpus_in_every_dtype(name, dtype):
    for seed in range(3):
        check(name, dtype, seed)


def with_zero_pivot(row, dtype="d"):
    A = matrix("grid", dtype)
    begin, end = A.indptr[row : row + 2]
    A.data[begin:end] = 0.0
    return A


@pytest.mark.parametrize("row", [0, 40, 80])
def test_a_zero_pivot_is_reported_and_its_row_published(row):
    for seed in range(3):
        (told, _), (expected, _) = factor(with_zero_pivot(row), seed=seed)
        assert told[:2] == expected[:2] == (ZERO, row)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_boosted_pivots_are_the_cpus(dtype):
    A = with_zero_pivot(17, dtype)
    A.data[A.diagonal[3]] = 1e-12
    A.data[A.diagonal[[0, 5, 60]]] = 0.0
    boost = float(np.sqrt(np.finfo(dtype).eps))
    for seed in range(3):
        (told, ours), (expected, cpu) = factor(A, boost, seed=seed)
        assert told == expected
        assert told[2] > 0
        assert np.array_equal(ours, cpu)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_reported(value):
    A = matrix("grid")
    A.data[A.indptr[30]] = value
    (told, _), (expected, _) = factor(A)
    assert told[:2] == expected[:2] == (NOT_FINITE, 30)


def test_an_abandoned_factorisation_ends_and_raises():
    A = matrix("chain")
    symbolic = ILU0(A)
    symbolic._level_order = symbolic._order()[::-1].copy()  # waits for rows that nobody works on
    # What is left of the factor means nothing, so that nobody orders accesses to it.
    options = {"races": False, "spin_limit": 10**12}
    with Device(patience_ns=1000, options=options), pytest.raises(SolveStalledError):
        symbolic._eliminate_cuda(A.data.copy(), 0.0, 1.0)
