"""CuPy, kernels and streams: everything that touches the GPU goes through here, lazily.

CuPy is imported at the first call that needs a GPU; importing this module needs no CUDA.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import is_cupy
from gpuilu.backend.compile import VALUE_TYPES, cubin
from gpuilu.errors import BackendUnavailableError, CaptureError, SolveStalledError

__all__ = [
    "Launcher",
    "StreamOrder",
    "Workspaces",
    "available",
    "cupy",
    "device_of",
    "kernel",
    "launch",
    "multiprocessors",
    "resident_blocks",
    "use",
    "value_type",
]

OLDEST_CAPABILITY = 70
MARK = 0xFF  # the byte of "not ready"
WARP = 32


# ---- CuPy and devices ---------------------------------------------------------------------------


@functools.cache
def cupy() -> Any:
    """The cupy module, or an error that says how to get it."""
    try:
        import cupy as module
    except ImportError as error:
        raise BackendUnavailableError(
            "a GPU was asked for but CuPy is not installed: pip install 'gpuilu[cuda13]' "
            "(or 'gpuilu[cuda12]', after the CUDA version of the driver), or use device='auto' or "
            "device='cpu'"
        ) from error
    if not module.is_available():
        raise BackendUnavailableError(
            "a GPU was asked for but CuPy finds no CUDA device or driver; "
            "use device='auto' or device='cpu'"
        )
    return module


def available() -> bool:
    """Whether there is a GPU to use; creates no context."""
    try:
        cupy()
    except BackendUnavailableError:
        return False
    return True


def device_of(a: Any) -> int:
    """The number of the device that an array lives on."""
    return int(a.device.id)


def checked_device(number: int | None) -> str:
    """Name a device that exists and is recent enough; None is the current one."""
    runtime = cupy().cuda.runtime
    if number is None:
        number = int(runtime.getDevice())
    count = int(runtime.getDeviceCount())
    if number >= count:
        raise BackendUnavailableError(f"device 'cuda:{number}' was asked for; there are {count}")
    capability(number)
    return f"cuda:{number}"


@contextlib.contextmanager
def use(device: int) -> Iterator[None]:
    """Run on a device, without a switch where it is the current one."""
    cp = cupy()
    if cp.cuda.runtime.getDevice() == device:
        yield
    else:
        with cp.cuda.Device(device):
            yield


def on(device: str) -> Any:
    """`use` for "cuda:N"; nothing for "cpu"."""
    return contextlib.nullcontext() if device == "cpu" else use(number_of(device))


@functools.cache
def capability(device: int) -> int:
    """Compute capability, as 90 for 9.0; refuses cards on which waiting lanes can starve others."""
    found = int(cupy().cuda.Device(device).compute_capability)
    if found < OLDEST_CAPABILITY:
        raise BackendUnavailableError(
            f"device {device} has compute capability {found / 10}; gpuilu needs at least "
            f"{OLDEST_CAPABILITY / 10}, whose lanes progress independently"
        )
    return found


_confined = threading.local()  # .multiprocessors: see backend/partition.py


def multiprocessors(device: int) -> int:
    """Number of multiprocessors that a launch of this thread may use: all, or a partition's."""
    return getattr(_confined, "multiprocessors", None) or all_multiprocessors(device)


@functools.cache
def all_multiprocessors(device: int) -> int:
    """Number of multiprocessors of a device."""
    runtime = cupy().cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device))


@contextlib.contextmanager
def confined(stream: Any, n_multiprocessors: int) -> Iterator[None]:
    """Run on a stream that owns only so many multiprocessors, and size grids by that number."""
    before = getattr(_confined, "multiprocessors", None)
    _confined.multiprocessors = n_multiprocessors
    try:
        with stream:
            yield
    finally:
        _confined.multiprocessors = before


# ---- kernels ------------------------------------------------------------------------------------


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


def synchronize() -> None:
    """Wait for the current stream."""
    cupy().cuda.get_current_stream().synchronize()


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


def struct(*fields: Any) -> np.ndarray:
    """A kernel argument passed by value: arrays as pointers, ints, each in eight bytes."""
    words = np.array([_address(f) for f in fields], np.uint64)
    return words.view(np.dtype((np.void, words.nbytes)))  # CuPy passes arrays of size one by value


def _address(field: Any) -> int:
    if field is None:
        return 0
    return int(field) if isinstance(field, int) else int(field.data.ptr)


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


# ---- waiting kernels ----------------------------------------------------------------------------


class Launcher:
    """What the launches of one object share: a status word that kernels write and Python reads.

    The word is pinned host memory: reading it costs nothing and waits for nothing.
    """

    CONTROL_BYTES = 16

    def __init__(self) -> None:
        self._status = _status_word()
        weakref.finalize(self, _free_words.append, self._status)
        self._status[0] = 0
        self._patience_s = float(os.environ.get("GPUILU_PATIENCE_SECONDS", "2"))

    def struct(self, control: Any) -> np.ndarray:
        """The `Launch` argument of a kernel, `control` being CONTROL_BYTES of marked memory."""
        return struct(control, self._status.ctypes.data, int(self._patience_s * 1e9))

    def raise_if_stalled(self) -> None:
        """Raise once for a launch that was abandoned; the object is usable afterwards."""
        if self._status[0]:
            self._status[0] = 0
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


# ---- streams ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scratch:
    """Device memory for the launches on one stream: control words, then `data`."""

    stream: Any  # kept alive: a new stream at the same address would share the memory
    memory: Any
    data: np.uint64
    launch: np.ndarray

    def parts(self, nbytes: int, count: int) -> list[Any]:
        """`count` parts of the data, of that many bytes each."""
        return [self.data + np.uint64(k * nbytes) for k in range(count)]

    def fill_marks(self, nbytes: int) -> None:
        """Reset the control words and that many bytes of data to "not ready"."""
        memsetAsync = cupy().cuda.runtime.memsetAsync
        nbytes += Launcher.CONTROL_BYTES
        memsetAsync(self.memory.data.ptr, MARK, nbytes, self.stream.ptr)

    def fill_zeros(self, offset: int, nbytes: int) -> None:
        """Set bytes of data, from `offset` on, to zero."""
        if nbytes:
            address = int(self.data) + offset
            cupy().cuda.runtime.memsetAsync(address, 0, nbytes, self.stream.ptr)


class Workspaces:
    """Scratch memory for one object: a block for each stream, and a private one for each capture.

    A stream's block is reused by the launches on it, which run one after the other; a captured
    graph may be replayed anywhere and keeps its own for as long as the object lives.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._blocks: dict[Any, Scratch] = {}

    def get(self, nbytes: int) -> Scratch:
        """Scratch with at least that many bytes of data for a launch on the current stream."""
        stream, key = _stream_key()
        held = self._blocks.get(key)
        if held is None or held.memory.nbytes < nbytes + Launcher.CONTROL_BYTES:
            memory = cupy().empty(nbytes + Launcher.CONTROL_BYTES, np.uint8)
            data = np.uint64(memory.data.ptr + Launcher.CONTROL_BYTES)
            held = Scratch(stream, memory, data, self._launcher.struct(memory))
            self._blocks[key] = held
        return held


class StreamOrder:
    """Orders an update after the applies in flight on other streams, and before later ones."""

    def __init__(self) -> None:
        self._streams: dict[Any, Any] = {}
        self._updated: Any = None

    def before_apply(self) -> None:
        """Note the current stream; its first apply waits for the last update."""
        stream, key = _stream_key()
        if key in self._streams:
            return
        # A capture cannot wait for work outside of it: whoever replays the graph orders it.
        if self._updated is not None and key[0] != "capture":
            stream.wait_event(self._updated)
        self._streams[key] = stream

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """Put the body's work after all applies so far and before all later ones."""
        stream, key = _stream_key()
        others = [s for k, s in self._streams.items() if k != key and k[0] != "capture"]
        for other in others:
            stream.wait_event(other.record())
        yield
        self._updated = stream.record()
        for other in others:
            other.wait_event(self._updated)
        self._streams[key] = stream

    def synchronize(self) -> None:
        """Wait for everything noted so far."""
        for key, stream in list(self._streams.items()):
            if key[0] != "capture":
                stream.synchronize()


def refuse_capture(what: str) -> None:
    """Raise if the current stream is being captured into a graph."""
    if cupy().cuda.get_current_stream().is_capturing():
        raise CaptureError(f"{what} cannot be captured into a CUDA graph")


def captured(work: Callable[[], None]) -> Any:
    """What `work` enqueues, as a CUDA graph; it must have run before, so that nothing compiles."""
    stream = cupy().cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            work()
        except BaseException:
            with contextlib.suppress(Exception):  # the capture is broken already
                stream.end_capture()
            raise
        return stream.end_capture()


def launch_graph(graph: Any) -> None:
    """Replay a graph on the current stream."""
    graph.launch(cupy().cuda.get_current_stream())


PER_THREAD_STREAM = 2


def _stream_key() -> tuple[Any, Any]:
    """(stream, what identifies it): pointer, with the thread for CUDA's per-thread stream."""
    cp = cupy()
    stream = cp.cuda.get_current_stream()
    if stream.is_capturing():
        return stream, ("capture", _capture_id(stream.ptr))
    thread = threading.get_ident() if stream.ptr == PER_THREAD_STREAM else 0
    return stream, (cp.cuda.runtime.getDevice(), stream.ptr, thread)


_anonymous_captures = itertools.count(1)


def _capture_id(stream: int) -> Any:
    """CUDA's number of the capture under way; always a new one where the driver tells none."""
    query = _capture_query()
    status, number = ctypes.c_int(), ctypes.c_uint64()
    arguments = (ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number))
    if query is not None and query(*arguments) == 0:
        return number.value
    return f"anonymous {next(_anonymous_captures)}"


@functools.cache
def _capture_query() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo
    except (OSError, AttributeError):
        return None


# ---- host and device ----------------------------------------------------------------------------


def to_host(array: Any) -> np.ndarray:
    """A new NumPy array, through pinned memory: waits for the current stream."""
    cp = cupy()
    if array.nbytes == 0:
        return np.empty(array.shape, array.dtype)
    memory = cp.cuda.alloc_pinned_memory(array.nbytes)
    staged = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    array.get(out=staged)
    return staged.copy()


def mover(device: str) -> Callable[[Any], Any]:
    """A function that copies arrays to "cpu" or to "cuda:N" (at the current device's stream)."""
    if device == "cpu":
        return to_host
    number = number_of(device)

    def to_device(array: Any) -> Any:
        with use(number):
            return cupy().asarray(array)

    return to_device


def place_of(array: Any) -> str:
    """Where an array is: "cpu", or "cuda:N" for a CuPy array."""
    return f"cuda:{device_of(array)}" if is_cupy(array) else "cpu"


def number_of(device: str) -> int:
    """N of "cuda:N"."""
    return int(device.partition(":")[2])


def placed(array: Any, device: str) -> Any:
    """The array on `device`, copied only from elsewhere; foreign GPU arrays are taken over."""
    if not is_cupy(array):
        array = cupy().asarray(array) if is_foreign(array) else np.asarray(array)
    return array if place_of(array) == device else mover(device)(array)


def is_foreign(a: Any) -> bool:
    """Whether `a` is a GPU array of another library, such as a torch tensor."""
    return not is_cupy(a) and hasattr(a, "__cuda_array_interface__")


def csr_matrix(arrays: Any, shape: tuple[int, int]) -> Any:
    """cupyx's `csr_matrix` from (data, indices, indptr)."""
    cupy()
    from cupyx.scipy.sparse import csr_matrix as make

    return make(arrays, shape=shape)


def krylov_solvers() -> Any:
    """The module cupyx.scipy.sparse.linalg."""
    cupy()
    import cupyx.scipy.sparse.linalg

    return cupyx.scipy.sparse.linalg


def as_cupyx_operator(x: Any) -> Any:
    """A cupyx LinearOperator on a matrix, or on anything with a matvec."""
    from cupyx.scipy.sparse.linalg import aslinearoperator

    return aslinearoperator(x)
