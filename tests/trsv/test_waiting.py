"""What waiting plans enqueue, with stand-ins for CuPy and the driver."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from gpuilu.backend import cuda, launches, scratch, streams
from gpuilu.errors import SolveStalledError
from gpuilu.trsv.waiting import PlanPair, WaitingPlan

FUNCTION = SimpleNamespace(ptr=4096)


class Stream:
    def __init__(self, ptr):
        self.ptr = ptr

    def is_capturing(self):
        return False


class Array(np.ndarray):
    """Host memory with a pointer."""

    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))


class Driver:
    """Notes memsets and launches of three pointers, with the stream and the arguments of each."""

    def __init__(self):
        self.enqueued = []

    def memset(self, address, byte, nbytes, stream):
        self.enqueued.append((stream, "memset", nbytes))

    def launchKernel(self, *call):
        stream, pointers = call[8], (ctypes.POINTER(ctypes.c_uint64) * 3).from_address(call[9])
        time.sleep(1e-4)  # as the driver does, without the GIL
        self.enqueued.append((stream, *(p.contents.value for p in pointers)))


@pytest.fixture
def driver(monkeypatch):
    found, here = Driver(), threading.local()
    runtime = SimpleNamespace(
        getDevice=lambda: 0, memsetAsync=found.memset, memGetInfo=lambda: (0, 0)
    )
    gpu = SimpleNamespace(
        runtime=runtime,
        driver=found,
        get_current_stream=lambda: getattr(here, "stream", None) or Stream(0),
        alloc_pinned_memory=bytearray,
    )
    module = SimpleNamespace(cuda=gpu, empty=lambda n, dtype: np.zeros(n, dtype).view(Array))
    for user in (launches, scratch, streams):
        monkeypatch.setattr(user, "cupy", lambda: module)
    monkeypatch.setattr(scratch, "_free_words", [])
    monkeypatch.setattr(scratch, "_pages", [])
    found.here = here
    return found


class Twice(PlanPair):
    """Marks all of its scratch, then two launches of (b, x, scratch) and (x, x, scratch)."""

    def _nbytes(self, char, nrhs, in_place):
        return nrhs * np.dtype(char).itemsize

    def _prepare(self, scratch, char, nrhs, in_place):
        B, X, data = cuda.GIVEN_B, cuda.GIVEN_X, scratch.data
        launches = (scratch.prepare(FUNCTION, 1, 32, *bx, data) for bx in ((B, X), (X, X)))
        return [scratch.marking(self._nbytes(char, nrhs, in_place)), *launches]


def vector(*shape, dtype="d"):
    return np.zeros(shape, dtype).view(Array)


def test_what_is_enqueued_has_the_vectors_and_the_size_of_each_solve(driver):
    plan, control = Twice(), 2 * cuda.Launcher.CONTROL_BYTES
    for x, b, size in (
        *((vector(4), vector(4), 8), (vector(4), None, 8), (vector(4, 3), vector(4, 3), 24)),
        *((vector(4, dtype="f"), None, 4), (vector(4, 1, dtype="D"), None, 16)),
    ):
        del driver.enqueued[:]
        plan.solve(x, b)
        (_, *reset), (_, *first, y), (_, *second, z) = driver.enqueued
        at = x.ctypes.data
        assert reset == ["memset", control + size]
        assert first == [at if b is None else b.ctypes.data, at]
        assert second == [at, at]
        assert y == z


def test_threads_that_share_a_plan_on_one_stream_or_on_two_do_not_mix_their_vectors(driver):
    plan, solves = Twice(), 20

    def solve(k):
        driver.here.stream = Stream(k % 2)
        b, x = vector(4), vector(4)
        for _ in range(solves):
            plan.solve(x, b)
        return k % 2, b.ctypes.data, x.ctypes.data, b, x

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(solve, range(4)))
    wanted = sorted([(s, b, x), (s, x, x)] for s, b, x, *_ in done for _ in range(solves))
    parts = [driver.enqueued[k : k + 3] for k in range(0, len(driver.enqueued), 3)]
    found = [[first[:3], second[:3]] for _, first, second in parts]
    assert sorted(found) == wanted
    scratch_of = {(stream, y) for part in parts for stream, _, _, y in part[1:]}
    assert len(scratch_of) == 2  # one for each stream


class Alone(WaitingPlan):
    """One launch. Without a name: no algorithm to be found by others."""

    _nbytes = Twice._nbytes

    def __init__(self):
        super().__init__(None)

    def _launch(self, scratch, b, x, y, launch, char, nrhs):
        return scratch.prepare(FUNCTION, 1, 32, b, x, y)


def test_a_plan_alone_raises_at_its_next_solve_and_a_pair_when_it_is_checked(driver):
    x = vector(4)
    for plan in (Alone(), Twice()):
        plan._launcher._status[0] = 1
        with pytest.raises(SolveStalledError):
            plan.solve(x) if isinstance(plan, Alone) else plan.check()
        plan.solve(x)
        plan.check()


def test_what_was_prepared_dies_with_its_owner(driver):
    plan = Twice()
    plan.solve(vector(4))
    memory = weakref.ref(plan._workspaces.prepared(("d", 1, True), None, None))
    gc.collect()
    gc.disable()
    try:
        del plan
        assert memory() is None
    finally:
        gc.enable()
