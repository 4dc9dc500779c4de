"""Launches made ready, with a stand-in for the driver that reads the arguments as CUDA does."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from gpuilu.backend import launches
from gpuilu.backend.launches import GIVEN_B, GIVEN_X, PreparedLaunch, struct


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


def test_arguments_of_every_kind_arrive_as_kernels_read_them(driver):
    rows = struct(5, Memory(HIGH), None)
    arguments = (rows, np.int32(-3), Memory(640), 7, None, np.int64(-(2**40)), np.uint64(HIGH))
    driver.sizes = (24, 4, 8, 4, 8, 8, 8)
    PreparedLaunch(FUNCTION, 12, 256, arguments, stream=2, shared=1024)()
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
    driver.sizes = (4, 24, 4, 8, 8)
    arguments = (np.int32(1), struct(1, 2, 3), np.int32(2), GIVEN_X, np.int64(3))
    PreparedLaunch(FUNCTION, 1, 32, arguments, stream=0)(Memory(8), Memory(16))
    assert [address % 8 for address in driver.addresses] == [0] * 5
    assert np.diff(driver.addresses).tolist() == [8, 24, 8, 8]


def test_each_launch_has_the_arrays_that_it_is_called_with(driver):
    driver.sizes = (8, 8, 8, 4)
    launch = PreparedLaunch(FUNCTION, 1, 32, (GIVEN_X, GIVEN_B, GIVEN_X, 9), stream=0)
    nine = np.int32(9).tobytes()
    for b, x in ((HIGH, 16), (32, HIGH), (32, 32)):
        launch(Memory(b), Memory(x))
        assert driver.launched[-1][2] == [words(x), words(b), words(x), nine]


def test_a_launch_without_arguments_is_one(driver):
    PreparedLaunch(FUNCTION, 1, 32, (), stream=0)()
    assert driver.launched == [((4096, 1, 1, 1, 32, 1, 1, 0, 0), 0, [])]


def test_launches_have_arguments_of_their_own(driver):
    driver.sizes = (8,)
    first, second = (PreparedLaunch(FUNCTION, 1, 32, (GIVEN_B,), stream=0) for _ in "ab")
    second(Memory(64))
    first(Memory(8))
    second_again = driver.addresses
    second(Memory(16))
    assert driver.addresses != second_again
    assert [arguments for _, _, arguments in driver.launched] == [[words(p)] for p in (64, 8, 16)]
