"""The level analysis of irregular patterns on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from emulated import CHUNK, Device, needs_compiler
from emulator import DeadlockError
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.errors import SolveStalledError
from gpuilu.triangle import Pattern

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)

by_chunks = mock.patch.object(dag, "_is_regular", return_value=False)


def check(name, lower, seed):
    T = triangle(name, lower, seed=seed)
    with Device(seed=seed, blocks=4, resident=1 + seed % 3) as used, by_chunks:
        depth = dag._depths_cuda(T)
    assert all(name.startswith("row_depths_by_chunk") for name in used.launched)
    assert np.array_equal(depth, dag.levels(T).level + 1)


@pytest.mark.parametrize("part", range(4))
def test_levels_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        check(NAMES[seed % len(NAMES)], True, seed)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_levels_are_right_for_every_pattern(name, lower):
    for seed in range(3):
        check(name, lower, seed)


def cycle():
    """Two rows of one chunk that wait for each other, and rows that wait for them."""
    n = 2 * CHUNK
    indptr = np.arange(n + 1, dtype=np.int32)
    indices = np.maximum(np.arange(n, dtype=np.int32) - 1, 0)
    indices[0], indices[1] = 1, 0
    return Pattern(True, indptr, indices)


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    with Device(), by_chunks, pytest.raises(DeadlockError) as caught:
        dag._depths_cuda(cycle())
    assert "levels_chunk.cu" in str(caught.value)


def test_an_abandoned_analysis_ends_and_raises():
    device = Device(patience_ns=1000, options={"spin_limit": 10**12})
    with device, by_chunks, pytest.raises(SolveStalledError):
        dag._depths_cuda(cycle())
