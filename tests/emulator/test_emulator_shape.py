"""The counts of row lengths and columns on the emulator."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from emulated import Device, needs_compiler
from emulator_systems import PATTERNS, triangle

from gpuilu import dag
from gpuilu.triangle import Pattern

pytestmark = needs_compiler


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_the_counts_are_those_of_the_cpu_however_many_threads_share_the_rows(name, lower):
    for seed in range(4):
        T = triangle(name, lower, seed=seed)
        expected = dag._row_shapes_cpu(lower, T.indptr, T.indices)
        with mock.patch.object(dag, "COUNTING", 1 + 50 * seed), Device(seed=seed, resident=3):
            found = dag._row_shapes_cuda(lower, T.indptr, T.indices)
        assert tuple(found) == expected


def test_a_triangle_without_rows_has_no_shape():
    nothing = Pattern(True, np.zeros(1, np.int32), np.zeros(0, np.int32))
    with Device():
        assert tuple(dag._row_shapes_cuda(True, nothing.indptr, nothing.indices)) == (0, 0, 0)
