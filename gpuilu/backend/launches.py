"""Kernel launches made ready: arguments packed once, and only what changes written before each.

CuPy makes an object of each argument at every launch, which takes the host longer than
the driver does. Here they lie in a block of memory, from which the driver copies them while it is
called.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from gpuilu.backend.devices import cupy

__all__ = ["GIVEN_B", "GIVEN_X", "Given", "PreparedLaunch", "struct"]

WORD = 8  # bytes: every argument begins at a multiple of it, as the widest field of any needs


class Given(enum.IntEnum):
    """An argument left open: which of the arrays that a launch is called with."""

    B = 0
    X = 1


GIVEN_B, GIVEN_X = Given.B, Given.X


class PreparedLaunch:
    """One kernel with its grid, its stream and its arguments: call it with what is left open.

    Not for two threads at once: whoever shares one holds a lock while calling it. When the call
    returns, the driver (or the graph that is being captured) has copied the arguments.

    Parameters
    ----------
    function : cupy.cuda.Function
    blocks, threads, shared : int
        Blocks, threads of each, bytes of dynamic shared memory.
    stream : int
        Its address. Whoever keeps the launch keeps the stream.
    arguments
        As kernels take them: device arrays, `struct`s, NumPy scalars (Python ints are 32-bit), None
        for a null pointer, and `Given`. Device arrays are not kept alive.
    """

    def __init__(
        self,
        function: Any,
        blocks: int,
        threads: int,
        arguments: tuple[Any, ...],
        *,
        stream: int,
        shared: int = 0,
    ) -> None:
        packed = [_packed(a) for a in arguments]
        starts = np.cumsum([0, *map(len, packed)])
        self._block = np.concatenate([*packed, np.zeros(1, np.uint64)])
        self._pointers = (self._block.ctypes.data + WORD * starts[:-1]).astype(np.uint64)
        self._words = memoryview(self._block)  # type: ignore[arg-type]
        places = zip(starts[:-1].tolist(), arguments, strict=True)
        self._places = [(start, a.value) for start, a in places if isinstance(a, Given)]
        self._function = function  # keeps the code loaded
        self._how = (
            *(function.ptr, blocks, 1, 1, threads, 1, 1, shared),
            *(stream, self._pointers.ctypes.data, 0),
        )
        self._launch = cupy().cuda.driver.launchKernel

    def __call__(self, *given: Any) -> None:
        words = self._words
        for place, k in self._places:
            words[place] = given[k].data.ptr
        self._launch(*self._how)


def struct(*fields: Any) -> np.ndarray:
    """A kernel argument passed by value: arrays as pointers, ints, each in eight bytes."""
    words = np.array([_address(f) for f in fields], np.uint64)
    return words.view(np.dtype((np.void, words.nbytes)))  # CuPy passes arrays of size one by value


def _address(field: Any) -> int:
    if field is None:
        return 0
    return int(field) if isinstance(field, int) else int(field.data.ptr)


def _packed(argument: Any) -> np.ndarray:
    """An argument as whole words, shape (n_words,)."""
    if isinstance(argument, Given):
        return np.zeros(1, np.uint64)
    if isinstance(argument, np.ndarray | np.generic):
        value = np.asarray(argument)
    elif type(argument) is int:
        value = np.asarray(argument, np.int32)
    else:
        value = np.asarray(_address(argument), np.uint64)
    words = np.zeros(-(-value.nbytes // WORD), np.uint64)
    words.view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
    return words
