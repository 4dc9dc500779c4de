"""Kahn's algorithm, a launch a level, on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, triangle

from gpuilu import kahn
from gpuilu.dag import in_degree, levels
from gpuilu.triangle import transpose_pattern

pytestmark = needs_compiler


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_levels_are_right_for_every_pattern(name, lower):
    for seed in range(5):
        T = triangle(name, lower, seed=seed)
        t_indptr, t_indices, _ = transpose_pattern(T.indptr, T.indices)
        with Device(seed=seed):
            level = kahn._kahn_cuda(in_degree(T), t_indptr, t_indices)
        assert np.array_equal(level, levels(T).level)
