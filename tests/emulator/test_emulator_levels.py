"""The level analysis on the emulator."""

from __future__ import annotations

import emulator
import numpy as np
import pytest
from emulated import CHUNK, NEVER, Device, needs_compiler
from emulator import DeadlockError
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.errors import SolveStalledError
from gpuilu.triangle import Pattern

pytestmark = needs_compiler

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


def test_chunks_of_the_size_that_gpus_run_are_right():
    n = 1100
    indptr, indices = np.arange(n + 1, dtype=np.int32), np.arange(-1, n - 1, dtype=np.int32)
    indptr[1:] -= 1
    depth, control = np.zeros(n, np.uint32), np.full(4, 0xFFFFFFFF, np.uint32)
    launch = emulator.Struct(control, np.zeros(1, np.uint32), NEVER)
    unit = emulator.compile_unit("levels", ("row_depths<true>",))
    arguments = (n, indptr, indices[1:].copy(), depth, launch)
    unit["row_depths<true>"].launch(2, 1024, arguments, seed=3)
    assert np.array_equal(depth, np.arange(1, n + 1))


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
