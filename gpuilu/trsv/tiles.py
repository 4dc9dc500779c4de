"""T = sum of 16x16 tiles, rows and columns in level order: the storage of the tiled solves.

In level order T is lower triangular, and the rows of a level share few tile rows. Where padding
costs little, every level begins a tile row of its own: then no two rows of a tile row depend on
each other. The formats of the tiles: tile_formats.py. Long rows are cut into segments
(long_rows.py).
Memory: for each tile 4 bytes (5 beyond 33 million rows), for each place a value and a byte, for
each row its number and the reciprocal of its diagonal. Set-up: levels, one sort of the entries.
Source: Lu and Liu, TileSpTRSV, 2023, sections 3.2 and 3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace
from gpuilu.csr import row_of_entries
from gpuilu.dag import Levels, levels
from gpuilu.triangle import Pattern, Triangle
from gpuilu.trsv.long_rows import cut_long_rows, numbered
from gpuilu.trsv.tile_formats import TILE, Entries, index_bytes, places, sizes, starts

__all__ = ["Tiles", "ValuedTiles", "lay_out"]

FORMAT_SHIFT, EXTENT_SHIFT = 29, 21  # of a tile's word; its column stands below
PACKED = 1 << EXTENT_SHIFT  # tile rows up to which a tile's extent fits into its word
CHEAP = 4  # every level begins a tile row if that adds at most 1 / CHEAP of the rows
SEGMENT, LONG = 256, 16  # rows beyond SEGMENT entries and LONG times the mean are cut


@dataclass(frozen=True, eq=False)
class Tiles:
    """The pattern of a strict triangle in tiles, by position in level order.

    Parameters
    ----------
    row : int32 array, shape (16 n_tile_rows,)
        The row of the triangle at each position, -1 for padding and for segments of long rows.
    owner : int32 array, shape (16 n_tile_rows,)
        The row whose entries stand at a position, -1 for none; `row` itself if no row is cut.
    tile_ptr, first_value, first_byte : int32 arrays, shape (n_tile_rows + 1,)
        Of each tile row: its tiles, and where their values and index bytes begin.
    tile : uint32 array, shape (n_tiles,)
        format << 29 | extent << 21 | tile column; the diagonal tile of a row first.
    extent : uint8 array, shape (n_tiles,), or None
        The size (tiles.cuh), if a tile's word has no room for it.
    index : uint8 array
        The index bytes, tile after tile.
    n_values : int
        Places for values.
    """

    row: Any
    owner: Any
    tile_ptr: Any
    first_value: Any
    first_byte: Any
    tile: Any
    extent: Any
    index: Any
    n_values: int

    @property
    def n_tile_rows(self) -> int:
        return len(self.row) // TILE

    def dependencies(self) -> Pattern:
        """The off-diagonal tiles as a strict lower triangle of tile rows."""
        xp = namespace(self.tile)
        bits = EXTENT_SHIFT if self.extent is None else FORMAT_SHIFT
        column = (self.tile & np.uint32((1 << bits) - 1)).astype(np.int32)
        off = column != row_of_entries(self.tile_ptr, len(column))
        before = xp.zeros(len(column) + 1, np.int32)
        before[1:] = xp.cumsum(off)
        return Pattern(True, before[self.tile_ptr], column[off])


class ValuedTiles:
    """The tiles of a triangle with its values; `argument` is both as a kernel takes them."""

    def __init__(self, T: Triangle) -> None:
        self._T = T
        self.tiles, _ = lay_out(T)
        xp, tiles = namespace(T.data), self.tiles
        self._data = xp.zeros(tiles.n_values, T.dtype)
        self._scale: Any = None if T.diag is None else xp.empty(len(tiles.row), T.dtype)
        self.argument = cuda.struct(
            *(tiles.n_tile_rows, tiles.tile_ptr, tiles.first_value, tiles.first_byte),
            *(tiles.tile, tiles.extent, tiles.index, tiles.row),
            *(self._data, self._scale, T.diag),
        )
        self.refresh()

    def refresh(self) -> None:
        """Take up the triangle's present values."""
        T, tiles, value = self._T, self.tiles, cuda.value_type(self._T.dtype)
        threads, n = cuda.WARP * tiles.n_tile_rows, len(tiles.row)
        arguments = (self.argument, tiles.owner, T.indptr, T.indices, T.data, self._data)
        cuda.for_each("tile_level", f"fill_tiles<{value}>", threads, threads, *arguments)
        if T.diag is not None:
            cuda.for_each("row", f"reciprocals<{value}>", n, n, tiles.row, T.diag, self._scale)


def lay_out(T: Pattern) -> tuple[Tiles, Any]:
    """The tiles of T, and the place of each of T's entries among the values."""
    xp = namespace(T.indptr)
    cut = numbered(cut_long_rows(T, SEGMENT, LONG))
    P, given = cut.pattern, cut.source >= 0
    place, n = _positions(levels(P))
    row = xp.full(n, -1, np.int32)
    row[place] = cut.row
    entry_row = place[row_of_entries(P.indptr, len(P.indices))]
    owner = row
    if P.n != T.n:
        owner = row.copy()
        owner[entry_row[given]] = row_of_entries(T.indptr, len(T.indices))[cut.source[given]]
    tiles, at = _tiles(entry_row, place[P.indices], row, owner)
    value = xp.empty(len(T.indices), np.int32)
    value[cut.source[given]] = at[given]
    return tiles, value


def _positions(found: Levels) -> tuple[Any, int]:
    """Where each row stands in level order, and the number of positions, a multiple of 16."""
    xp, n = namespace(found.level), len(found.level)
    at = xp.arange(n, dtype=np.int32)
    padding = -(found.level_ptr[1:] - found.level_ptr[:-1]) % TILE
    if n and CHEAP * int(padding.sum()) <= n:
        before = (xp.cumsum(padding) - padding).astype(np.int32)
        at += before[found.level[found.level_order]]
    place = xp.empty(n, np.int32)
    place[found.level_order] = at
    last = int(at[-1]) + 1 if n else 0
    return place, -(-last // TILE) * TILE


def _tiles(row: Any, column: Any, row_of: Any, owner: Any) -> tuple[Tiles, Any]:
    """Tiles of the entries at the positions (row, column), and the place of each value."""
    xp, n_tile_rows = namespace(row), len(row_of) // TILE
    if len(row) == 0:
        return _no_tiles(row_of), xp.empty(0, np.int32)
    order, E, tile_row, tile_column = _sorted(row, column)
    S = sizes(E, tile_row == tile_column)
    first_value, first_byte, place = starts(S.values), starts(S.bytes), places(E, S)
    at = xp.empty(len(row), np.int32)
    at[order] = first_value[E.tile] + place
    tile_ptr = xp.searchsorted(tile_row, xp.arange(n_tile_rows + 1, dtype=np.int32))
    word = S.format.astype(np.int64) << FORMAT_SHIFT | tile_column
    packed = n_tile_rows <= PACKED
    if packed:
        word |= S.extent.astype(np.int64) << EXTENT_SHIFT
    tiles = Tiles(
        *(row_of, owner, tile_ptr.astype(np.int32), first_value[tile_ptr], first_byte[tile_ptr]),
        *(word.astype(np.uint32), None if packed else S.extent.astype(np.uint8)),
        *(index_bytes(E, S, first_byte, place), int(first_value[-1])),
    )
    return tiles, at


def _no_tiles(row_of: Any) -> Tiles:
    """Tile rows without an entry beside the diagonal."""
    xp = namespace(row_of)
    none = xp.zeros(len(row_of) // TILE + 1, np.int32)
    word, index = xp.empty(0, np.uint32), xp.empty(0, np.uint8)
    return Tiles(row_of, row_of, none, none, none, word, None, index, 0)


def _sorted(row: Any, column: Any) -> tuple[Any, Entries, Any, Any]:
    """Sort entries by tile row, tile (the diagonal one first), row and column.

    The order that sorts them, the entries in it, and each tile's row and column.
    """
    xp, size = namespace(row), np.int32(TILE)
    I, J = row // size, column // size
    tile_key = I.astype(np.int64) << 27 | xp.where(I == J, 0, J + 1)
    order = xp.argsort(tile_key << 8 | (row % size * size + column % size))
    tile, first = _runs(tile_key[order])
    r, c = row[order] % size, column[order] % size
    row_run, first_in_row = _runs(tile * size + r)
    at = xp.arange(len(row), dtype=np.int32)
    E = Entries(tile, r, c, at - first[tile], at - first_in_row[row_run])
    return order, E, I[order][first], J[order][first]


def _runs(key: Any) -> tuple[Any, Any]:
    """The number of each key's run of equal keys, and where each run begins."""
    xp = namespace(key)
    begins = xp.ones(len(key), bool)
    begins[1:] = key[1:] != key[:-1]
    return (xp.cumsum(begins) - 1).astype(np.int32), xp.flatnonzero(begins).astype(np.int32)
