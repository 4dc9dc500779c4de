"""Checks of the level analysis on the emulator, the same for both of its kernels."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Device
from emulator import DeadlockError
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.errors import SolveStalledError

NAMES = sorted(PATTERNS)


def check(name, lower, seed):
    """The levels of a pattern; the kernels that ran."""
    T = triangle(name, lower, seed=seed)
    with Device(seed=seed, blocks=4, resident=1 + seed % 3) as used:
        depth, n_levels = dag._depths_cuda(T)
    assert np.array_equal(depth, dag.levels(T).level + 1)
    assert n_levels == dag.levels(T).n_levels
    return used.launched


def check_deadlock(cycle, file):
    """A cycle is a deadlock that names who waits for what."""
    with Device(), pytest.raises(DeadlockError) as caught:
        dag._depths_cuda(cycle)
    for told in ("polls", file, "lanes"):
        assert told in str(caught.value)


def check_abandoned(cycle):
    with (
        Device(patience_ns=1000, options={"spin_limit": 10**12}),
        pytest.raises(SolveStalledError),
    ):
        dag._depths_cuda(cycle)
