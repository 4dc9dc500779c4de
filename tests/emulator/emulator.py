"""Runs CUDA kernels on the host: compile a source with g++, launch it under a seeded schedule.

    unit = emulator.compile_unit("levels", ("row_depths<true>",))
    unit["row_depths<true>"].launch(grid, block, (n, indptr, indices, depth, launch), seed=7)

Every CUDA thread is a fiber; what is checked, and how, stands at the top of native/runtime.h.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from emulator_memory import Arena, Struct

from gpuilu.backend.compile import sources

__all__ = ["Kernel", "Report", "Struct", "Unit", "compile_unit", "why_not"]

NATIVE = Path(__file__).parent / "native"
COMPILER = os.environ.get("CXX", "g++")
SHARED_BYTES = 184 << 10  # of dynamic shared memory
RESIDENT = 8  # most blocks at once

RUNTIME_FLAGS = ("-std=c++17", "-O2", "-g", "-fPIC", "-Wall", "-Wextra")
# No contraction, so that unfused arithmetic stays so; no unique symbols, so that each loaded copy
# has static variables of its own; no library calls made out of loops, which would not be seen.
UNIT_FLAGS = (
    *("-std=c++17", "-O1", "-g", "-fPIC", "-fsanitize=thread", "-ffp-contract=off"),
    *("-fno-gnu-unique", "-fno-tree-loop-distribute-patterns", "-fno-ipa-reference"),
    *("-fno-optimize-sibling-calls", "-fvisibility-inlines-hidden", "-w"),
    *("--param=tsan-instrument-func-entry-exit=0", "-DGPUILU_EMULATOR"),
)


class EmulatorError(Exception):
    """A launch on the emulator went wrong."""


class DeadlockError(EmulatorError):
    """Every thread waits or only polls."""


class RaceError(EmulatorError):
    """Two accesses to one place, at least one plain and one a store, are not ordered."""


class CollectiveError(EmulatorError):
    """A barrier, vote or shuffle that not all lanes named can reach."""


class AddressError(EmulatorError):
    """An access outside every array."""


class EndlessError(EmulatorError):
    """More steps than allowed."""


class TrapError(EmulatorError):
    """The kernel called __trap."""


ERRORS = (
    *(None, DeadlockError, RaceError, CollectiveError, AddressError, EndlessError, TrapError),
)


def why_not() -> str | None:
    """The reason why nothing can be emulated here, if there is one."""
    if shutil.which(COMPILER) is None:
        return f"there is no C++ compiler {COMPILER!r} here"
    macros = subprocess.run(
        [COMPILER, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True
    ).stdout
    found = re.search(r"#define __GNUC__ (\d+)", macros)
    if "__clang__" in macros or found is None or int(found[1]) < 11:
        return f"{COMPILER} is not g++ 11 or newer"
    if "__linux__" not in macros:
        return "the emulator needs Linux"
    return None


# ---- compiling ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Compiled units by the hash of all they are made from."""
    named = os.environ.get("GPUILU_EMULATOR_CACHE")
    mine = f"gpuilu-emulator-{os.getuid()}"
    folder = Path(named) if named else Path(tempfile.gettempdir()) / mine
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def run_compiler(*arguments):
    done = subprocess.run([COMPILER, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise EmulatorError(f"{COMPILER} failed:\n{done.stderr}")


@functools.cache
def native_digest() -> str:
    digest = hashlib.sha256(repr((COMPILER, RUNTIME_FLAGS, UNIT_FLAGS)).encode())
    for path in sorted(NATIVE.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:24]


@functools.cache
def runtime_path() -> Path:
    path = cache_folder() / f"runtime-{native_digest()}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / path.name
            files = sorted(NATIVE.glob("*.cpp"))
            run_compiler(*RUNTIME_FLAGS, "-shared", f"-Wl,-soname,{path}", *files, "-o", made)
            _publish(made, path)
    return path


def _publish(made, path):
    """Into the cache in one step: another process never loads half a file."""
    partial = path.with_suffix(f".{os.getpid()}")
    shutil.copy(made, partial)
    os.replace(partial, path)


@functools.cache
def runtime():
    library = ctypes.CDLL(str(runtime_path()), mode=ctypes.RTLD_GLOBAL)
    library.emu_message.restype = ctypes.c_char_p
    library.emu_steps.restype = ctypes.c_uint64
    return library


def with_static_shared(text):
    """Dynamic shared memory as one static array of all kernels, what a macro cannot say."""
    return re.sub(
        r"extern\s+__shared__\s+([^;\[]+?)\s*\b(\w+)\s*\[\s*\]\s*;",
        r"\1* const \2 = reinterpret_cast<\1*>(emu_dynamic_shared);",
        text,
    )


def compile_unit(family, kernels, texts=None):
    """The kernels of one .cu file, compiled once for every content of `texts` (the package's)."""
    texts = sources() if texts is None else texts
    key = repr((native_digest(), family, tuple(kernels), sorted(texts.items())))
    path = cache_folder() / f"{family}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        _compile(family, kernels, texts, path)
    return _load(path, tuple(kernels), texts[f"{family}.cu"])


@functools.cache
def _load(path, kernels, text):
    return Unit(path, kernels, text)


def _compile(family, kernels, texts, path):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in texts.items():
            (folder / file).write_text(f'#line 1 "{file}"\n' + with_static_shared(text))
        entries = (f"EMULATOR_KERNEL({k}, gpuilu::{kernel})" for k, kernel in enumerate(kernels))
        shim, *rest = (f'#include "{file}"' for file in ("cuda_shim.h", f"{family}.cu", "unit.h"))
        dynamic = f"alignas(16) static char emu_dynamic_shared[{SHARED_BYTES}];"
        (folder / "unit.cpp").write_text("\n".join((shim, dynamic, *rest, *entries, "")))
        run_compiler(
            *(*UNIT_FLAGS, "-I", folder, "-I", NATIVE, "-c", folder / "unit.cpp"),
            *("-o", folder / "unit.o"),
        )
        run_compiler(
            *("-shared", "-nostartfiles", "-Wl,-Bsymbolic", folder / "unit.o", runtime_path()),
            *("-o", folder / "unit.so"),
        )
        _publish(folder / "unit.so", path)


class Unit:
    """A compiled .cu file: kernels by their names, loaded once for every block slot."""

    def __init__(self, path, kernels, text):
        self.path, self.text = path, text
        self._copies = []
        self._folder = tempfile.TemporaryDirectory(prefix="gpuilu-emulator-")
        self.kernels = {name: Kernel(self, number, name) for number, name in enumerate(kernels)}

    def __getitem__(self, name):
        return self.kernels[name]

    def copies(self, count):
        """That many libraries, each with shared variables of its own."""
        runtime()
        while len(self._copies) < count:
            copy = Path(self._folder.name) / f"{len(self._copies)}.so"
            shutil.copy(self.path, copy)
            self._copies.append(ctypes.CDLL(str(copy)))
        return self._copies[:count]

    @functools.cache  # noqa: B019 (units live as long as the process)
    def line(self, code):
        """Where in the source an address of the code comes from, inlined calls outwards."""
        done = subprocess.run(
            ["addr2line", "-i", "-s", "-e", str(self.path), hex(code)],
            capture_output=True,
            text=True,
        )
        lines = [
            line.split(" ")[0]
            for line in done.stdout.splitlines()
            if not line.startswith(("cuda_shim.h", "primitives.h", "??"))
        ]
        return " < ".join(lines[:4]) or hex(code)


# ---- launching ----------------------------------------------------------------------------------


class Options(ctypes.Structure):
    _fields_ = (
        *(("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3)),
        *((name, ctypes.c_uint32) for name in ("resident", "races", "stale", "shared_granule")),
        *((name, ctypes.c_uint64) for name in ("seed", "spin_limit", "step_limit")),
    )


@dataclass(frozen=True)
class Report:
    """What a launch that ended well took."""

    steps: int


def _three(extent):
    extent = (extent,) if isinstance(extent, int) else tuple(extent)
    return (*extent, 1, 1)[:3]


class Kernel:
    """One instantiation."""

    def __init__(self, unit, number, name):
        self.unit, self.number, self.name = unit, number, name
        self.parameters = _parameter_names(unit.text, name.partition("<")[0])

    def launch(
        self,
        grid,
        block,
        arguments,
        *,
        seed=0,
        resident=2,
        races=True,
        stale=True,
        shared_granule=4,
        spin_limit=4800,
        step_limit=50_000_000,
    ):
        """Run the grid to its end; arrays are changed in place. Raises an `EmulatorError`.

        `resident` blocks run at once. The seed chooses the order in which blocks start, how threads
        are interleaved, and which earlier values relaxed loads return. `spin_limit` is the number
        of fruitless steps (eight for a poll) of every thread after which a launch is deadlocked.
        """
        copies = self.unit.copies(min(resident, RESIDENT))
        arena = Arena(arguments, self._names(arguments))
        arena.upload()
        packed = [arena.pack(a) for a in arguments]
        self._check_sizes(copies[0], packed)
        options = Options(
            *(_three(grid), _three(block), len(copies), races, stale, shared_granule),
            *(seed, spin_limit, step_limit),
        )
        code = self._run(copies, options, arena, packed)
        arena.download()
        if code:
            raise ERRORS[code](f"{self.name}, seed {seed}: {self._message(arena)}")
        return Report(runtime().emu_steps())

    def _run(self, copies, options, arena, packed):
        entry = f"emulator_entry_{self.number}"
        entries = [ctypes.cast(getattr(c, entry), ctypes.c_void_p).value for c in copies]
        images = (ctypes.c_void_p * (3 * len(copies)))()
        for k, copy in enumerate(copies):
            copy.emulator_image(ctypes.byref(images, 3 * k * ctypes.sizeof(ctypes.c_void_p)))
        pointers = [a.ctypes.data for a in packed]
        buffers = arena.buffers()
        return runtime().emu_launch(
            ctypes.byref(options),
            (ctypes.c_void_p * len(entries))(*entries),
            images,
            (ctypes.c_void_p * len(pointers))(*pointers),
            ctypes.c_void_p(arena.base),
            ctypes.c_uint64(arena.size),
            ctypes.c_void_p(buffers.ctypes.data),
            len(buffers),
        )

    def _names(self, arguments):
        if len(self.parameters) == len(arguments):
            return self.parameters
        return [f"argument {k}" for k in range(len(arguments))]

    def _check_sizes(self, copy, packed):
        sizes = getattr(copy, f"emulator_sizes_{self.number}")
        sizes.restype = ctypes.POINTER(ctypes.c_uint32)
        expected = []
        while (size := sizes()[len(expected)]) != 0:
            expected.append(size)
        found = [a.nbytes for a in packed]
        if expected != found:
            raise TypeError(f"{self.name} takes arguments of {expected} bytes, got {found}")

    def _message(self, arena):
        text = runtime().emu_message().decode()
        text = re.sub(r"\{code (\d+)\}", lambda m: self.unit.line(int(m[1])), text)

        def place(found):
            k, offset = int(found[1]), int(found[2])
            array = arena.arrays[k]
            return f"{arena.names[k]} at byte {offset} (element {offset // array.itemsize})"

        return re.sub(r"\{buffer (\d+)\} \+ (\d+)", place, text)


def _parameter_names(text, kernel):
    """Names of a kernel's parameters, for messages; empty if they cannot be made out."""
    found = re.search(rf"\b{kernel}\s*\(([^{{;]*)\)\s*{{", text)
    if found is None:
        return []
    names = (re.search(r"(\w+)\s*$", part) for part in found[1].split(","))
    return [name[1] for name in names if name]
