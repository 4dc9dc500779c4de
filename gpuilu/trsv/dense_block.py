"""x_I = T_II^-1 (b_I - sum_{J < I} T_IJ x_J), 32 rows I at a time, tiles stored dense.

For triangles that are dense or banded. A thread block solves a panel of consecutive tile rows:
what other panels give is multiplied by all of its warps, and one warp substitutes through the panel
with its tiles in shared memory, so that values cross multiprocessors once a panel
(kernels/dense_block.cu).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.csr import row_of_entries
from gpuilu.dag import GROUP, row_shapes
from gpuilu.errors import UnsupportedAlgorithmError
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.waiting import WaitingPlan, columns_at_once

__all__ = ["DenseBlock", "most_tile_fill", "tile_fill"]

TILE = GROUP  # rows and columns
WARPS = 9  # of a block: eight for what is left of a panel, one for the panel
THREADS = WARPS * cuda.WARP
PANELS = (4, 2)  # tile rows of a panel: the most that shared memory holds
STATIC_BYTES = 1024  # of shared memory, no less than the kernel has beside a panel
SMALL = 16 << 20  # bytes up to which tiles may be as empty as they like
MOST = 2  # times the bytes of the triangle that they may take beyond


class DenseBlock(WaitingPlan):
    """Panels of dense 32x32 tiles.

    Memory: 1024 values for each tile with an entry (refused where that is more than twice the
    triangle, unless it is little), and a vector of scratch for each stream.
    """

    name = "dense_block"
    divides = False
    special = True
    source = "own: block substitution; Dufrechou and Ezzatti 2018 (the value as its own ready mark)"

    def __init__(self, T: Triangle) -> None:
        super().__init__(T)
        xp = namespace(T.indptr)
        self._tile_ptr, self._tile_column = lay_out(T)
        self._n_tile_rows = len(self._tile_ptr) - 1
        _refuse_waste(T, len(self._tile_column))
        self._tiles = xp.zeros(len(self._tile_column) * TILE**2, T.dtype)
        self._tiled = cuda.struct(
            *(T.n, self._tile_ptr, self._tile_column, self._tiles),
            *(int(T.lower), T.indptr, T.indices, T.data, T.diag),
        )
        self.refresh()

    def refresh(self) -> None:
        T, threads = self.T, cuda.WARP * self.T.n
        kernel = f"fill_dense_tiles<{cuda.value_type(T.dtype)}>"
        cuda.for_each("dense_block", kernel, threads, threads, self._tiled, self._tiles)

    def _nbytes(self, char: str, nrhs: int, in_place: bool) -> int:
        return self._n_tile_rows * TILE * nrhs * np.dtype(char).itemsize

    def _launch(
        self, scratch: Any, b: Any, x: Any, y: Any, launch: Any, char: str, nrhs: int
    ) -> Any:
        width, function, blocks, shared = self._configuration(char, nrhs)
        arguments = (self._tiled, b, x, y, width, launch)
        return scratch.prepare(function, blocks, THREADS, *arguments, shared=shared)

    def _configure(self, dtype: np.dtype, nrhs: int) -> tuple[Any, int, int]:
        """(kernel, blocks, bytes of shared memory)."""
        columns = columns_at_once(dtype.char, nrhs)
        room = cuda.shared_memory() - STATIC_BYTES
        rows = next(r for r in PANELS if shared_bytes(dtype, r, columns) <= room)
        shared = shared_bytes(dtype, rows, columns)
        factor, vector = cuda.value_type(self.T.dtype), cuda.value_type(dtype)
        function = cuda.kernel("dense_block", f"solve_panels<{factor},{vector},{rows},{columns}>")
        cuda.allow_shared_memory(function, shared)
        full = cuda.full_grid(function, THREADS, shared)
        return function, max(1, min(full, -(-self._n_tile_rows // rows))), shared


def shared_bytes(dtype: np.dtype, rows: int, columns: int) -> int:
    """sizeof(Panel) of the kernel."""
    tiles, parts = rows * (rows + 1) // 2 * TILE**2, columns * WARPS * cuda.WARP
    return (tiles + parts + rows * TILE) * dtype.itemsize


def lay_out(T: Pattern) -> tuple[Any, Any]:
    """(tile_ptr, tile_column): the tiles with an entry, by tile rows, columns ascending.

    Rows and columns count from the last one for an upper triangle.
    """
    xp, n_tile_rows = namespace(T.indptr), -(-T.n // TILE)
    key = xp.unique(_runs(T))
    row = xp.arange(n_tile_rows + 1, dtype=np.int64)
    tile_ptr = xp.searchsorted(key, row * max(n_tile_rows, 1)).astype(np.int32)
    return tile_ptr, (key % max(n_tile_rows, 1)).astype(np.int32)


def tile_fill(T: Pattern) -> float:
    """The share of the places of T's tiles that hold an entry; sorts one number for each run.

    A run is what a row has in one tile.
    """
    xp = namespace(T.indptr)
    return len(T.indices) / max(len(xp.unique(_runs(T))) * TILE**2, 1)


def most_tile_fill(T: Pattern) -> float:
    """No less than `tile_fill`, in one pass: a tile has at most 32 runs."""
    return len(T.indices) / max(row_shapes(T).runs * TILE, 1)


def _runs(T: Pattern) -> Any:
    """For each run the number of its tile, tile row by tile row."""
    xp = namespace(T.indptr)
    row = row_of_entries(T.indptr, len(T.indices))
    last = np.int32(T.n - 1)
    column = (T.indices if T.lower else last - T.indices) // np.int32(TILE)
    begins = xp.ones(len(row), bool)
    begins[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    row, column = row[begins], column[begins]
    tile_row = (row if T.lower else np.int32(T.n - 1) - row) // np.int32(TILE)
    n_tile_rows = -(-T.n // TILE)
    return tile_row.astype(np.int64) * n_tile_rows + column


def _refuse_waste(T: Triangle, n_tiles: int) -> None:
    """Raise where the tiles are so empty that they would take far more memory than T."""
    needed = n_tiles * TILE**2 * T.dtype.itemsize
    held = T.nnz * (T.dtype.itemsize + 4) + 4 * (T.n + 1)
    if needed > max(SMALL, MOST * held):
        raise UnsupportedAlgorithmError(
            f"algorithm 'dense_block' needs {needed} bytes for {n_tiles} tiles of 32x32 places, of "
            f"which {100 * len(T.indices) / (n_tiles * TILE**2):.1f} % hold an entry, and the "
            f"triangle has {held}; it is for dense and banded triangles: use algorithm='auto'"
        )
