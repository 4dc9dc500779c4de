"""Streams and scratch memory, with stand-ins for CuPy's: looked up once an apply, kept apart."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from gpuilu.backend import scratch, streams


class Stream:
    """A stream that notes the events it waits for."""

    def __init__(self, ptr, capturing=False):
        self.ptr, self.capturing, self.waited = ptr, capturing, []

    def is_capturing(self):
        return self.capturing

    def wait_event(self, event):
        self.waited.append(event)

    def record(self):
        return f"event of {self.ptr}"


class Memory(np.ndarray):
    """Host memory with a pointer."""

    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))


@pytest.fixture
def device(monkeypatch):
    """One device; `lookups` counts how often its current stream is asked for."""
    found = SimpleNamespace(stream=Stream(7), lookups=0, resets=[], bound=0)

    def current():
        found.lookups += 1
        return found.stream

    def memset(*arguments):
        found.resets.append(arguments)

    def bind():
        found.bound += 1

    runtime = SimpleNamespace(getDevice=lambda: 0, memsetAsync=memset, memGetInfo=bind)
    module = SimpleNamespace(
        cuda=SimpleNamespace(get_current_stream=current, runtime=runtime),
        empty=lambda n, dtype: np.zeros(n, dtype).view(Memory),
    )
    for user in (streams, scratch):
        monkeypatch.setattr(user, "cupy", lambda: module)
    monkeypatch.setattr(streams, "_noted", streams._Noted())
    return found


class Launcher:
    CONTROL_BYTES = scratch.Launcher.CONTROL_BYTES

    def struct(self, control):
        return control.ctypes.data


def test_an_apply_looks_its_stream_up_once(device):
    order, spaces = streams.StreamOrder(), [scratch.Workspaces(Launcher()) for _ in range(2)]
    for _ in range(3):
        device.lookups = 0
        with order.apply():
            assert all(space.get(64).stream is device.stream for space in spaces)
        assert device.lookups == 1


def test_the_next_apply_sees_another_stream(device):
    order, space = streams.StreamOrder(), scratch.Workspaces(Launcher())
    with order.apply():
        first = space.get(64)
    device.stream = Stream(9)
    assert space.get(64).stream is device.stream
    with order.apply():
        second = space.get(64)
    assert second.stream is device.stream
    assert second.memory is not first.memory


def test_an_apply_that_fails_leaves_no_stream_behind(device):
    order = streams.StreamOrder()
    with pytest.raises(KeyError), order.apply():
        raise KeyError
    device.stream = Stream(9)
    assert streams.stream_key()[0] is device.stream


def test_the_first_apply_on_a_stream_waits_for_the_last_update_and_later_ones_do_not(device):
    order = streams.StreamOrder()
    with order.update():
        pass
    device.stream = other = Stream(9)
    for _ in range(2):
        with order.apply():
            pass
    assert other.waited == ["event of 7"]


def test_each_capture_has_scratch_of_its_own(device, monkeypatch):
    order, space = streams.StreamOrder(), scratch.Workspaces(Launcher())
    captures = iter("ab")
    monkeypatch.setattr(streams, "_capture_id", lambda stream: next(captures))
    device.stream = Stream(7, capturing=True)
    held = []
    for _ in "ab":
        with order.apply():
            held.append(space.get(64))
            assert space.get(64) is held[-1]
    assert held[0].memory is not held[1].memory


def test_control_words_of_every_launch_stand_before_the_data_and_are_reset_together(device):
    size = Launcher.CONTROL_BYTES
    found = scratch.Workspaces(Launcher(), 2).get(64)
    start = found.memory.ctypes.data
    assert found.launches == (start, start + size)
    assert found.parts(32, 2) == [start + 2 * size, start + 2 * size + 32]
    found.marking(48)()
    found.zeroing(16, 32)()
    assert device.resets == [
        (start, scratch.MARK, 2 * size + 48, 7),
        (start + 2 * size + 16, 0, 32, 7),
    ]


def test_the_streams_of_a_capture_that_forks_have_scratch_of_their_own(device, monkeypatch):
    monkeypatch.setattr(streams, "_capture_id", lambda stream: "one capture")
    space, held = scratch.Workspaces(Launcher()), []
    for address in (7, 9):
        device.stream = Stream(address, capturing=True)
        held.append(space.get(64))
    assert [h.stream.ptr for h in held] == [7, 9]


def test_each_thread_binds_the_context_before_its_first_launch(device):
    for _ in range(2):
        streams.stream_key()
    assert device.bound == 1
    thread = threading.Thread(target=streams.stream_key)
    thread.start()
    thread.join()
    assert device.bound == 2


def test_what_is_prepared_is_made_once_for_each_stream_and_kind_and_anew_when_scratch_grows(device):
    space, made, b = scratch.Workspaces(Launcher()), [], np.zeros(1).view(Memory)

    def prepare(held, size, name):
        stream, size_held = held.stream.ptr, held.nbytes
        made.append((stream, size, name))
        return [lambda: called.append((stream, size_held, name))]

    def prepared(*kind):
        del called[:]
        space.prepared(kind, lambda size, name: size, prepare)(b, b)
        return called

    called = []
    assert prepared(64, "a") == prepared(64, "a") == [(7, 64, "a")]
    assert prepared(32, "b") == [(7, 64, "b")]
    assert made == [(7, 64, "a"), (7, 32, "b")]
    assert prepared(128, "c") == [(7, 128, "c")]
    assert prepared(64, "a") == [(7, 128, "a")]  # what used the memory that is gone is gone too
    device.stream = Stream(9)
    assert prepared(64, "a") == [(9, 64, "a")]
    assert made[2:] == [(7, 128, "c"), (7, 64, "a"), (9, 64, "a")]


def test_scratch_grows_and_is_used_again(device):
    space = scratch.Workspaces(Launcher())
    small = space.get(64)
    assert space.get(32) is small
    large = space.get(128)
    assert large is not small
    assert space.get(64) is large
