"""CuPy's current stream, what orders work on several of them, and captures into graphs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from gpuilu.backend.devices import cupy
from gpuilu.errors import CaptureError

__all__ = [
    "StreamOrder",
    "captured",
    "elapsed_ms",
    "launch_graph",
    "refuse_capture",
    "stream_key",
    "synchronize",
]


def synchronize() -> None:
    """Wait for the current stream."""
    cupy().cuda.get_current_stream().synchronize()


def elapsed_ms(work: Callable[[], Any]) -> float:
    """Milliseconds that what `work` enqueues takes on the current stream; waits for it."""
    cp = cupy()
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(start, end))


class StreamOrder:
    """Orders an update after the applies in flight on other streams, and before later ones."""

    def __init__(self) -> None:
        self._streams: dict[Any, Any] = {}
        self._updated: Any = None
        self._applying = _Applying(self)

    def apply(self) -> Any:
        """A context for one apply: in order, and with its stream looked up once."""
        return self._applying  # without state of its own: one serves all threads

    def first_apply(self, stream: Any, key: Any) -> None:
        """Note a stream; its first apply waits for the last update."""
        # A capture cannot wait for work outside of it: whoever replays the graph orders it.
        if self._updated is not None and key[0] != "capture":
            stream.wait_event(self._updated)
        self._streams[key] = stream

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """Put the body's work after all applies so far and before all later ones."""
        stream, key = stream_key()
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


class _Noted(threading.local):
    """Of each thread: the stream of its apply under way, and the devices ready for launches."""

    found: tuple[Any, Any] | None = None

    def __init__(self) -> None:
        self.ready: set[int] = set()


_noted = _Noted()


class _Applying:
    """See `StreamOrder.apply`."""

    def __init__(self, order: StreamOrder) -> None:
        self._order = order

    def __enter__(self) -> None:
        stream, key = found = _stream_key()
        if key not in self._order._streams:
            self._order.first_apply(stream, key)
        _noted.found = found

    def __exit__(self, *_: Any) -> None:
        _noted.found = None


def stream_key() -> tuple[Any, Any]:
    """(stream, what identifies it): pointer, with the thread for CUDA's per-thread stream."""
    return _noted.found or _stream_key()


def _stream_key() -> tuple[Any, Any]:
    gpu = cupy().cuda
    device, stream = gpu.runtime.getDevice(), gpu.get_current_stream()
    if device not in _noted.ready:
        _make_ready(device)
    address = stream.ptr
    if stream.is_capturing():
        # With the stream: a capture that forks holds several.
        return stream, ("capture", _capture_id(address), address)
    return stream, (device, address, get_ident() if address == PER_THREAD_STREAM else 0)


def _make_ready(device: int) -> None:
    """Bind the current device's context to this thread, which launches by the driver alone do not.

    CuPy does the same before the launches that go through it.
    """
    cupy().cuda.runtime.memGetInfo()
    _noted.ready.add(device)


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
