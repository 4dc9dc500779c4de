"""What is left behind when operators come and go, and when values are updated: nothing."""

from __future__ import annotations

import gc
import os
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from cases import layered, poisson, triangle

import gpuilu


@pytest.mark.parametrize("algorithm", ["serial", "level"])
def test_an_operator_dies_with_its_last_name_without_the_cycle_collector(algorithm):
    M = gpuilu.ilu0(poisson(10, 10), algorithm=algorithm)
    M @ np.ones(100), M.T @ np.ones(100), M.info, repr(M), 2 * M
    ends = [weakref.ref(M), weakref.ref(M._application)]
    gc.collect()
    gc.disable()
    try:
        del M
        assert [end() for end in ends] == [None, None]
    finally:
        gc.enable()


def used(A, b):
    M = gpuilu.ilu0(A, algorithm="level")
    M @ b, M.solve(b, "T")
    M.update(A)


def test_five_hundred_operators_leave_no_python_memory_behind():
    A, b = poisson(60, 60), np.ones(3600)
    for _ in range(20):
        used(A, b)
    gc.collect()
    tracemalloc.start()
    try:
        used(A, b)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            used(A, b)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < gpuilu.ilu0(A).nbytes  # a fraction of one of them


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc/self/statm here")
def test_five_hundred_operators_leave_no_compiled_memory_behind():
    A, b = poisson(60, 60), np.ones(3600)

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(50):
        used(A, b)
    before = resident()
    for _ in range(500):
        used(A, b)
    assert resident() - before < 50 * gpuilu.ilu0(A, algorithm="level").nbytes


def test_five_hundred_updates_leave_no_memory_behind():
    A = poisson(60, 60)
    M = gpuilu.ilu0(A, algorithm="level")
    M.prepare()
    for _ in range(20):
        M.update(A)
    nbytes = M.nbytes
    tracemalloc.start()
    try:
        M.update(A)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            M.update(A)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert M.nbytes == nbytes
    assert grown < nbytes / 4  # less than one set of values


def test_applies_keep_nothing_but_their_results():
    S = gpuilu.TriangularSolver(triangle(layered(5, 200)), algorithm="level")
    b = np.ones(1000)
    S @ b
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        results = [S @ b for _ in range(100)]
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1.2 * sum(x.nbytes for x in results)
