"""Launches made ready, with a stand-in for the driver that reads the arguments as CUDA does."""

from __future__ import annotations

import ctypes
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from gpuilu.backend import launches
from gpuilu.backend.launches import GIVEN_B, GIVEN_X, Cells, PreparedLaunch, Sequence, struct


class Memory:
    """An array on the device: a pointer."""

    def __init__(self, ptr):
        self.data = SimpleNamespace(ptr=ptr)


class Driver:
    """Keeps what it was called with, and copies arguments during the call, of those sizes."""

    def __init__(self):
        self.sizes, self.launched = (), []

    def launchKernel(self, *call):
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(call[9])
        self.addresses = list(pointers)
        arguments = map(ctypes.string_at, pointers, self.sizes)
        self.launched.append((call[:9], call[10], list(arguments)))


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    module = SimpleNamespace(cuda=SimpleNamespace(driver=found))
    monkeypatch.setattr(launches, "cupy", lambda: module)
    return found


FUNCTION = SimpleNamespace(ptr=4096)
HIGH = 0xFFFF_8000_0000_1000  # an address that uses the top bit


def words(*values):
    return np.array(values, np.uint64).tobytes()


def prepared(*arguments, cells=None, stream=0, shared=0, blocks=1, threads=32):
    here = {"cells": cells or Cells(), "stream": stream, "shared": shared}
    return PreparedLaunch(FUNCTION, blocks, threads, arguments, **here)


def test_arguments_of_every_kind_arrive_as_kernels_read_them(driver):
    rows = struct(5, Memory(HIGH), None)
    arguments = (rows, np.int32(-3), Memory(640), 7, None, np.int64(-(2**40)), np.uint64(HIGH))
    driver.sizes = (24, 4, 8, 4, 8, 8, 8)
    prepared(*arguments, stream=2, shared=1024, blocks=12, threads=256)()
    assert driver.launched == [
        (
            (4096, 12, 1, 1, 256, 1, 1, 1024, 2),
            0,
            [
                *(words(5, HIGH, 0), np.int32(-3).tobytes(), words(640), np.int32(7).tobytes()),
                *(words(0), np.int64(-(2**40)).tobytes(), words(HIGH)),
            ],
        )
    ]


def test_every_argument_begins_at_a_whole_word(driver):
    driver.sizes = (4, 24, 4, 8, 8, 8)
    prepared(np.int32(1), struct(1, 2, 3), np.int32(2), GIVEN_X, GIVEN_B, np.int64(3))()
    assert [address % 8 for address in driver.addresses] == [0] * 6
    assert driver.addresses[3] == driver.addresses[4] + 8


def test_all_launches_of_a_sequence_have_the_arrays_that_it_is_called_with(driver):
    driver.sizes, cells = (8, 8, 8, 4), Cells()
    first = prepared(GIVEN_X, GIVEN_B, GIVEN_X, 9, cells=cells)
    second = prepared(GIVEN_X, GIVEN_X, Memory(64), 7, cells=cells)
    sequence = Sequence(cells, [first, second])
    nine, seven = np.int32(9).tobytes(), np.int32(7).tobytes()
    for b, x in ((HIGH, 16), (32, HIGH), (32, 32)):
        sequence(Memory(b), Memory(x))
        assert driver.launched[-2][2] == [words(x), words(b), words(x), nine]
        assert driver.launched[-1][2] == [words(x), words(x), words(64), seven]


def test_sequences_with_cells_of_their_own_do_not_disturb_each_other(driver):
    driver.sizes = (8,)
    cells = Cells(), Cells()
    first, second = (Sequence(c, [prepared(GIVEN_B, cells=c)]) for c in cells)
    cells[1].fill(Memory(64), Memory(64))
    first(Memory(8), Memory(16))
    second._calls[0]()
    second(Memory(24), Memory(16))
    assert [arguments for _, _, arguments in driver.launched] == [[words(p)] for p in (8, 64, 24)]


def test_what_a_launch_points_to_lives_as_long_as_the_launch(driver):
    driver.sizes = (24, 8)
    cells = Cells()
    launch = prepared(struct(1, 2, HIGH), GIVEN_B, cells=cells)
    cells.fill(Memory(8), Memory(16))
    ends = [weakref.ref(cells), weakref.ref(launch)]
    del cells
    junk = [np.full(3, 77, np.uint64) for _ in range(1000)]  # where freed memory would be
    launch()
    assert driver.launched[-1][2] == [words(1, 2, HIGH), words(8)]
    del launch, junk
    assert [end() for end in ends] == [None, None]


def test_a_launch_without_arguments_is_one(driver):
    prepared()()
    assert driver.launched == [((4096, 1, 1, 1, 32, 1, 1, 0, 0), 0, [])]
