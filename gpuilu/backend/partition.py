"""Run on a share of a GPU's multiprocessors: a smaller card out of a larger one.

CUDA's green contexts give a stream some of the multiprocessors for its own. All that runs on the
stream is confined to them, the vendor's kernels too, which no grid size could do: the blocks of a
small grid are spread over the whole card. Second-level cache and memory bandwidth stay whole.
Not every kernel comes back there: cuSPARSE's SpSV did not (examples/benchmarks/README.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from gpuilu.backend import cuda
from gpuilu.errors import BackendUnavailableError, OptionError

__all__ = ["limited_to"]

# Values of enumerations in cuda.h.
RESOURCE_TYPE_SM, GREEN_CONTEXT_DEFAULT_STREAM, STREAM_NON_BLOCKING = 1, 1, 1


class _Resource(ctypes.Structure):
    """CUdevResource, 144 bytes; the padding and the rest are the driver's own."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("padding", ctypes.c_ubyte * 92),
        ("n_multiprocessors", ctypes.c_uint),
        ("smallest", ctypes.c_uint),
        ("group", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 36),
    )


@contextlib.contextmanager
def limited_to(share: float) -> Iterator[int]:
    """Confine the body's launches on CuPy's current stream to a share of the multiprocessors.

    Parameters
    ----------
    share : float
        Wanted, above 0 and at most 1. Multiprocessors come in groups (of 8 on an H100).

    Yields
    ------
    int
        Multiprocessors that it got. With share = 1 all, and the current stream stays as it is.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or its driver is older than CUDA 12.4.
    """
    if not 0 < share <= 1:
        raise OptionError(f"a share of a card is above 0 and at most 1, found {share}")
    device = int(cuda.cupy().cuda.runtime.getDevice())
    if share == 1:
        yield cuda.all_multiprocessors(device)
        return
    stream, n_multiprocessors = _partition(device, share)
    cuda.cupy().cuda.Device(device).synchronize()  # the stream does not wait for the default one
    with cuda.confined(stream, n_multiprocessors):
        yield n_multiprocessors
        cuda.synchronize()


@functools.cache
def _partition(device: int, share: float) -> tuple[Any, int]:
    """(stream, number of its multiprocessors); kept for the life of the process."""
    whole, group, rest = _Resource(), _Resource(), _Resource()
    _driver("cuDeviceGetDevResource", device, ctypes.byref(whole), RESOURCE_TYPE_SM)
    group_size = whole.group or 1
    wanted = max(whole.smallest, int(share * whole.n_multiprocessors) // group_size * group_size, 1)
    found = ctypes.c_uint(1)
    split = (ctypes.byref(group), ctypes.byref(found), ctypes.byref(whole), ctypes.byref(rest))
    _driver("cuDevSmResourceSplitByCount", *split, 0, wanted)
    description, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    _driver("cuDevResourceGenerateDesc", ctypes.byref(description), ctypes.byref(group), 1)
    created = (ctypes.byref(context), description, device, GREEN_CONTEXT_DEFAULT_STREAM)
    _driver("cuGreenCtxCreate", *created)
    _driver("cuGreenCtxStreamCreate", ctypes.byref(stream), context, STREAM_NON_BLOCKING, 0)
    external = cuda.cupy().cuda.ExternalStream(stream.value, device)
    return external, int(group.n_multiprocessors)


def _driver(name: str, *arguments: Any) -> None:
    function = getattr(_library(), name, None)
    if function is None:
        raise BackendUnavailableError(
            f"the driver has no {name}: to confine a stream to a part of the card it must be of "
            "CUDA 12.4 or newer"
        )
    if status := function(*arguments):
        raise BackendUnavailableError(f"{name} failed with CUDA status {status}")


@functools.cache
def _library() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendUnavailableError("there is no CUDA driver (libcuda.so.1)") from error
