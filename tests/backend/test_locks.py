"""The lock of many readers or one writer."""

from __future__ import annotations

import threading
import time

import pytest

from gpuilu.backend.locks import SharedLock


def started(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def holding(side, entered, leave):
    """A thread body that takes one side of a lock and keeps it until told to leave."""

    def body():
        with side():
            entered.set()
            leave.wait(30)

    return body


def test_readers_hold_the_lock_together():
    lock, together = SharedLock(), threading.Barrier(3)

    def reads():
        with lock.read():
            together.wait(30)  # passes only once all three are inside

    threads = [started(reads) for _ in range(3)]
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not together.broken


@pytest.mark.parametrize(
    ("first", "second"), [("read", "write"), ("write", "read"), ("write", "write")]
)
def test_a_writer_is_alone(first, second):
    lock, entered, leave, inside = (SharedLock(), *(threading.Event() for _ in range(3)))
    holder = started(holding(getattr(lock, first), entered, leave))
    assert entered.wait(30)
    waiter = started(holding(getattr(lock, second), inside, leave))
    assert not inside.wait(0.1)
    leave.set()
    assert inside.wait(30)
    for thread in (holder, waiter):
        thread.join(30)
        assert not thread.is_alive()


def test_a_waiting_writer_goes_before_later_readers():
    lock, order = SharedLock(), []
    entered, leave = threading.Event(), threading.Event()
    holder = started(holding(lock.read, entered, leave))
    assert entered.wait(30)

    def enters(side, name):
        def body():
            with side():
                order.append(name)

        return body

    writer = started(enters(lock.write, "writer"))
    while not lock._writers:
        time.sleep(0.001)
    readers = [started(enters(lock.read, "reader")) for _ in range(3)]
    time.sleep(0.05)
    assert order == []
    leave.set()
    for thread in (holder, writer, *readers):
        thread.join(30)
        assert not thread.is_alive()
    assert order[0] == "writer"
    assert len(order) == 4


def test_writers_take_turns():
    lock, count = SharedLock(), [0]

    def writes():
        for _ in range(200):
            with lock.write():
                seen = count[0]
                time.sleep(0)
                count[0] = seen + 1

    threads = [started(writes) for _ in range(4)]
    for thread in threads:
        thread.join(60)
    assert count == [800]


@pytest.mark.parametrize("side", ["read", "write"])
def test_an_error_inside_lets_the_lock_go(side):
    lock = SharedLock()
    with pytest.raises(RuntimeError, match="inside"), getattr(lock, side)():
        raise RuntimeError("inside")
    free = threading.Event()
    thread = started(holding(lock.write, free, free))
    thread.join(30)
    assert free.is_set()


def test_a_writer_interrupted_while_it_waits_lets_the_lock_go(monkeypatch):
    lock = SharedLock()

    def interrupted(predicate, timeout=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lock._changed, "wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt), lock.write():
            pass
    free = threading.Event()
    started(holding(lock.read, free, free)).join(5)
    assert free.is_set(), "readers wait for a writer that is gone"
