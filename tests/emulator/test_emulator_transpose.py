"""The transpose by counting, on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, matrix

from gpuilu import triangle

pytestmark = needs_compiler


def check(A, seed):
    with Device(seed=seed) as used:
        found = triangle._transpose_cuda(A.indptr, A.indices)
    for mine, theirs in zip(found, triangle._transpose_cpu(A.indptr, A.indices), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    return used.launched


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_the_transpose_is_that_of_the_cpu_whatever_the_schedule(name):
    for seed in range(5):
        assert check(matrix(name, seed=seed), seed)[-1] == "rank_entries"


def test_long_columns_are_sorted_instead():
    with mock.patch.object(triangle, "READS", 1):
        assert check(matrix("arrow"), 0) == ["count_columns"]
