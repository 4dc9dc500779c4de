"""Kernel launches made ready: their arguments are packed once, and only b and x change.

CuPy makes an object of each argument at every launch, which takes the host longer than the driver
does. Here they lie in memory, from which the driver copies them while it is called. The pointers to
b and x, which alone differ from one apply to the next, stand in two cells that all launches share.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpuilu.backend.devices import cupy

__all__ = ["GIVEN_B", "GIVEN_X", "Cells", "Given", "PreparedLaunch", "Sequence", "struct"]

WORD = 8  # bytes: every argument begins at a multiple of it, as the widest field of any needs


class Given(enum.IntEnum):
    """An argument that is left open, by its cell."""

    B = 0
    X = 1


GIVEN_B, GIVEN_X = Given.B, Given.X


class Cells:
    """Where launches find the pointers to b and x.

    Not for two threads at once: whoever shares them holds a lock from `fill` to the last launch.
    When a launch returns, the driver (or the graph that is being captured) has copied them.
    """

    def __init__(self) -> None:
        self._cells = np.zeros(len(Given), np.uint64)
        self._words = memoryview(self._cells)  # type: ignore[arg-type]

    def address(self, argument: Given) -> int:
        return int(self._cells.ctypes.data) + WORD * argument

    def fill(self, b: Any, x: Any) -> None:
        self._words[0], self._words[1] = b.data.ptr, x.data.ptr

    def address_of_b(self) -> int:
        """Where b itself is, at present."""
        return int(self._words[0])


class PreparedLaunch(partial):
    """A kernel with its grid, its stream and its arguments: call it without any.

    Parameters
    ----------
    function : cupy.cuda.Function
    blocks, threads, shared : int
        Blocks, threads of each, bytes of dynamic shared memory.
    arguments : tuple
        As kernels take them: device arrays, `struct`s, NumPy scalars (Python ints are 32-bit), None
        for a null pointer, and `Given`. Device arrays are not kept alive.
    cells : Cells
    stream : int
        Its address. Whoever keeps the launch keeps the stream.
    """

    kept: tuple[Any, ...]  # what the driver reads, and the code, for as long as the launch lives

    def __new__(
        cls,
        function: Any,
        blocks: int,
        threads: int,
        arguments: tuple[Any, ...],
        *,
        cells: Cells,
        stream: int,
        shared: int = 0,
    ) -> PreparedLaunch:
        packed = [_packed(a) for a in arguments]
        pointers = np.array(
            [
                cells.address(argument) if isinstance(argument, Given) else words.ctypes.data
                for argument, words in zip(arguments, packed, strict=True)
            ],
            np.uint64,
        )
        launch = super().__new__(
            *(cls, cupy().cuda.driver.launchKernel, function.ptr),
            *(blocks, 1, 1, threads, 1, 1, shared, stream, pointers.ctypes.data, 0),
        )
        launch.kept = function, packed, pointers, cells
        return launch


class Sequence:
    """Launches, and whatever else is enqueued, one after the other: call it with b and x."""

    def __init__(self, cells: Any, calls: list[Callable[[], Any]]) -> None:
        self._fill, self._calls = cells.fill, calls

    def __call__(self, b: Any, x: Any) -> None:
        self._fill(b, x)
        for call in self._calls:
            call()


def struct(*fields: Any) -> np.ndarray:
    """A kernel argument passed by value: arrays as pointers, ints, each in eight bytes."""
    words = np.array([_address(f) for f in fields], np.uint64)
    return words.view(np.dtype((np.void, words.nbytes)))  # CuPy passes arrays of size one by value


def _address(field: Any) -> int:
    if field is None:
        return 0
    return int(field) if isinstance(field, int) else int(field.data.ptr)


def _packed(argument: Any) -> np.ndarray:
    """An argument as whole words, shape (n_words,); none for one that is left open."""
    if isinstance(argument, Given):
        return np.zeros(0, np.uint64)
    if isinstance(argument, np.ndarray | np.generic):
        value = np.asarray(argument)
    elif type(argument) is int:
        value = np.asarray(argument, np.int32)
    else:
        value = np.asarray(_address(argument), np.uint64)
    words = np.zeros(-(-value.nbytes // WORD), np.uint64)
    words.view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
    return words
