"""The level analysis of irregular patterns on the emulator."""

from __future__ import annotations

import analysing
import numpy as np
import pytest
from emulated import CHUNK, needs_compiler

from gpuilu import dag
from gpuilu.triangle import Pattern

pytestmark = needs_compiler

NAMES = analysing.NAMES


@pytest.fixture(autouse=True)
def by_chunks(monkeypatch):
    """Every pattern is taken for an irregular one."""
    monkeypatch.setattr(dag, "is_regular", lambda T: False)


def check(name, lower, seed):
    launched = analysing.check(name, lower, seed)
    assert all(kernel.startswith("row_depths_by_chunk") for kernel in launched)


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
    analysing.check_deadlock(cycle(), "chunk.cuh")


def test_an_abandoned_analysis_ends_and_raises():
    analysing.check_abandoned(cycle())
