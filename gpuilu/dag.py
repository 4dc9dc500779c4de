"""level[i] = 1 + max of level[j] over the rows j that row i depends on; rows without any are at 0.

The rows of one level do not depend on each other, and the number of levels is the length of the
longest chain of dependent rows: what limits every parallel triangular solve.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import by_device, cuda, namespace, on_gpu
from gpuilu.backend.cpu import njit
from gpuilu.triangle import Pattern

__all__ = [
    "Levels",
    "RowShapes",
    "argsorted",
    "in_degree",
    "is_regular",
    "level_sets",
    "levels",
    "once",
    "row_shapes",
]


@dataclass(frozen=True, eq=False)
class Levels:
    """The level sets of a triangle.

    Parameters
    ----------
    level : int32 ndarray, shape (n,)
    level_ptr : int32 ndarray, shape (n_levels + 1,)
        Level l holds `level_order[level_ptr[l]:level_ptr[l + 1]]`.
    level_order : int32 ndarray, shape (n,)
        The rows by level, and by index in each level.
    """

    level: np.ndarray
    level_ptr: np.ndarray
    level_order: np.ndarray

    @property
    def n_levels(self) -> int:
        return len(self.level_ptr) - 1


_remembered = threading.local()


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Inside, a pattern is analysed once: a choice and the plan that follows share the result."""
    outer = getattr(_remembered, "found", None)
    _remembered.found = {} if outer is None else outer
    try:
        yield
    finally:
        _remembered.found = outer


def once(analysis: Callable[..., Any], T: Pattern, *arguments: Any) -> Any:
    """analysis(T, ...), or what it gave for the same arrays inside the same `remembered()`."""
    known = getattr(_remembered, "found", None)
    if known is None:
        return analysis(T, *arguments)
    key = (analysis, arguments, T.lower, id(T.indptr), id(T.indices))
    if key not in known:
        known[key] = T, analysis(T, *arguments)  # T too: its arrays keep their identities
    return known[key][1]


def levels(T: Pattern) -> Levels:
    """Level sets of T: O(n + nnz), on a GPU in one launch and a sort."""
    return once(_levels, T)


def _levels(T: Pattern) -> Levels:
    if on_gpu(T.indptr):
        return _levels_cuda(T)
    return level_sets(_level_of_rows(T.lower, T.indptr, T.indices)[0])


def _levels_cuda(T: Pattern) -> Levels:
    depth, n_levels = _depths_cuda(T)
    level = namespace(depth).empty(T.n, np.int32)
    return Levels(level, *_order_by_depth(depth.view(np.int32), 1, n_levels, level))


def count_levels(T: Pattern) -> int:
    """The number of levels alone."""
    if on_gpu(T.indptr):
        return _depths_cuda(T)[1]
    return int(_level_of_rows(T.lower, T.indptr, T.indices)[1])


def in_degree(T: Pattern) -> Any:
    """How many rows each row depends on: int32, shape (n,)."""
    return T.indptr[1:] - T.indptr[:-1]


def _level_sets_cpu(level: np.ndarray) -> Levels:
    """The level sets when the level of every row is known."""
    return Levels(level, *_order_by_level(level, int(level.max(initial=-1)) + 1))


def _level_sets_cuda(level: Any) -> Levels:
    n_levels = int(level.max()) + 1 if len(level) else 0
    return Levels(level, *_order_by_depth(level, 0, n_levels, None))


def _order_by_depth(depth: Any, least: int, n_levels: int, level: Any) -> tuple[Any, Any]:
    """level_ptr and level_order where depth = level + least; fills `level` if there is one."""
    xp, n = namespace(depth), len(depth)
    if n == 0:
        return xp.zeros(1, np.int32), xp.empty(0, np.int32)
    level_order, level_ptr = xp.empty(n, np.int32), xp.empty(n_levels + 1, np.int32)
    by_depth = argsorted(depth, n_levels + least), depth, least
    cuda.for_each("order", "level_bounds", n, n, *by_depth, level, level_order, level_ptr)
    return level_ptr, level_order


def argsorted(keys: Any, count: int) -> Any:
    """A stable argsort of int32 from 0 to `count` - 1, by as few of their bytes as hold that."""
    low = np.min_scalar_type(max(count - 1, 0))  # the first bytes of each: little-endian
    narrow = keys.view(low)[:: keys.itemsize // low.itemsize]
    return namespace(keys).argsort(narrow, kind="stable")


level_sets = by_device(_level_sets_cpu, _level_sets_cuda)


THREADS = 128  # of a block in levels.cu, one row each at a time
BLOCKS = 8  # of them on a multiprocessor: wide grids need many rows in flight, but pollers cost
POLLS = 4, 16  # at once by a lane of levels.cu, by the mean length of a row
CHUNK = 1024  # threads of a block in chunk.cuh, one row each


def _depths_cuda(T: Pattern) -> tuple[Any, int]:
    """level + 1 of every row, and the largest of them, from a self-scheduled pass over the rows."""
    depth = namespace(T.indptr).zeros(T.n + 1, np.uint32)
    launcher = cuda.Launcher()
    control = cuda.marked(launcher.CONTROL_BYTES, np.uint8)
    lower = str(T.lower).lower()
    if is_regular(T):
        polls = POLLS[len(T.indices) > POLLS[0] * T.n]
        function, threads = cuda.kernel("levels", f"row_depths<{lower},{polls}>"), THREADS
        resident = cuda.resident_blocks(function, threads)
        most = cuda.full_grid(function, threads) // resident * min(resident, BLOCKS)
    else:
        function, threads = cuda.kernel("levels_chunk", f"row_depths_by_chunk<{lower}>"), CHUNK
        most = cuda.full_grid(function, threads)
    blocks = max(1, min(most, -(-T.n // threads)))
    arguments = (T.n, T.indptr, T.indices, depth, launcher.struct(control))
    cuda.launch(function, blocks, threads, *arguments)
    n_levels = int(cuda.to_host(depth[T.n :])[0])  # waits
    launcher.raise_if_stalled()
    return depth[: T.n], n_levels


def is_regular(T: Pattern) -> bool:
    """Whether most rows depend on the row before as theirs does, or on nothing near, as on a grid.

    On other patterns (meshes, graphs) levels.cu goes through a run row after row and is many times
    slower than the chunks: see docs/notes/strips.rst.
    """
    return len(T.indices) == 0 or 2 * row_shapes(T).alike >= T.n - 1


@dataclass(frozen=True)
class RowShapes:
    """What the lengths and columns of a triangle's rows look like.

    Parameters
    ----------
    longest : int
        Length of the longest row.
    alike : int
        Rows whose entry nearest to the diagonal is as far from it as that of the row before.
    runs : int
        Pairs of a row and a group of GROUP columns in which it has entries.
    """

    longest: int
    alike: int
    runs: int


GROUP = 32  # columns, counted from the last one for an upper triangle: RUN_COLUMNS in shape.cu
COUNTING = 1 << 17  # threads, at most: each warp adds to the counts of all, one after the other


def row_shapes(T: Pattern) -> RowShapes:
    """Three counts in one pass over T, and one transfer; once inside `remembered()`."""
    return once(_row_shapes, T)


def _row_shapes(T: Pattern) -> RowShapes:
    count = _row_shapes_cuda if on_gpu(T.indptr) else _row_shapes_cpu
    return RowShapes(*(int(k) for k in count(T.lower, T.indptr, T.indices)))


def _row_shapes_cuda(lower: bool, indptr: Any, indices: Any) -> Any:
    n, counts = len(indptr) - 1, namespace(indptr).zeros(3, np.uint32)
    kernel = f"row_shapes<{str(lower).lower()}>"
    cuda.for_each("shape", kernel, min(n, COUNTING), n, indptr, indices, counts)
    return cuda.to_host(counts)


@njit
def _row_shapes_cpu(lower, indptr, indices):
    n = len(indptr) - 1
    longest = alike = runs = distance_before = 0
    for i in range(n):
        begin, end = indptr[i], indptr[i + 1]
        longest = max(longest, end - begin)
        distance = 0
        if begin < end:
            distance = i - indices[end - 1] if lower else indices[begin] - i
        alike += i > 0 and distance == distance_before
        distance_before = distance
        before = -1
        for p in range(begin, end):
            group = (indices[p] if lower else n - 1 - indices[p]) // GROUP
            runs += group != before
            before = group
    return longest, alike, runs


@njit
def _level_of_rows(lower, indptr, indices):
    n = len(indptr) - 1
    level = np.zeros(n, np.int32)
    n_levels = 0
    first, stop, step = (0, n, 1) if lower else (n - 1, -1, -1)
    for i in range(first, stop, step):
        depth = 0
        for p in range(indptr[i], indptr[i + 1]):
            depth = max(depth, level[indices[p]] + 1)
        level[i] = depth
        n_levels = max(n_levels, depth + 1)
    return level, n_levels


@njit
def _order_by_level(level, n_levels):
    """Stable counting sort of the rows by level."""
    level_ptr = np.zeros(n_levels + 1, np.int32)
    for i in range(len(level)):
        level_ptr[level[i] + 1] += 1
    for k in range(n_levels):
        level_ptr[k + 1] += level_ptr[k]
    fill = level_ptr[:-1].copy()
    level_order = np.empty(len(level), np.int32)
    for i in range(len(level)):
        level_order[fill[level[i]]] = i
        fill[level[i]] += 1
    return level_ptr, level_order
