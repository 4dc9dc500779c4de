"""Many applies at once, or one update alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["SharedLock"]


class SharedLock:
    """A lock held by any number of readers or by one writer; a waiting writer goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writers = 0  # holding or waiting
        self._writing = False

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._writers == 0)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

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
