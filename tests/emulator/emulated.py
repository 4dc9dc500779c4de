"""The package's own launch sequences on the emulator: `gpuilu.backend.cuda` with NumPy arrays.

Inside `with Device(...)` what launches kernels runs as it is written (`Row`, `_eliminate_cuda`,
`_depths_cuda`, ...), on NumPy arrays and emulated kernels.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from unittest import mock

import emulator
import numpy as np
import pytest
from instantiations import INSTANTIATIONS

from gpuilu import dag
from gpuilu.backend import compile as compiler
from gpuilu.backend import cuda, launches
from gpuilu.errors import SolveStalledError
from gpuilu.factor import ilu0
from gpuilu.trsv import (
    blocked,
    level_launches,
    row,
    strip_launches,
    strips,
    strips_grow,
    waiting,
)

needs_compiler = pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))

CHUNK = 64  # rows of a block of chunk.cuh, instead of 1024
WINDOW = 96  # positions that a block of strips.cuh remembers, instead of 2048
POLLS = 2  # of a sweeper for four steps, instead of 32: here the others are not faster than it
BLOCK = 64  # threads of a block of the waiting kernels
SHORT_BLOCK = 32  # and of those without waiting
NEVER = 2**62  # ns


def sources():
    """The package's kernels and headers by file name, with smaller windows, chunks and patience."""
    texts = dict(compiler.sources())  # theirs is kept
    for file, name, value in (
        ("strips.cuh", "WINDOW", WINDOW),
        ("sweep.cuh", "POLLS", POLLS),
        ("chunk.cuh", "CHUNK", CHUNK),
    ):
        text = f"constexpr int {name} = {value};"
        texts[file], found = re.subn(rf"constexpr int {name} = \d+;", text, texts[file])
        assert found == 1, f"{file} must say `constexpr int {name} = ...;` once"
    return texts


def unit(family, kernels=None, texts=None):
    """A family with all that the package can launch of it, or with some kernels, compiled once."""
    kernels = INSTANTIATIONS[family] if kernels is None else kernels
    return emulator.compile_unit(family, tuple(kernels), sources() if texts is None else texts)


class Launcher:
    """`cuda.Launcher` with a status word in host memory."""

    CONTROL_BYTES = cuda.Launcher.CONTROL_BYTES

    def __init__(self, patience_ns):
        self.status = np.zeros(1, np.uint32)
        self.patience_ns = patience_ns

    def struct(self, control):
        return emulator.Struct(control, self.status, self.patience_ns)

    def raise_if_stalled(self):
        if self.status[0]:
            self.status[0] = 0
            raise SolveStalledError("the emulated launch was abandoned")


class Cells:
    def fill(self, b, x):
        self.given = b, x


class Scratch:
    """`cuda.Scratch`: control words and data, and what resets them."""

    def __init__(self, launcher, launches, nbytes, reset):
        words = launcher.CONTROL_BYTES // 4
        self.control = np.full((launches, words), 0xFFFFFFFF, np.uint32)
        self.data = np.full(nbytes, 0xFF, np.uint8)
        self.launches = [launcher.struct(control) for control in self.control]
        self.launch = self.launches[0]
        self.prepared, self.cells = {}, Cells()
        self._reset = reset

    def parts(self, nbytes, count):
        return [self.data[k * nbytes : (k + 1) * nbytes] for k in range(count)]

    def prepare(self, function, blocks, threads, *arguments, shared=0):
        def launch():
            cells = self.cells.given
            filled = [cells[a] if isinstance(a, launches.Given) else a for a in arguments]
            function((blocks,), (threads,), filled, shared_mem=shared)

        return launch

    def marking(self, nbytes):
        return lambda: self.fill_marks(nbytes)

    def fill_marks(self, nbytes):
        if "control" in self._reset:
            self.control.view(np.uint8)[:] = cuda.MARK
        if "data" in self._reset:
            self.data[:nbytes] = cuda.MARK

    def copying(self, to, nbytes):
        def copy():
            to[:nbytes] = self.cells.given[0].reshape(-1).view(np.uint8)

        return copy

    def zeroing(self, offset, nbytes):
        def fill():
            self.data[offset : offset + nbytes] = 0

        return fill


class Workspaces:
    def __init__(self, launcher, launches, reset):
        self._launcher, self._launches = launcher, launches
        self._reset, self._held = reset, None

    def get(self, nbytes):
        if self._held is None or len(self._held.data) < nbytes:
            self._held = Scratch(self._launcher, self._launches, nbytes, self._reset)
        return self._held

    def prepared(self, kind, nbytes, prepare):
        held = self.get(nbytes(*kind))
        if kind not in held.prepared:
            held.prepared[kind] = launches.Sequence(held.cells, prepare(held, *kind))
        return held.prepared[kind]

    nbytes = 0


@dataclass
class Device:
    """How launches inside a `with` block are emulated.

    units : dict
        Families that are not the package's own.
    blocks, resident : int
        Most blocks of a waiting kernel, and how many of them run at once.
    shared_bytes : int
        What a block may ask for.
    reset : tuple of "control" and "data"
        What is marked again before a solve.
    options : dict
        Of `Kernel.launch`.
    """

    seed: int = 0
    units: dict = field(default_factory=dict)
    blocks: int = 3
    resident: int = 2
    patience_ns: int = NEVER
    shared_bytes: int = emulator.SHARED_BYTES
    strip_threads: int = 2 * BLOCK
    reset: tuple = ("control", "data")
    options: dict = field(default_factory=dict)
    launched: list = field(default_factory=list)

    def kernel(self, family, name):
        found = (self.units.get(family) or unit(family))[name]

        def function(grid, block, arguments, shared_mem=0):
            assert shared_mem <= emulator.SHARED_BYTES
            self.launched.append(name)
            options = {"seed": self.seed, "resident": self.resident} | self.options
            return found.launch(grid, block, arguments, **options)

        return function

    def __enter__(self):
        here = {
            "kernel": self.kernel,
            "full_grid": lambda function, threads, shared=0: self.blocks,
            "resident_blocks": lambda function, threads, shared=0: self.blocks,
            "shared_memory": lambda: self.shared_bytes,
            "allow_shared_memory": lambda function, nbytes: None,
            "for_each": functools.partial(cuda.for_each, threads=SHORT_BLOCK),
            "struct": emulator.Struct,
            "marked": lambda n, dtype=np.uint32: np.full(
                n * np.dtype(dtype).itemsize, cuda.MARK, np.uint8
            ).view(dtype),
            "fill_marks": lambda array: array.view(np.uint8).fill(cuda.MARK),
            "Launcher": lambda: Launcher(self.patience_ns),
            "Workspaces": lambda launcher, launches=1: Workspaces(launcher, launches, self.reset),
            "to_host": np.array,
            "synchronize": lambda: None,
            "refuse_capture": lambda what: None,
        }
        warps = BLOCK // cuda.WARP
        self._patches = [
            mock.patch.multiple(cuda, **here),
            mock.patch.multiple(row, THREADS=BLOCK),
            mock.patch.multiple(waiting, THREADS=BLOCK),
            mock.patch.multiple(level_launches, THREADS=BLOCK),
            mock.patch.multiple(ilu0, THREADS=BLOCK, WARPS=warps),
            mock.patch.multiple(dag, THREADS=BLOCK, CHUNK=CHUNK),
            mock.patch.multiple(strips_grow, CHUNK=CHUNK),
            mock.patch.multiple(
                blocked,
                THREADS=self.strip_threads,
                MANY_THREADS=self.strip_threads,
                RINGS=((16, min(self.strip_threads, 192)),),
                WINDOW=WINDOW,
            ),
            mock.patch.multiple(strip_launches, THREADS=SHORT_BLOCK),
            mock.patch.multiple(strips, WINDOW=WINDOW),
        ]
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in reversed(self._patches):
            patch.stop()
