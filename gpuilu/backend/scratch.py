"""What waiting kernels need of the host: a status word, and scratch memory for each stream."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gpuilu.backend.devices import cupy
from gpuilu.backend.launches import Cells, PreparedLaunch, Sequence, struct
from gpuilu.backend.streams import stream_key
from gpuilu.errors import SolveStalledError

__all__ = ["MARK", "Launcher", "Scratch", "Workspaces"]

MARK = 0xFF  # the byte of "not ready"


class Launcher:
    """What the launches of one object share: a status word that kernels write and Python reads.

    The word is pinned host memory: reading it costs nothing and waits for nothing.
    """

    CONTROL_BYTES = 16

    def __init__(self) -> None:
        self._status = _status_word()
        weakref.finalize(self, _free_words.append, self._status)
        self._word = memoryview(self._status)  # type: ignore[arg-type]
        self._word[0] = 0
        self._patience_s = float(os.environ.get("GPUILU_PATIENCE_SECONDS", "2"))

    def struct(self, control: Any) -> np.ndarray:
        """The `Launch` argument of a kernel, `control` being CONTROL_BYTES of marked memory."""
        return struct(control, self._status.ctypes.data, int(self._patience_s * 1e9))

    def raise_if_stalled(self) -> None:
        """Raise once for a launch that was abandoned; the object is usable afterwards."""
        if self._word[0]:
            self._word[0] = 0
            raise SolveStalledError(
                f"a GPU launch made no progress for {self._patience_s:g} s and was abandoned; its "
                "results are NaN. If a debugger or another program held the GPU, set "
                "GPUILU_PATIENCE_SECONDS to a larger value"
            )


# Pages are never freed: a kernel abandoned by its object may still write to its word.
_free_words: list[np.ndarray] = []
_pages: list[Any] = []
_pages_lock = threading.Lock()


def _status_word() -> np.ndarray:
    """A word of pinned memory, shape (1,), out of a page that many launchers share."""
    with _pages_lock:
        if not _free_words:
            memory = cupy().cuda.alloc_pinned_memory(4096)
            page = np.frombuffer(memory, np.uint32, 1024)
            page[:] = 0
            _pages.append(memory)
            _free_words.extend(page[k : k + 1] for k in range(1024))
        return _free_words.pop()


@dataclass(frozen=True, eq=False)
class Scratch:
    """Device memory for the launches on one stream: control words of each, then `data`."""

    stream: Any  # kept alive: a new stream at the same address would share the memory
    memory: Any
    data: np.uint64
    launches: tuple[np.ndarray, ...]  # the `Launch` argument of each
    nbytes: int  # of data
    prepared: dict[Any, Any] = field(default_factory=dict, init=False)  # see `Workspaces.prepared`
    cells: Cells = field(default_factory=Cells, init=False)

    @property
    def launch(self) -> np.ndarray:
        """The argument of the only launch."""
        return self.launches[0]

    def parts(self, nbytes: int, count: int) -> list[Any]:
        """`count` parts of the data, of that many bytes each."""
        return [self.data + np.uint64(k * nbytes) for k in range(count)]

    def prepare(
        self, function: Any, blocks: int, threads: int, *arguments: Any, shared: int = 0
    ) -> PreparedLaunch:
        """A launch on this stream; b and x are those of the sequence of which it is a part."""
        here = {"cells": self.cells, "stream": self.stream.ptr}
        return PreparedLaunch(function, blocks, threads, arguments, shared=shared, **here)

    def marking(self, nbytes: int) -> Callable[[], None]:
        """What resets the control words and that many bytes of data to "not ready"."""
        nbytes += Launcher.CONTROL_BYTES * len(self.launches)
        memset = cupy().cuda.runtime.memsetAsync
        return partial(memset, self.memory.data.ptr, MARK, nbytes, self.stream.ptr)

    def zeroing(self, offset: int, nbytes: int) -> Callable[[], None]:
        """What sets bytes of data, from `offset` on, to zero."""
        memset = cupy().cuda.runtime.memsetAsync
        return partial(memset, int(self.data) + offset, 0, nbytes, self.stream.ptr)

    def copying(self, to: np.uint64, nbytes: int) -> Callable[[], None]:
        """What copies that many bytes of b to scratch, on this stream."""
        copy, cells, stream = cupy().cuda.runtime.memcpyAsync, self.cells, self.stream.ptr
        within = cupy().cuda.runtime.memcpyDeviceToDevice
        return lambda: copy(int(to), cells.address_of_b(), nbytes, within, stream)


class Workspaces:
    """Scratch memory for one object: a block for each stream, and a private one for each capture.

    A stream's block is reused by the launches on it, which run one after the other; a captured
    graph may be replayed anywhere and keeps its own for as long as the object lives.
    """

    def __init__(self, launcher: Launcher, launches: int = 1) -> None:
        self._launcher, self._launches = launcher, launches
        self._blocks: dict[Any, Scratch] = {}

    def get(self, nbytes: int) -> Scratch:
        """Scratch with at least that many bytes of data for a launch on the current stream."""
        return self._get(*stream_key(), nbytes)

    def prepared(
        self, kind: tuple[Any, ...], nbytes: Callable[..., int], prepare: Callable[..., Any]
    ) -> Sequence:
        """What `prepare(scratch, *kind)` lists, for the current stream: made once for each kind.

        The scratch has at least `nbytes(*kind)` bytes of data. What is listed must not refer to it:
        the scratch holds the list, and is to be freed with the last reference to this object.
        """
        stream, key = stream_key()
        held = self._blocks.get(key)
        found = None if held is None else held.prepared.get(kind)
        if found is None:
            held = self._get(stream, key, nbytes(*kind))
            found = held.prepared[kind] = Sequence(held.cells, prepare(held, *kind))
        return found

    def _get(self, stream: Any, key: Any, nbytes: int) -> Scratch:
        held = self._blocks.get(key)
        if held is None or held.nbytes < nbytes:
            size, count = Launcher.CONTROL_BYTES, self._launches
            memory = cupy().empty(count * size + nbytes, np.uint8)
            data = np.uint64(memory.data.ptr + count * size)
            controls = (memory[k * size : (k + 1) * size] for k in range(count))
            launches = tuple(map(self._launcher.struct, controls))
            held = Scratch(stream, memory, data, launches, nbytes)
            self._blocks[key] = held
        return held
