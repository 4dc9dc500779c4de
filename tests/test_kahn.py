"""Kahn's levels and the set-up they need: against the levels by rows, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from cases import PATTERNS, as_triangle, triangle

from gpuilu.dag import in_degree, levels
from gpuilu.kahn import kahn_levels
from gpuilu.triangle import Pattern, transpose_pattern


def assert_same_levels(found, expected):
    for name in ("level", "level_ptr", "level_order"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert mine.dtype == theirs.dtype == np.int32
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", PATTERNS)
def test_kahns_levels_are_those_of_the_rows(name, lower):
    T = as_triangle(triangle(PATTERNS[name](), lower=lower), lower)
    t_indptr, t_indices, _ = transpose_pattern(T.indptr, T.indices)
    assert_same_levels(kahn_levels(T, t_indptr, t_indices), levels(T))


def test_in_degrees_levels_and_transpose_of_a_small_triangle_by_hand():
    # Row 2 depends on 0, row 3 on 1 and 2, row 4 on 1.
    T = Pattern(True, *(np.array(a, np.int32) for a in ([0, 0, 0, 1, 3, 4], [0, 1, 2, 1])))
    assert in_degree(T).tolist() == [0, 0, 1, 2, 1]
    t_indptr, t_indices, position = transpose_pattern(T.indptr, T.indices)
    assert t_indptr.tolist() == [0, 1, 3, 4, 4, 4]
    assert t_indices.tolist() == [2, 3, 4, 3]
    assert position.tolist() == [0, 1, 3, 2]
    found = kahn_levels(T, t_indptr, t_indices)
    assert found.level.tolist() == [0, 0, 1, 2, 1]
    assert found.level_order.tolist() == [0, 1, 2, 4, 3]
    assert found.level_ptr.tolist() == [0, 2, 4, 5]
