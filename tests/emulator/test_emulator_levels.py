"""The level analysis on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import CHUNK, Device
from emulator import DeadlockError
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.errors import SolveStalledError
from gpuilu.triangle import Pattern

NAMES = sorted(PATTERNS)


def check(name, lower, seed):
    T = triangle(name, lower, seed=seed)
    with Device(seed=seed, blocks=4, resident=1 + seed % 3):
        depth = dag._depths_cuda(T)
    level = dag.levels(T).level
    assert np.array_equal(depth, level + 1)


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
    with Device(), pytest.raises(DeadlockError) as caught:
        dag._depths_cuda(cycle())
    assert "polls" in str(caught.value)
    assert "levels.cu" in str(caught.value)
    assert "lanes" in str(caught.value)


def test_an_abandoned_analysis_ends_and_raises():
    with (
        Device(patience_ns=1000, options={"spin_limit": 10**12}),
        pytest.raises(SolveStalledError),
    ):
        dag._depths_cuda(cycle())
