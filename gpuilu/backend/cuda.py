"""CuPy, kernels and streams: everything that touches the GPU goes through here, lazily.

CuPy is imported at the first call that needs a GPU; importing this module needs no CUDA. Kernels
are loaded and launched here; the rest stands in `devices`, `streams`, `launches`, `scratch` and
`arrays`, and is used under this module's name.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuilu.backend.arrays import (
    as_cupyx_operator,
    csr_matrix,
    is_foreign,
    krylov_solvers,
    mover,
    place_of,
    placed,
    to_host,
)
from gpuilu.backend.compile import VALUE_TYPES, cubin
from gpuilu.backend.devices import (
    all_multiprocessors,
    available,
    capability,
    checked_device,
    confined,
    cupy,
    device_of,
    is_current,
    multiprocessors,
    number_of,
    on,
    use,
)
from gpuilu.backend.launches import GIVEN_B, GIVEN_X, struct
from gpuilu.backend.scratch import MARK, Launcher, Workspaces
from gpuilu.backend.streams import (
    StreamOrder,
    captured,
    elapsed_ms,
    launch_graph,
    refuse_capture,
    synchronize,
)

__all__ = [
    "GIVEN_B",
    "GIVEN_X",
    "MARK",
    "WARP",
    "Launcher",
    "StreamOrder",
    "Workspaces",
    "all_multiprocessors",
    "allow_shared_memory",
    "as_cupyx_operator",
    "available",
    "captured",
    "checked_device",
    "confined",
    "csr_matrix",
    "cupy",
    "device_of",
    "elapsed_ms",
    "fill_marks",
    "for_each",
    "full_grid",
    "gather_rows",
    "is_current",
    "is_foreign",
    "kernel",
    "krylov_solvers",
    "launch",
    "launch_graph",
    "marked",
    "mover",
    "multiprocessors",
    "number_of",
    "on",
    "place_of",
    "placed",
    "refuse_capture",
    "resident_blocks",
    "shared_memory",
    "struct",
    "synchronize",
    "to_host",
    "use",
    "value_type",
]

WARP = 32


def value_type(dtype: np.dtype) -> str:
    """The C++ name of a value dtype."""
    return VALUE_TYPES[dtype.char]


def kernel(family: str, instantiation: str) -> Any:
    """A loaded kernel of the current device, compiled at first use."""
    return _kernel(family, instantiation, int(cupy().cuda.runtime.getDevice()))


@functools.cache
def _kernel(family: str, instantiation: str, device: int) -> Any:
    code, name = cubin(family, instantiation, f"sm_{capability(device)}")
    module = cupy().cuda.function.Module()
    module.load(code)
    return module.get_function(name)


@functools.cache
def resident_blocks(function: Any, threads: int, shared: int = 0) -> int:
    """Blocks of that many threads, and bytes of shared memory, that one multiprocessor holds."""
    driver = cupy().cuda.driver
    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shared))


def shared_memory() -> int:
    """Bytes of shared memory that one block on the current device may ask for."""
    return _shared_memory(int(cupy().cuda.runtime.getDevice()))


@functools.cache
def _shared_memory(device: int) -> int:
    runtime = cupy().cuda.runtime
    most = runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
    return int(runtime.deviceGetAttribute(most, device))


def allow_shared_memory(function: Any, nbytes: int) -> None:
    """Let blocks of a kernel have that many bytes of dynamic shared memory."""
    driver = cupy().cuda.driver
    attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.funcSetAttribute(function.ptr, attribute, nbytes)


def full_grid(function: Any, threads: int, shared: int = 0) -> int:
    """Blocks of that many threads, and bytes of shared memory, that the current device holds."""
    device = int(cupy().cuda.runtime.getDevice())
    return multiprocessors(device) * resident_blocks(function, threads, shared)


def launch(function: Any, blocks: int, threads: int, *arguments: Any) -> None:
    """Launch on CuPy's current stream. A Python int is passed as a 32-bit int."""
    function((blocks,), (threads,), tuple(map(_argument, arguments)))


def for_each(family: str, instantiation: str, n: int, *arguments: Any, threads: int = 256) -> None:
    """Launch a kernel of one thread for each of n things; nothing for n = 0."""
    if n:
        launch(kernel(family, instantiation), -(-n // threads), threads, *arguments)


LONG_ROW = 16  # mean entries a row from which a warp copies it faster than a thread


def gather_rows(indptr: Any, first: Any, source: Any, result: Any) -> None:
    """result[indptr[i] + k] = source[first[i] + k] for every row i and entry k of it."""
    n = len(first)
    value = {"i": "int"}.get(source.dtype.char) or value_type(source.dtype)
    arguments = (n, indptr, first, source, result)
    if len(result) < LONG_ROW * n:
        for_each("pattern", f"gather_short_rows<{value}>", n, *arguments)
    else:
        for_each("pattern", f"gather_rows<{value}>", WARP * n, *arguments)


def _argument(a: Any) -> Any:
    return np.int32(a) if type(a) is int else a


def marked(n: int, dtype: Any = np.uint32) -> Any:
    """A new device array of all ones: every value "not ready"."""
    cp = cupy()
    array = cp.empty(n, dtype)
    fill_marks(array)
    return array


def fill_marks(array: Any) -> None:
    """Reset to "not ready", on the current stream: a memset, and a node in a captured graph."""
    if array.nbytes:
        cp = cupy()
        stream = cp.cuda.get_current_stream().ptr
        cp.cuda.runtime.memsetAsync(array.data.ptr, MARK, array.nbytes, stream)
