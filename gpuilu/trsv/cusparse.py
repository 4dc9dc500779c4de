"""T x = b by the vendor: cuSPARSE SpSV for a vector, SpSM for a block, with their analysis kept.

The reference to beat. CuPy binds only parts of the generic API, so it is called through ctypes on
the library that CuPy has loaded.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.errors import BackendUnavailableError
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import Plan

__all__ = ["Cusparse"]

# Values of enumerations in cusparse.h and library_types.h.
CUDA_TYPES = {"f": 0, "d": 1, "F": 4, "D": 5}
INDEX_32, BASE_ZERO, OP_N, ALG_DEFAULT = 2, 0, 0, 0
FILL_MODE, DIAG_TYPE = 0, 1
LOWER, UPPER, NON_UNIT, UNIT = 0, 1, 0, 1
ROW_ORDER = 2
SPSV_UPDATE_GENERAL = 0


class Cusparse(Plan):
    """Analysis at the first solve of each width and dtype; one solve at a time."""

    name = "cusparse"
    device = "cuda"
    vendor = True
    source = "cuSPARSE SpSV and SpSM"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        self._enqueueing = threading.Lock()
        self._order = cuda.StreamOrder()
        self._solvers: dict[Any, _Solver] = {}
        self._matrix = _csr_arrays(T)

    def refresh(self) -> None:
        # The analysis is numeric: new values need a new one.
        self._matrix = _csr_arrays(self.T)
        self._solvers.clear()

    def solve(self, x: Any, b: Any = None) -> None:
        if x.size == 0:
            return
        with self._enqueueing, self._order.update():
            key = (x.dtype, x.shape[1:])
            if key not in self._solvers:
                self._solvers[key] = _Solver(self.T, self._matrix, x)
            self._solvers[key].solve(x, x if b is None else b)


class _Solver:
    """Descriptors, buffers and analysis for one dtype and number of right-hand sides."""

    def __init__(self, T: Triangle, matrix: tuple[Any, Any, Any], x: Any) -> None:
        lib, xp = _library(), namespace(x)
        self._type, self._is_block = CUDA_TYPES[x.dtype.char], x.ndim == 2
        indptr, indices, data = matrix
        self._keep = (indptr, indices, data.astype(x.dtype, copy=False))
        self._b, self._x = xp.zeros_like(x), xp.zeros_like(x)
        self._one = np.ones(1, x.dtype)
        self._matrix = _sparse(lib, T, *self._keep, self._type)
        self._operands = [_dense(lib, a, self._type) for a in (self._b, self._x)]
        self._plan = ctypes.c_void_p()
        prefix = "cusparseSpSM" if self._is_block else "cusparseSpSV"
        self._call = functools.partial(_call, lib, prefix)
        self._call("_createDescr", ctypes.byref(self._plan))
        size = ctypes.c_size_t()
        self._run("_bufferSize", ctypes.byref(size))
        self._buffer = xp.empty(max(size.value, 1), np.uint8)
        self._run("_analysis", ctypes.c_void_p(self._buffer.data.ptr))

    def solve(self, x: Any, b: Any) -> None:
        self._b[...] = b
        self._run("_solve")
        x[...] = self._x

    def _run(self, step: str, *last: Any) -> None:
        """One of bufferSize, analysis and solve, which share their arguments."""
        operation = (OP_N, OP_N) if self._is_block else (OP_N,)
        self._call(
            step,
            _handle(),
            *operation,
            ctypes.c_void_p(self._one.ctypes.data),
            self._matrix,
            *self._operands,
            self._type,
            ALG_DEFAULT,
            self._plan,
            *last,
        )

    def __del__(self) -> None:
        if not hasattr(self, "_call") or not self._plan:
            return
        lib = _library()
        self._call("_destroyDescr", self._plan)
        lib.cusparseDestroySpMat(self._matrix)
        destroy = lib.cusparseDestroyDnMat if self._is_block else lib.cusparseDestroyDnVec
        for operand in self._operands:
            destroy(operand)


def _csr_arrays(T: Triangle) -> tuple[Any, Any, Any]:
    if T.unit_diagonal:
        return T.indptr, T.indices, T.data
    full = T.to_csr()
    return full.indptr, full.indices, full.data


def _sparse(lib: Any, T: Triangle, indptr: Any, indices: Any, data: Any, kind: int) -> Any:
    matrix = ctypes.c_void_p()
    pointers = (ctypes.c_void_p(a.data.ptr) for a in (indptr, indices, data))
    sizes = (ctypes.c_int64(T.n), ctypes.c_int64(T.n), ctypes.c_int64(len(indices)))
    types = (INDEX_32, INDEX_32, BASE_ZERO, kind)
    _call(lib, "cusparseCreateCsr", "", ctypes.byref(matrix), *sizes, *pointers, *types)
    attributes = (
        (FILL_MODE, LOWER if T.lower else UPPER),
        (DIAG_TYPE, UNIT if T.unit_diagonal else NON_UNIT),
    )
    for attribute, value in attributes:
        word = ctypes.c_int(value)
        arguments = (matrix, attribute, ctypes.byref(word), ctypes.c_size_t(4))
        _call(lib, "cusparseSpMatSetAttribute", "", *arguments)
    return matrix


def _dense(lib: Any, a: Any, kind: int) -> Any:
    operand, pointer = ctypes.c_void_p(), ctypes.c_void_p(a.data.ptr)
    n = ctypes.c_int64(len(a))
    if a.ndim == 1:
        _call(lib, "cusparseCreateDnVec", "", ctypes.byref(operand), n, pointer, kind)
    else:
        k = ctypes.c_int64(a.shape[1])
        shape = (n, k, k)
        arguments = (ctypes.byref(operand), *shape, pointer, kind, ROW_ORDER)
        _call(lib, "cusparseCreateDnMat", "", *arguments)
    return operand


def _call(lib: Any, prefix: str, name: str, *arguments: Any) -> None:
    status = getattr(lib, prefix + name)(*arguments)
    if status:
        raise RuntimeError(f"{prefix}{name} failed with cuSPARSE status {status}")


def _handle() -> Any:
    """CuPy's handle of the current device, on the current stream."""
    cp = cuda.cupy()
    handle = ctypes.c_void_p(cp.cuda.device.get_cusparse_handle())
    stream = ctypes.c_void_p(cp.cuda.get_current_stream().ptr)
    _call(_library(), "cusparseSetStream", "", handle, stream)
    return handle


@functools.cache
def _library() -> Any:
    """The cuSPARSE that CuPy has loaded into this process."""
    cuda.cupy().cuda.device.get_cusparse_handle()
    path = _loaded_path()
    if path is None:
        raise BackendUnavailableError("cuSPARSE was not found among the loaded libraries")
    return ctypes.CDLL(path)


def _loaded_path() -> str | None:
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "libcusparse.so" in line}
    except OSError:
        return None
    return min(paths, default=None)
