"""The tiles of a triangle: hand-worked formats, and nothing lost in any of them."""

from __future__ import annotations

import numpy as np
import pytest
from cases import PATTERNS, as_triangle, triangle
from tile_systems import FORMATS, TILE, pattern_of, tiled_triangle

from gpuilu.trsv import tiles as module
from gpuilu.trsv.tile_formats import select
from gpuilu.trsv.tiles import lay_out

COLUMN = (1 << 21) - 1


def read_tile(name, extent, index, values):
    """((row, column), value) of every entry of one tile, as paper and docstrings describe it."""
    i = np.arange(TILE)
    if name == "CSR":
        row = np.repeat(i, np.diff([*index[:TILE], extent + 1]))
        assert np.array_equal(row, index[TILE:] // TILE)
        return row, index[TILE:] % TILE, values
    if name == "Dns":
        mask = index[0::2] + 256 * index[1::2]
        r, c = np.nonzero(mask[:, None] >> i & 1)
        return r, c, values[TILE * c + r]
    if name == "DnsRow":
        return np.repeat(index, TILE), np.tile(i, len(index)), values
    if name == "DnsCol":
        return np.tile(i, len(index)), np.repeat(index, TILE), values
    r, c = index // TILE, index % TILE
    width = {"COO": 0, "ELL": extent + 1, "HYB": extent // TILE + 1}[name]
    place = np.arange(len(index))
    kept = (place >= TILE * width) | (r == place % TILE)
    assert not values[~kept].any()
    return r[kept], c[kept], values[kept]


def size_of(name, extent):
    """(values, bytes) of one tile."""
    width = extent + 1
    padded = TILE * width if name == "ELL" else TILE * (extent // TILE + 1) + extent % TILE
    return {
        "CSR": (width, TILE + width),
        "COO": (width, width),
        "ELL": (padded, padded),
        "HYB": (padded, padded),
        "Dns": (256, 32),
        "DnsRow": (TILE * width, width),
        "DnsCol": (TILE * width, width),
    }[name]


def dense_by_position(tiles, data):
    """The strict triangle that the tiles hold, and how often each format occurs."""
    n = len(tiles.row)
    T, count = np.zeros((n, n), data.dtype), dict.fromkeys(FORMATS, 0)
    index = tiles.index.astype(int)
    for I in range(tiles.n_tile_rows):
        value, byte = tiles.first_value[I], tiles.first_byte[I]
        for t in range(tiles.tile_ptr[I], tiles.tile_ptr[I + 1]):
            J, name = int(tiles.tile[t]) & COLUMN, FORMATS[int(tiles.tile[t]) >> 29]
            extent = int(tiles.tile[t]) >> 21 & 255
            count[name] += 1
            values, nbytes = size_of(name, extent)
            here = index[byte : byte + nbytes], data[value : value + values]
            r, c, v = read_tile(name, extent, *here)
            assert not T[TILE * I + r, TILE * J + c].any()
            T[TILE * I + r, TILE * J + c] = v
            value, byte = value + values, byte + nbytes
        assert (value, byte) == (tiles.first_value[I + 1], tiles.first_byte[I + 1])
    return T, count


def check(T):
    """The tiles hold T, strictly lower by position; how often each format occurs."""
    tiles, place = lay_out(T)
    data = np.zeros(tiles.n_values, T.dtype)
    data[place] = T.data
    found, count = dense_by_position(tiles, data)
    at = np.flatnonzero(tiles.row >= 0)
    assert np.array_equal(np.sort(tiles.row[at]), np.arange(T.n))
    assert not np.triu(found).any()
    dense = np.zeros((T.n, T.n), T.dtype)
    dense[np.ix_(tiles.row[at], tiles.row[at])] = found[np.ix_(at, at)]
    strict = T.to_csr().toarray()
    np.fill_diagonal(strict, 0)
    assert np.array_equal(dense, strict)
    return count


@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("case", PATTERNS)
def test_tiles_hold_every_entry_in_its_place(case, lower, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT", 2000)  # nothing is cut
    check(as_triangle(triangle(PATTERNS[case](), lower=lower), lower))


@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
def test_tiles_hold_every_entry_in_every_format(lower):
    assert set(check(tiled_triangle(lower)).values()) == {1}
    for name in FORMATS:
        count = check(tiled_triangle(lower, dtype="F", names=("DnsCol", name, name, "Dns")))
        assert count[name] >= 2


@pytest.mark.parametrize("name", FORMATS)
def test_the_pattern_made_for_a_format_is_stored_in_it(name):
    P = pattern_of(name)
    found = check(tiled_triangle(names=(name,) if name == "Dns" else ("Dns", name)))
    assert found[name] == 1
    if name != "COO":
        fmt, _, _ = select(P.sum(axis=1)[None], P.sum(axis=0)[None])
        assert FORMATS[fmt[0]] == name


def lengths(rows, columns=None):
    """Row and column lengths of one tile; columns neither full nor empty if not given."""
    columns = [1] * 15 + [sum(rows) - 15] if columns is None else columns
    return np.array([rows]), np.array([columns])


@pytest.mark.parametrize(
    ("rows", "columns", "name", "width", "beyond"),
    [
        ([12] * 16, None, "Dns", 0, 0),  # 192 of 256
        ([12] * 15 + [11], None, "ELL", 12, 0),  # 191, and all rows alike
        ([16] * 5 + [0] * 11, [5] * 16, "DnsRow", 0, 0),
        ([5] * 16, [16] * 5 + [0] * 11, "DnsCol", 0, 0),  # before ELL
        ([16] * 4 + [15] + [0] * 11, None, "CSR", 0, 0),  # a row is not full
        ([1] * 13 + [0] * 3, None, "CSR", 0, 0),  # deviation 0.48 of the mean
        ([5] * 8 + [7] * 8, None, "ELL", 7, 0),  # deviation 1, mean 6
        ([4] * 8 + [6] * 8, None, "ELL", 6, 0),  # deviation 1, mean 5: 0.2 exactly
        ([3] * 8 + [5] * 8, None, "CSR", 0, 0),  # deviation 1, mean 4
        ([5] + [1] * 8 + [0] * 7, None, "HYB", 1, 4),  # deviation 1.4 of the mean
        ([6] + [1] * 9 + [0] * 6, None, "CSR", 0, 0),  # 5 beyond the width
        ([3, 3] + [1] * 9 + [0] * 5, None, "CSR", 0, 0),  # deviation 0.96 of the mean
    ],
)
def test_formats_are_selected_by_the_thresholds_of_the_paper(rows, columns, name, width, beyond):
    fmt, w, rest = select(*lengths(rows, columns))
    assert (FORMATS[fmt[0]], w[0], rest[0]) == (name, width, beyond)


def test_diagonal_tiles_come_first_and_are_csr_or_nothing():
    tiles, _ = lay_out(as_triangle(triangle(PATTERNS["dense 65"]())))
    column = tiles.tile & COLUMN
    assert column[tiles.tile_ptr[:4]].tolist() == [0, 1, 2, 3]
    assert not (tiles.tile[tiles.tile_ptr[:4]] >> 29).any()
    assert column[tiles.tile_ptr[4] :].tolist() == [0, 1, 2, 3]  # row 64 alone: DIA
    assert tiles.dependencies().indices.tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert tiles.dependencies().indptr.tolist() == [0, 0, 1, 3, 6, 10]


def test_wide_levels_begin_tile_rows_and_narrow_ones_do_not():
    wide, _ = lay_out(as_triangle(triangle(PATTERNS["layered 8x40"]())))
    column = wide.tile & COLUMN
    tile_row = np.repeat(np.arange(wide.n_tile_rows), np.diff(wide.tile_ptr))
    assert len(wide.row) == 8 * 48
    assert not (column == tile_row).any()
    narrow, _ = lay_out(as_triangle(triangle(PATTERNS["chain 33"]())))
    assert narrow.row.tolist() == [*range(33), *[-1] * 15]


def test_segments_of_long_rows_keep_the_row_they_belong_to(monkeypatch):
    monkeypatch.setattr(module, "SEGMENT", 4)
    monkeypatch.setattr(module, "LONG", 0)
    T = as_triangle(triangle(PATTERNS["wide row 33"]()))
    tiles, place = lay_out(T)
    added = tiles.row < 0
    assert set(tiles.owner[added].tolist()) == {
        -1,
        32,
    }  # padding and segments of segments; segments
    assert np.array_equal(tiles.owner[~added], tiles.row[~added])
    assert len(np.unique(place)) == len(T.indices)
