"""The level analysis on the emulator."""

from __future__ import annotations

import analysing
import cases
import numpy as np
import pytest
import scipy.sparse as sp
from emulated import Device, needs_compiler

from gpuilu import dag
from gpuilu.triangle import Pattern

pytestmark = needs_compiler

NAMES = analysing.NAMES
check = analysing.check


@pytest.mark.parametrize("part", range(4))
def test_levels_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        check(NAMES[seed % len(NAMES)], True, seed)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_levels_are_right_for_every_pattern(name, lower):
    for seed in range(3):
        check(name, lower, seed)


def strict(P):
    P = sp.csr_array(P)
    return Pattern(True, P.indptr.astype(np.int32), P.indices.astype(np.int32))


CHAINED = ("band 40", "dense 65", "grid 9-point 8x9", "wide row 33", "layered 8x40", "grid 4x5x6")


@pytest.mark.parametrize("name", CHAINED)
def test_levels_are_right_where_rows_of_a_run_depend_on_each_other(name):
    T = strict(cases.PATTERNS[name]())
    for seed in range(3):
        with Device(seed=seed):
            assert np.array_equal(dag._depths_cuda(T)[0], dag.levels(T).level + 1)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("polls", dag.POLLS)
def test_levels_are_right_however_many_depths_a_lane_polls_at_once(polls, lower, monkeypatch):
    monkeypatch.setattr(dag, "POLLS", (polls, polls))
    for seed, name in enumerate(("band 40", "dense 65", "grid 9-point 8x9", "grid 4x5x6")):
        T = cases.as_triangle(cases.triangle(cases.PATTERNS[name](), lower=lower), lower)
        with Device(seed=seed, resident=3) as used:
            assert np.array_equal(dag._depths_cuda(T)[0], dag.levels(T).level + 1)
        assert used.launched == [f"row_depths<{str(lower).lower()},{polls}>"]


@pytest.mark.parametrize("n", [4, 32, 37])
def test_levels_are_right_for_random_patterns_inside_a_run(n):
    rng = np.random.default_rng(n)
    for seed in range(40):
        linked = np.diag(rng.random(n - 1) < 0.8, -1)
        T = strict(np.tril((rng.random((n, n)) < 0.02 * (seed % 5)) | linked, -1))
        with Device(seed=seed):
            assert np.array_equal(dag._depths_cuda(T)[0], dag.levels(T).level + 1)


def cycle():
    """Two rows that wait for each other, in two runs, and rows that wait for them."""
    n = 128
    indptr = np.arange(n + 1, dtype=np.int32)
    indices = np.maximum(np.arange(n, dtype=np.int32) - 32, 0)
    indices[0] = 40
    indices[40] = 0
    return Pattern(True, indptr, indices)


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    analysing.check_deadlock(cycle(), "levels.cu")


def test_an_abandoned_analysis_ends_and_raises():
    analysing.check_abandoned(cycle())
