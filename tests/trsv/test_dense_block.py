"""The layout of dense tiles, worked by hand, and how full they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import DTYPES, PATTERNS, as_triangle, band, chain, dense, poisson, suited, triangle

from gpuilu.errors import UnsupportedAlgorithmError
from gpuilu.trsv import dense_block
from gpuilu.trsv.dense_block import lay_out, most_tile_fill, tile_fill


def made(P, lower=True):
    return as_triangle(triangle(P, lower=lower), lower)


@pytest.mark.parametrize("lower", [True, False])
def test_a_band_has_the_diagonal_tile_and_those_it_reaches(lower):
    tile_ptr, tile_column = lay_out(made(band(130, 64), lower))
    np.testing.assert_array_equal(tile_ptr, [0, 1, 3, 6, 9, 12])
    np.testing.assert_array_equal(tile_column, [0, 0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4])


def test_a_chain_reaches_one_entry_into_the_tile_before():
    tile_ptr, tile_column = lay_out(made(chain(65)))
    np.testing.assert_array_equal(tile_ptr, [0, 1, 3, 4])
    np.testing.assert_array_equal(tile_column, [0, 0, 1, 1])


def test_tiles_without_entries_are_not_stored():
    tile_ptr, tile_column = lay_out(made(PATTERNS["diagonal 33"]()))
    assert list(tile_ptr) == [0, 0, 0]
    assert len(tile_column) == 0
    assert [len(part) for part in lay_out(made(PATTERNS["0x0"]()))] == [1, 0]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("case", PATTERNS)
def test_every_entry_lies_in_a_tile_and_every_tile_has_an_entry(case, lower):
    T = made(PATTERNS[case](), lower)
    row, column = np.repeat(np.arange(T.n), np.diff(T.indptr)), T.indices
    if not lower:
        row, column = T.n - 1 - row, T.n - 1 - column
    expected = sorted(set(zip(row // 32, column // 32, strict=True)))
    tile_ptr, tile_column = lay_out(T)
    tile_row = np.repeat(np.arange(len(tile_ptr) - 1), np.diff(tile_ptr))
    assert list(zip(tile_row, tile_column, strict=True)) == expected
    assert tile_fill(T) == len(T.indices) / max(1024 * len(expected), 1)
    assert tile_fill(T) <= most_tile_fill(T) <= 1


def test_full_tiles_are_told_from_empty_ones_in_one_pass():
    full, empty = made(dense(320)), made(PATTERNS["grid 32x33"]())
    assert tile_fill(full) == pytest.approx(320 * 319 / 2 / (55 * 1024))
    assert most_tile_fill(full) >= tile_fill(full) > 0.9
    assert most_tile_fill(empty) < 0.1


def test_tiles_far_larger_than_the_triangle_are_refused(monkeypatch):
    T = made(chain(1000))
    tiles = len(lay_out(T)[1])
    dense_block._refuse_waste(T, tiles)  # little: never mind
    monkeypatch.setattr(dense_block, "SMALL", 0)
    with pytest.raises(UnsupportedAlgorithmError, match=f"needs {tiles * 8192} bytes"):
        dense_block._refuse_waste(T, tiles)
    full = made(dense(200))
    dense_block._refuse_waste(full, len(lay_out(full)[1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_full_band_is_put_in_place_of_a_matrix_that_is_refused(monkeypatch, dtype):
    monkeypatch.setattr(dense_block, "SMALL", 0)
    A = poisson(40, 50)
    for part, lower in ((sp.tril, True), (sp.triu, False)):
        sparse, full = (
            as_triangle(part(B.astype(dtype)), lower) for B in (A, suited("dense_block", "cuda", A))
        )
        assert sparse.n == full.n
        with pytest.raises(UnsupportedAlgorithmError):
            dense_block._refuse_waste(sparse, len(lay_out(sparse)[1]))
        dense_block._refuse_waste(full, len(lay_out(full)[1]))


@pytest.mark.parametrize("P", [band(3000, 64), dense(700)], ids=["band", "dense"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_of_its_own_kind_of_triangle_take_at_most_twice_the_triangle(P, dtype):
    T = as_triangle(triangle(P, dtype))
    tiles = 1024 * len(lay_out(T)[1]) * T.dtype.itemsize
    csr = T.nnz * (T.dtype.itemsize + 4) + 4 * (T.n + 1)
    scratch = (T.n + 31) // 32 * 32 * T.dtype.itemsize
    assert tiles + scratch <= 2 * csr
