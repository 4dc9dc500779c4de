"""Strips grown by kernels: the same as on the CPU, under many schedules."""

from __future__ import annotations

from unittest import mock

import cases
import numpy as np
import pytest
from emulated import CHUNK, Device, needs_compiler
from emulator import DeadlockError

from gpuilu.dag import Levels, levels
from gpuilu.errors import SolveStalledError
from gpuilu.triangle import Pattern
from gpuilu.trsv import strips_grow

pytestmark = needs_compiler

NAMES = [name for name in cases.PATTERNS if 0 < cases.PATTERNS[name]().shape[0] <= 400]
SMALL = {"DEEPEST": 4, "TOGETHER": 2, "REACH": 3, "MEAN_ROWS": 20}


def made(name, lower):
    P = cases.mesh(300) if name == "mesh" else cases.PATTERNS[name]()
    return cases.as_triangle(cases.triangle(P, lower=lower), lower)


def assert_grown(T, seed, constants):
    found = levels(T)
    with mock.patch.multiple(strips_grow, **constants):
        expected = strips_grow._grow_cpu(T, found)
        with Device(seed=seed, blocks=4, resident=1 + seed % 3):
            strips = strips_grow._grow_cuda(T, found)
    assert (strips.count, strips.hops) == (expected.count, expected.hops)
    assert strips.of_row.dtype == np.int32
    np.testing.assert_array_equal(strips.of_row, expected.of_row)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", [*NAMES, "mesh"])
def test_strips_are_those_of_the_cpu(name, lower):
    T = made(name, lower)
    for seed, constants in enumerate((SMALL, {"MEAN_ROWS": 100})):
        assert_grown(T, seed, constants)


@pytest.mark.parametrize("part", range(4))
def test_strips_of_a_mesh_are_right_under_100_seeds(part):
    T = made("mesh", lower=part % 2 == 0)
    for seed in range(25 * part, 25 * part + 25):
        assert_grown(T, seed, SMALL)


def cycle():
    """Two rows of one chunk that wait for each other, and rows that wait for them; one level."""
    n = 2 * CHUNK
    rows = np.arange(n, dtype=np.int32)
    indices = np.maximum(rows - 1, 0)
    indices[0], indices[1] = 1, 0
    P = Pattern(True, np.arange(n + 1, dtype=np.int32), indices)
    return P, Levels(np.zeros(n, np.int32), np.array([0, n], np.int32), rows)


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    with Device(), pytest.raises(DeadlockError) as caught:
        strips_grow._grow_cuda(*cycle())
    for told in ("polls", "chunk.cuh", "lanes"):
        assert told in str(caught.value)


def test_an_abandoned_growth_ends_and_raises():
    with (
        Device(patience_ns=1000, options={"spin_limit": 10**12}),
        pytest.raises(SolveStalledError),
    ):
        strips_grow._grow_cuda(*cycle())
