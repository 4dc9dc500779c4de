"""Patterns of strictly lower triangles: grids, meshes, graphs, bands, blocks; and values for them.

A pattern is a pair (indptr, indices) with ascending columns. Everything is made by array operations
from fixed seeds, so that a name, a size and a seed are the same matrix everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = [
    "TRIANGULATED",
    "arrow",
    "band",
    "block_diagonal",
    "circuit",
    "dense",
    "dominant",
    "dominant_square",
    "grid",
    "kkt",
    "mesh",
    "power_law",
    "road",
    "star",
    "with_diagonal",
]

Pattern = tuple[Any, Any]
Offsets = Sequence[tuple[int, ...]]

# A quadrilateral grid with one diagonal in each cell: seven points.
TRIANGULATED: Offsets = [(0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1)]


# ---- values -------------------------------------------------------------------------------------


def dominant(pattern: Pattern, seed: int) -> sp.csr_array:
    """Lower triangle, t_ij in [-1.1, -0.1] and t_ii = 1 + 1.25 sum |t_ij|: solves are tame."""
    indptr, indices = pattern
    data = np.random.default_rng(seed).random(len(indices))
    data += 0.1
    data *= -1.0
    return with_diagonal(pattern, data, 1.25 * _row_sums(indptr, -data) + 1.0)


def with_diagonal(pattern: Pattern, data: Any, diag: Any) -> sp.csr_array:
    """The lower triangle of a strict pattern, its values and its diagonal: last in each row."""
    indptr, indices = pattern
    n = len(indptr) - 1
    whole = indptr + np.arange(n + 1)
    at = whole[1:] - 1
    strict = np.ones(len(indices) + n, bool)
    strict[at] = False
    all_indices, all_data = np.empty(len(strict), np.int32), np.empty(len(strict))
    all_indices[strict], all_indices[at] = indices, np.arange(n, dtype=np.int32)
    all_data[strict], all_data[at] = data, diag
    return sp.csr_array((all_data, all_indices, whole.astype(np.int32)), shape=(n, n))


def dominant_square(A: sp.csr_array, seed: int) -> sp.csr_array:
    """A's pattern off the diagonal, with values and a diagonal by the law of `dominant`."""
    A = sp.coo_array(A)
    off = A.row != A.col
    row, col, n = A.row[off], A.col[off], A.shape[0]
    data = -0.1 - np.random.default_rng(seed).random(len(row))
    diag = 1.25 * np.bincount(row, -data, minlength=n) + 1.0
    every = np.arange(n)
    entries = (np.append(row, every), np.append(col, every))
    return sp.csr_array((np.append(data, diag), entries), shape=(n, n))


def _row_sums(indptr: Any, data: Any) -> Any:
    sums = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if len(data):
        sums[filled] = np.add.reduceat(data, indptr[:-1][filled])
    return sums


# ---- grids --------------------------------------------------------------------------------------


def star(dimensions: int, full: bool) -> Offsets:
    """Neighbours of a grid point: along the axes (5, 7 points), or all around (9, 27)."""
    steps = itertools.product((-1, 0, 1), repeat=dimensions)
    return [o for o in steps if any(o) and (full or sum(map(abs, o)) == 1)]


def grid(shape: Sequence[int], offsets: Offsets, dof: int = 1) -> Pattern:
    """Grid points, the last axis fastest, with `dof` unknowns each: dense dof x dof blocks."""
    lower = [o for o in offsets if _distance(o, shape) < 0]
    count, columns = _neighbours(shape, lower)
    pattern = _pointers(count), columns
    return pattern if dof == 1 else _blocked(pattern, dof)


def kkt(shape: Sequence[int]) -> Pattern:
    """[[D, 0], [A, D]] with A the 27-point pattern on a grid: two levels, as in nlpkkt."""
    count, columns = _neighbours(shape, [*star(len(shape), True), (0,) * len(shape)])
    return _pointers(np.append(np.zeros_like(count), count)), columns


def _distance(offset: tuple[int, ...], shape: Sequence[int]) -> int:
    """How far apart in the numbering a point and its neighbour are."""
    distance = 0
    for step, m in zip(offset, shape, strict=True):
        distance = distance * m + step
    return distance


def _neighbours(shape: Sequence[int], offsets: Offsets) -> tuple[Any, Any]:
    """Neighbours of each point in each row: their number, and them, ascending."""
    n = int(np.prod(shape))
    offsets = sorted(offsets, key=lambda o: _distance(o, shape))
    inside = np.ones((n, len(offsets)), bool)
    for k, offset in enumerate(offsets):
        mask = inside[:, k].reshape(shape)  # a view
        for axis, step in enumerate(offset):
            if step:
                edge: list[Any] = [slice(None)] * len(shape)
                edge[axis] = slice(0, -step) if step < 0 else slice(shape[axis] - step, None)
                mask[tuple(edge)] = False
    distance = np.array([_distance(o, shape) for o in offsets], np.int32)
    columns = (np.arange(n, dtype=np.int32)[:, None] + distance)[inside]
    return inside.sum(axis=1), columns


def _blocked(pattern: Pattern, dof: int) -> Pattern:
    """Each point becomes dof unknowns, coupled to all of its neighbours' and to its own before."""
    indptr, columns = pattern
    points = np.arange(len(indptr) - 1)
    count = np.diff(indptr)
    own = np.arange(dof)
    wide = _pointers((count[:, None] * dof + own).ravel())
    indices = np.empty(int(wide[-1]), np.int32)
    within = np.arange(len(columns)) - np.repeat(indptr[:-1], count)
    for r in range(dof):
        first = wide[points * dof + r]
        start = np.repeat(first, count) + within * dof
        for c in range(dof):
            indices[start + c] = columns * dof + c
        for c in range(r):
            indices[first + count * dof + c] = points * dof + c
    return wide, indices


# ---- meshes and graphs --------------------------------------------------------------------------


def mesh(n: int, reordered: bool) -> Pattern:
    """Delaunay triangulation of n random points, in random order or reverse Cuthill-McKee."""
    from scipy.spatial import Delaunay

    corners = Delaunay(np.random.default_rng(3).random((n, 2))).simplices.astype(np.int64)
    i, j = corners[:, [0, 1, 2]].T.ravel(), corners[:, [1, 2, 0]].T.ravel()
    indptr, indices = _from_edges(i, j, n)
    if not reordered:
        return indptr, indices
    ones = np.ones(len(indices), np.int8)
    L = sp.csr_matrix((ones, indices, indptr.astype(np.int32)), shape=(n, n))
    order = _reverse_cuthill_mckee((L + L.T).tocsr())
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    return _from_edges(place[i], place[j], n)


# Of the rows of lowest degree the one to begin with: so the mesh of a million points has the 1612
# levels of the design's table.
START = 45


def _reverse_cuthill_mckee(A: Any) -> Any:
    """Rows of a connected pattern breadth first, neighbours by degree, from last to first.

    Not SciPy's, which begins with the first row in an order by degree that is not stable, and so
    with another one on another processor.
    """
    from scipy.sparse.csgraph import breadth_first_order

    degree = np.diff(A.indptr)
    order = np.argsort(degree, kind="stable")
    by_degree = A[order][:, order].tocsr()
    by_degree.sort_indices()
    first = START % np.count_nonzero(degree == degree.min())
    found = breadth_first_order(by_degree, first, directed=False, return_predecessors=False)
    return order[found[::-1]]


def power_law(n: int, longest: int = 4700) -> Pattern:
    """Links to hubs and to near pages in equal parts, and 60 very long rows, as in webbase."""
    rng = np.random.default_rng(5)
    m = int(n * 2.2)
    i = rng.integers(0, n, m)
    hub = (n * rng.random(m) ** 6).astype(np.int64)
    near = np.clip(i - rng.geometric(0.02, m), 0, n - 1)
    j = np.where(rng.random(m) < 0.5, hub, near)
    long_rows = rng.integers(n // 2, n, 60)
    length = (longest / np.arange(1, 61) ** 0.8).astype(int) + 50
    row = np.repeat(long_rows, length)
    col = (rng.random(len(row)) * row).astype(np.int64)
    return _from_edges(np.concatenate([i, row]), np.concatenate([j, col]), n)


def road(n: int) -> Pattern:
    """Random points in the plane joined to their two nearest, numbered by cells of about 64."""
    from scipy.spatial import cKDTree

    points = np.random.default_rng(9).random((n, 2))
    cells = int(np.sqrt(n / 64))
    cell = (points * cells).astype(int)
    points = points[np.lexsort((points[:, 0], cell[:, 0], cell[:, 1]))]
    _, nearest = cKDTree(points).query(points, k=3, workers=-1)
    return _from_edges(np.repeat(np.arange(n), 2), nearest[:, 1:].ravel(), n)


def circuit(n: int) -> Pattern:
    """Near connections, and a few rails that join a large part of all nodes, as in ASIC_680k."""
    rng = np.random.default_rng(7)
    i = np.arange(1, n)
    j = np.maximum(i - rng.geometric(0.01, n - 1), 0)
    rails = [(0, 0.25), (1, 0.1), (n - 2, 0.1), (n - 1, 0.57)]
    ends = [rng.choice(n, int(part * n), replace=False) for _, part in rails]
    at = np.repeat([node for node, _ in rails], [len(e) for e in ends])
    return _from_edges(np.append(i, at), np.append(j, np.concatenate(ends)), n)


def _from_edges(i: Any, j: Any, n: int) -> Pattern:
    """Undirected edges; loops and repetitions are dropped."""
    high, low = np.maximum(i, j).astype(np.int64), np.minimum(i, j).astype(np.int64)
    keys = np.unique((high * n + low)[high != low])
    row = keys // n
    return _pointers(np.bincount(row, minlength=n)), (keys - row * n).astype(np.int32)


# ---- bands and blocks ---------------------------------------------------------------------------


def band(n: int, width: int) -> Pattern:
    """Every row depends on the `width` rows before it."""
    return _runs(np.maximum(np.arange(n) - width, 0))


def dense(n: int) -> Pattern:
    """Every row depends on all rows before it."""
    return band(n, n)


def block_diagonal(n: int, size: int) -> Pattern:
    """Dense triangles of `size` rows on the diagonal, as in blockqp1."""
    row = np.arange(n)
    return _runs(row - row % size)


def arrow(n: int, rows: int = 4, stride: int = 5) -> Pattern:
    """A dense first column, and dense last rows that hold every fifth column, as in boyd2."""
    long = np.arange(0, n - rows, stride, dtype=np.int32)
    count = np.ones(n, np.int64)
    count[0], count[n - rows :] = 0, len(long)
    return _pointers(count), np.concatenate([np.zeros(n - rows - 1, np.int32), *[long] * rows])


def _runs(first: Any) -> Pattern:
    """Row i holds the columns from first[i] to i - 1."""
    count = np.arange(len(first)) - first
    indptr = _pointers(count)
    shift = np.repeat(first - indptr[:-1], count)
    return indptr, (np.arange(int(indptr[-1])) + shift).astype(np.int32)


def _pointers(count: Any) -> Any:
    indptr = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=indptr[1:])
    return indptr
