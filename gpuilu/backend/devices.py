"""CuPy, imported at the first call that needs it, and the devices it finds."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from gpuilu.errors import BackendUnavailableError

__all__ = [
    "all_multiprocessors",
    "available",
    "capability",
    "checked_device",
    "confined",
    "cupy",
    "device_of",
    "is_current",
    "multiprocessors",
    "name_of",
    "number_of",
    "on",
    "use",
]

OLDEST_CAPABILITY = 70


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
    return name_of(number)


_nothing = contextlib.nullcontext()


def use(device: int) -> Any:
    """A context that runs on a device, without a switch where it is the current one."""
    cp = cupy()
    return _nothing if cp.cuda.runtime.getDevice() == device else cp.cuda.Device(device)


def is_current(device: str) -> bool:
    """Whether "cuda:N" is the current device."""
    return number_of(device) == cupy().cuda.runtime.getDevice()


def on(device: str) -> Any:
    """`use` for "cuda:N"; nothing for "cpu"."""
    return _nothing if device == "cpu" else use(number_of(device))


@functools.cache
def name_of(number: int) -> str:
    """The device of that number as "cuda:N"."""
    return f"cuda:{number}"


@functools.cache
def number_of(device: str) -> int:
    """N of "cuda:N"."""
    return int(device.partition(":")[2])


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
