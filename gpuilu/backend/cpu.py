"""Compiled loops on the CPU: numba with IEEE arithmetic, and the rules for using its threads."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np
from numba import prange, types
from numba.extending import overload

__all__ = [
    "divide",
    "inlined",
    "is_forked",
    "n_threads",
    "njit",
    "parallel_region",
    "pjit",
    "prange",
]

F = TypeVar("F", bound=Callable[..., Any])

# numba's threads do not survive a fork, and with the OpenMP layer a parallel loop in the child ends
# the process; workers started by fork therefore stay serial.
_forked = False


def _mark_forked() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)

# The workqueue layer aborts the process when two Python threads enter parallel code at once.
_parallel_region = threading.Lock()


def njit(function: F) -> F:
    """Compile a loop for one thread: cached, without the GIL, IEEE division and no contraction."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: F) -> F:
    """A helper of loops, inlined by numba: LLVM alone leaves the call, at three times the cost."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)


def pjit(function: F) -> F:
    """Compile a loop with `prange` for all threads; call it inside `parallel_region()`."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)(function)


def divide(a, b):
    """a / b in compiled loops, with Inf and NaN for b = 0.

    numba's own complex division raises there, and its np.divide overflows for subnormal b.
    """
    raise NotImplementedError("for compiled loops only")


@overload(divide, inline="always")
def _divide(a, b):
    if not (isinstance(a, types.Complex) or isinstance(b, types.Complex)):
        return lambda a, b: np.divide(a, b)

    def smith(a, b):
        if abs(b.real) >= abs(b.imag):
            ratio = np.divide(b.imag, b.real)
            scale = b.real + b.imag * ratio
            return complex(
                np.divide(a.real + a.imag * ratio, scale), np.divide(a.imag - a.real * ratio, scale)
            )
        ratio = np.divide(b.real, b.imag)
        scale = b.real * ratio + b.imag
        return complex(
            np.divide(a.real * ratio + a.imag, scale), np.divide(a.imag * ratio - a.real, scale)
        )

    return smith


def is_forked() -> bool:
    """Whether this process was forked from one that had imported gpuilu."""
    return _forked


def n_threads() -> int:
    """Threads a parallel loop may use now; 1 in a forked worker."""
    return 1 if _forked else int(numba.get_num_threads())


@contextlib.contextmanager
def parallel_region() -> Iterator[None]:
    """Let one Python thread at a time into parallel numba code."""
    with _parallel_region:
        yield
