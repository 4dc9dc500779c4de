"""What waiting kernels need of the host: a status word, and scratch memory for each stream."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuilu.backend.devices import cupy
from gpuilu.backend.streams import stream_key
from gpuilu.errors import SolveStalledError

__all__ = ["MARK", "Launcher", "Scratch", "Workspaces", "struct"]

MARK = 0xFF  # the byte of "not ready"


def struct(*fields: Any) -> np.ndarray:
    """A kernel argument passed by value: arrays as pointers, ints, each in eight bytes."""
    words = np.array([_address(f) for f in fields], np.uint64)
    return words.view(np.dtype((np.void, words.nbytes)))  # CuPy passes arrays of size one by value


def _address(field: Any) -> int:
    if field is None:
        return 0
    return int(field) if isinstance(field, int) else int(field.data.ptr)


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
    memset: Any = field(init=False)  # (address, byte, how many, stream)

    _parts: dict[tuple[int, int], list[np.uint64]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "memset", cupy().cuda.runtime.memsetAsync)

    @property
    def launch(self) -> np.ndarray:
        """The argument of the only launch."""
        return self.launches[0]

    def parts(self, nbytes: int, count: int) -> list[Any]:
        """`count` parts of the data, of that many bytes each."""
        found = self._parts.get((nbytes, count))
        if found is None:
            found = [self.data + np.uint64(k * nbytes) for k in range(count)]
            self._parts[nbytes, count] = found
        return found

    def fill_marks(self, nbytes: int) -> None:
        """Reset the control words and that many bytes of data to "not ready"."""
        nbytes += Launcher.CONTROL_BYTES * len(self.launches)
        self.memset(self.memory.data.ptr, MARK, nbytes, self.stream.ptr)

    def fill_zeros(self, offset: int, nbytes: int) -> None:
        """Set bytes of data, from `offset` on, to zero."""
        if nbytes:
            address = int(self.data) + offset
            self.memset(address, 0, nbytes, self.stream.ptr)


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
        stream, key = stream_key()
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
