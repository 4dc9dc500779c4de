"""Arrays from one place to another, and what cupyx makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuilu.backend import is_cupy
from gpuilu.backend.devices import cupy, name_of, number_of, use

__all__ = [
    "as_cupyx_operator",
    "csr_matrix",
    "is_foreign",
    "krylov_solvers",
    "mover",
    "place_of",
    "placed",
    "to_host",
]


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
    return "cpu" if isinstance(array, np.ndarray) else name_of(array.data.device_id)


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
