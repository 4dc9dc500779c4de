"""What algorithms stand on: compiling, launching and threads, one module per kind of device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gpuilu.backend.devices import cupy

__all__ = ["by_device", "held_bytes", "is_array", "is_cupy", "map_arrays", "namespace", "on_gpu"]


def is_cupy(a: Any) -> bool:
    """Whether `a` is a CuPy array or a cupyx sparse matrix or operator; does not import CuPy."""
    kind: Any = type(a)
    return _is_of_cupy(kind)


@cache
def _is_of_cupy(kind: Any) -> bool:
    return kind.__module__.partition(".")[0] in ("cupy", "cupyx")


def is_array(a: Any) -> bool:
    """Whether `a` is a NumPy or a CuPy array; does not import CuPy."""
    return isinstance(a, np.ndarray) or (is_cupy(a) and type(a).__name__ == "ndarray")


def on_gpu(a: Any) -> bool:
    """Whether an array is a CuPy array."""
    return not isinstance(a, np.ndarray)


def namespace(a: Any) -> Any:
    """The module, numpy or cupy, whose functions make arrays where `a` lives."""
    return cupy() if on_gpu(a) else np


def by_device(cpu: Callable[..., Any], cuda: Callable[..., Any]) -> Callable[..., Any]:
    """One function with two implementations: its first argument, an array, says which one runs."""

    def call(first: Any, *rest: Any) -> Any:
        return (cuda if on_gpu(first) else cpu)(first, *rest)

    call.__doc__ = cpu.__doc__
    return call


def map_arrays(thing: Any, function: Callable[[Any], Any]) -> Any:
    """A twin of an object of this package with `function` applied to every array in it."""
    if isinstance(thing, np.ndarray) or is_cupy(thing):
        return function(thing)
    if isinstance(thing, tuple):
        return tuple(map_arrays(part, function) for part in thing)
    if isinstance(thing, dict):
        return {key: map_arrays(part, function) for key, part in thing.items()}
    if not type(thing).__module__.startswith("gpuilu."):
        return thing
    twin = object.__new__(type(thing))
    for name, part in vars(thing).items():
        object.__setattr__(twin, name, map_arrays(part, function))
    return twin


def held_bytes(*things: Any) -> int:
    """Bytes of all arrays in objects of this package, each array once."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    waiting = list(things)
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, np.ndarray) or (is_cupy(thing) and hasattr(thing, "nbytes")):
            found[id(thing)] = thing.nbytes
        elif isinstance(thing, tuple | list):
            waiting.extend(thing)
        elif isinstance(thing, dict):
            waiting.extend(thing.values())
        elif hasattr(thing, "indptr") and hasattr(thing, "format"):
            waiting.extend((thing.indptr, thing.indices, thing.data))
        elif type(thing).__module__.startswith("gpuilu.") and id(thing) not in seen:
            seen.add(id(thing))
            waiting.extend(getattr(thing, "__dict__", {}).values())
    return sum(found.values())
