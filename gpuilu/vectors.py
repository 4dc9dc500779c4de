"""Right-hand sides and results: what is accepted, in which dtype, and where the result goes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuilu.backend import cuda, is_cupy, namespace
from gpuilu.csr import VALUE_DTYPES
from gpuilu.errors import DeviceMismatchError, ShapeMismatchError, UnsupportedDtypeError

__all__ = ["as_array", "check_out", "moved", "operands", "result_dtype"]


def as_array(x: Any) -> Any:
    """A NumPy or CuPy array; other libraries' GPU arrays are taken over without a copy."""
    if is_cupy(x):
        return x
    return cuda.cupy().asarray(x) if cuda.is_foreign(x) else np.asarray(x)


@functools.cache
def result_dtype(b: np.dtype, factor: np.dtype) -> np.dtype:
    """result_type(b, factor), if that is a dtype to solve in."""
    if b.kind in "biufc":
        dtype = np.result_type(b, factor)
        if dtype in VALUE_DTYPES:
            return dtype
    raise UnsupportedDtypeError(
        f"a right-hand side of dtype {b} is not supported; convert it to float32, float64, "
        "complex64 or complex128"
    )


def check_out(out: Any, b: Any, dtype: np.dtype, place: str) -> None:
    """Raise unless `out` can take the result for b, which is at that place."""
    if not isinstance(out, type(b)) or out.shape != b.shape:
        found = getattr(out, "shape", None)
        raise ShapeMismatchError(
            f"out must be a {type(b).__module__} array of shape {b.shape}, "
            f"found {type(out).__module__}.{type(out).__name__} of shape {found}"
        )
    if out is not b and cuda.place_of(out) != place:
        raise DeviceMismatchError("out and the right-hand side are on different devices")
    if out.dtype != dtype:
        raise UnsupportedDtypeError(f"out must have the result's dtype {dtype}, found {out.dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ShapeMismatchError("out is read-only")


def operands(b: Any, dtype: np.dtype, out: Any) -> tuple[Any, Any]:
    """(x, b) to solve with: C-contiguous, of that dtype; b is None where x already holds it.

    x is `out` itself where its layout allows, else a new array.
    """
    is_contiguous = b.flags.c_contiguous
    if out is b and is_contiguous:
        return out, None
    xp = namespace(b)
    if out is not None and not out.flags.c_contiguous:
        out = None
    if out is not None and xp is np:
        out = np.asarray(out)  # a matrix would stay two-dimensional
    if b.dtype != dtype or not is_contiguous or (out is not None and xp.may_share_memory(b, out)):
        b = xp.array(b, dtype=dtype, order="C")
        return (b, None) if out is None else (out, b)
    return (xp.empty(b.shape, dtype) if out is None else out), b


def moved(x: Any, dtype: np.dtype, device: str) -> Any:
    """A C-contiguous copy of x on another device, through pinned memory.

    Between two GPUs the caller has to say where the work is to be done.
    """
    here = cuda.place_of(x)
    if "cpu" not in (here, device):
        raise DeviceMismatchError(
            f"the array is on {here} and the factors are on {device}; "
            "move one of them, for instance with M.to(...)"
        )
    cuda.refuse_capture("a copy between host and device")
    return cuda.placed(namespace(x).ascontiguousarray(x, dtype=dtype), device)
