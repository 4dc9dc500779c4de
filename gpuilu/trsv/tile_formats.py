"""Which format a 16x16 tile is stored in, how much it takes, and where in it each entry goes.

Seven formats hold the off-diagonal tiles, two the diagonal ones: CSR, or nothing beside the
diagonal itself (DIA). An entry's place in its tile takes a byte: 4 bits of row, 4 of column. A
padded place has the byte of another row. Only CSR has row pointers, 16 bytes; Dns has masks, 16
bits a row.

Selection of an off-diagonal tile's format, in this order: Dns from 3/4 of the 256 places on; COO up
to 12 entries; DnsRow if every row is full or empty; DnsCol if every column is; ELL if the row
lengths vary little (standard deviation at most 0.2 of the mean); HYB if they vary much (at least
the mean) and at most 4 entries lie beyond the width with the fewest places; else CSR.
Source: Lu and Liu, TileSpTRSV, 2023, section 3.3, which takes this selection over from Niu et al.,
TileSpMV, IPDPS 2021; the thresholds are those of the latter's published code. Here the rows that
the last tile row lacks count as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuilu.backend import namespace
from gpuilu.csr import row_of_entries
from gpuilu.errors import InvalidMatrixError

__all__ = ["Entries", "Sizes", "index_bytes", "places", "select", "sizes", "starts"]

TILE = 16
CSR, COO, ELL, HYB, DNS, DNS_ROW, DNS_COL = range(7)  # as in tiles.cuh
DENSE = 192  # entries: 3/4 of the places
SPARSE = 12  # entries
EVEN, UNEVEN = 0.2, 1.0  # standard deviation over mean of the row lengths
BEYOND = 4  # entries beyond the width, in HYB
INDEX_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries sorted by tile, row and column: int32 arrays, shapes (nnz,)."""

    tile: Any  # the number of its tile
    r: Any  # row and column in the tile
    c: Any
    rank: Any  # among the entries of the tile
    rank_in_row: Any  # among those of its row of the tile

    def in_tiles(self, chosen: Any) -> Entries:
        """The entries of the tiles marked, those tiles numbered anew."""
        mine = chosen[self.tile]
        number = (namespace(chosen).cumsum(chosen) - 1).astype(np.int32)
        rest = (a[mine] for a in (self.r, self.c, self.rank, self.rank_in_row))
        return Entries(number[self.tile[mine]], *rest)


@dataclass(frozen=True, eq=False)
class Sizes:
    """What the tiles take: int32 arrays, shapes (n_tiles,)."""

    format: Any
    width: Any  # of ELL and HYB
    extent: Any  # the size as tiles.cuh reads it
    values: Any  # places for values
    bytes: Any  # index bytes


def select(rows: Any, columns: Any) -> tuple[Any, Any, Any]:
    """(format, width, entries beyond the width) of off-diagonal tiles with more than 12 entries.

    Parameters
    ----------
    rows, columns : int32 arrays, shape (n_tiles, 16)
        Entries in each row and each column.
    """
    xp = namespace(rows)
    nnz = rows.sum(axis=1)
    spread = TILE * (rows * rows).sum(axis=1) - nnz * nnz  # nnz^2 (deviation / mean)^2
    # A width costs 16 places and saves one for each row that is as long: only a full column pays.
    narrow = xp.maximum(rows.min(axis=1), 1)
    beyond = xp.maximum(rows - narrow[:, None], 0).sum(axis=1)
    hybrid = (spread >= (UNEVEN * nnz) ** 2) & (beyond <= BEYOND)
    fmt = xp.where(hybrid, HYB, CSR)
    fmt = xp.where(spread <= (EVEN * nnz) ** 2, ELL, fmt)
    fmt = xp.where((columns % TILE == 0).all(axis=1), DNS_COL, fmt)
    fmt = xp.where((rows % TILE == 0).all(axis=1), DNS_ROW, fmt)
    fmt = xp.where(nnz >= DENSE, DNS, fmt)
    width = xp.where(fmt == ELL, rows.max(axis=1), xp.where(fmt == HYB, narrow, 0))
    return fmt, width, xp.where(fmt == HYB, beyond, 0)


def sizes(E: Entries, is_diagonal: Any) -> Sizes:
    """Choose the formats; small tiles, of which there may be many, need no look at their rows."""
    xp, n_tiles = namespace(E.tile), len(is_diagonal)
    nnz = xp.bincount(E.tile, minlength=n_tiles).astype(np.int32)
    fmt = xp.where(is_diagonal, CSR, COO).astype(np.int32)
    width, beyond = xp.zeros(n_tiles, np.int32), xp.zeros(n_tiles, np.int32)
    large = ~is_diagonal & (nnz > SPARSE)
    if n_large := int(large.sum()):
        inside = E.in_tiles(large)
        lengths = (_lengths(inside.tile, k, n_large) for k in (inside.r, inside.c))
        fmt[large], width[large], beyond[large] = select(*lengths)
    padded, lines, one = TILE * width + beyond, nnz // TILE, xp.ones(n_tiles, np.int32)
    of_format = (fmt, xp.arange(n_tiles))
    # In the order of the formats: CSR, COO, ELL, HYB, Dns, DnsRow, DnsCol.
    extent = [nnz - 1, nnz - 1, width - 1, padded - TILE, 0 * one, lines - 1, lines - 1]
    values = [nnz, nnz, padded, padded, TILE * TILE * one, nnz, nnz]
    nbytes = [TILE + nnz, nnz, padded, padded, 2 * TILE * one, lines, lines]
    taken = (xp.stack(table)[of_format] for table in (extent, values, nbytes))
    return Sizes(fmt, width, *taken)


def places(E: Entries, S: Sizes) -> Any:
    """The place of each entry among those of its tile."""
    xp = namespace(E.tile)
    fmt, width = S.format[E.tile], S.width[E.tile]
    beyond = (fmt == HYB) & (E.rank_in_row >= width)
    before = (xp.cumsum(beyond) - beyond).astype(np.int32)
    first = xp.arange(len(E.tile), dtype=np.int32) - E.rank
    by_column = (fmt == ELL) | (fmt == HYB) | (fmt == DNS_COL)
    place = xp.where(by_column, TILE * E.rank_in_row + E.r, E.rank)
    place = xp.where(beyond, TILE * width + before - before[first], place)
    return xp.where(fmt == DNS, TILE * E.c + E.r, place)


def index_bytes(E: Entries, S: Sizes, first_byte: Any, place: Any) -> Any:
    """Index bytes of all tiles, those of tile t from first_byte[t] on."""
    xp = namespace(place)
    index = xp.zeros(int(first_byte[-1]), np.uint8)
    _write_padding(index, S, first_byte)
    fmt, at = S.format[E.tile], first_byte[E.tile]
    listed = fmt <= HYB
    code = E.r * TILE + E.c
    index[(at + place + TILE * (fmt == CSR))[listed]] = code[listed]
    in_row = (fmt == DNS_ROW) & (E.c == 0)
    index[(at + E.rank // TILE)[in_row]] = E.r[in_row]
    in_column = (fmt == DNS_COL) & (E.r == 0)
    index[(at + E.rank_in_row)[in_column]] = E.c[in_column]
    _write_row_pointers(index, E, S, first_byte)
    _write_masks(index, E, S, first_byte)
    return index


def starts(amounts: Any) -> Any:
    """0 and the running sums of amounts, which must fit into 32 bits."""
    xp = namespace(amounts)
    ends = xp.zeros(len(amounts) + 1, np.int64)
    ends[1:] = xp.cumsum(amounts)
    if int(ends[-1]) > INDEX_MAX:
        raise InvalidMatrixError(
            f"the tiles of this triangle have {int(ends[-1])} places, more than 32-bit positions "
            f"can number ({INDEX_MAX}); use another algorithm, such as 'row'"
        )
    return ends.astype(np.int32)


def _lengths(tile: Any, line: Any, n_tiles: int) -> Any:
    """Entries in each of the 16 lines (rows or columns) of each tile: shape (n_tiles, 16)."""
    count = namespace(tile).bincount(tile * TILE + line, minlength=TILE * n_tiles)
    return count.astype(np.int32).reshape(n_tiles, TILE)


def _write_padding(index: Any, S: Sizes, first_byte: Any) -> None:
    """Give all places of ELL and within the width of HYB the byte of another row."""
    xp = namespace(index)
    first = starts(TILE * S.width)
    tile = row_of_entries(first, int(first[-1]))
    place = xp.arange(len(tile), dtype=np.int32) - first[tile]
    index[first_byte[tile] + place] = (TILE - 1 - place % TILE) * TILE


def _write_row_pointers(index: Any, E: Entries, S: Sizes, first_byte: Any) -> None:
    xp, chosen = namespace(index), S.format == CSR
    n_tiles = int(chosen.sum())
    if n_tiles == 0:
        return
    inside = E.in_tiles(chosen)
    length = _lengths(inside.tile, inside.r, n_tiles)
    begin = xp.cumsum(length, axis=1) - length
    index[first_byte[:-1][chosen][:, None] + xp.arange(TILE)] = begin


def _write_masks(index: Any, E: Entries, S: Sizes, first_byte: Any) -> None:
    xp, chosen = namespace(index), S.format == DNS
    n_tiles = int(chosen.sum())
    if n_tiles == 0:
        return
    inside = E.in_tiles(chosen)
    bit = xp.left_shift(1, inside.c).astype(np.float64)
    line = inside.tile * TILE + inside.r
    mask = xp.bincount(line, weights=bit, minlength=TILE * n_tiles).astype(np.int32)
    halves = xp.stack([mask % 256, mask // 256], axis=1).reshape(n_tiles, 2 * TILE)
    index[first_byte[:-1][chosen][:, None] + xp.arange(2 * TILE)] = halves
