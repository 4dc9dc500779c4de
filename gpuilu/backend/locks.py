"""Many applies at once, or one update alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["SharedLock"]


class SharedLock:
    """A lock held by any number of readers or by one writer; a waiting writer goes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading = _Reading(self)
        self._readers = 0
        self._writers = 0  # holding or waiting
        self._writing = False

    def read(self) -> Any:
        return self._reading  # without state of its own: one serves all readers

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        writing = False
        try:
            with self._changed:
                self._writers += 1
                self._changed.wait_for(lambda: self._readers == 0 and not self._writing)
                self._writing = writing = True
            yield
        finally:  # also when an interrupt ends the wait
            with self._changed:
                self._writers -= 1
                self._writing = self._writing and not writing
                self._changed.notify_all()


class _Reading:
    """The readers' side, on the path of every apply: no generator, no notice where nobody waits."""

    def __init__(self, shared: SharedLock) -> None:
        self._shared = shared

    def __enter__(self) -> None:
        shared = self._shared
        with shared._lock:
            while shared._writers:
                shared._changed.wait()
            shared._readers += 1

    def __exit__(self, *_: Any) -> None:
        shared = self._shared
        with shared._lock:
            shared._readers -= 1
            if shared._writers:
                shared._changed.notify_all()
