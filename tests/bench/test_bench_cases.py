"""The cases are the matrices of the design's table and of table 5.1 of paper 004, and stay so."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import gpuilu
from gpuilu.bench.cases import CASES, chosen, known, label, named
from gpuilu.bench.patterns import band, grid, kkt, star
from gpuilu.dag import count_levels
from gpuilu.triangle import Pattern

SMALL = 2e-3

# n, nnz and levels of the design's table; those marked take seconds, or a gigabyte.
DESIGN = {
    "g2d5_1024x1024": (1048576, 3143680, 2047),
    "g2d5_64x16384": (1048576, 3129280, 16447),
    "g2d9_1024x1024": (1048576, 5236738, 3070),
    "band64_60k": (60000, 3897920, 60000),
    "dense_2000": (2000, 2001000, 2000),
    "g3d7_128": (2097152, 8339456, 382),
    "g3d7_32x32x2048": (2097152, 8256512, 2110),
    "g3d27_128": (2097152, 28920060, 890),
    "elast3d_64_dof3": (786432, 31258716, 1326),
    "fem2d_rcm": (1000000, 3999959, 1612),
    "fem2d_random": (1000000, 3999959, 20),
    "powerlaw_1M": (1000000, 3223322, 4300),
    "road_1M": (1000000, 2288840, 67),
}
SLOW = list(DESIGN)[5:]


def strict(T):
    """The pattern of a triangle below its diagonal."""
    off = T.indices != np.repeat(np.arange(T.shape[0]), np.diff(T.indptr))
    indptr = (T.indptr - np.arange(T.shape[0] + 1)).astype(np.int32)
    return Pattern(True, indptr, T.indices[off])


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.stress] if n in SLOW else []) for n in DESIGN]
)
def test_a_case_of_the_design_has_the_size_and_the_levels_of_its_table(name):
    T = CASES[name].build(1)
    assert (T.shape[0], T.nnz, count_levels(strict(T))) == DESIGN[name]


@pytest.mark.stress
def test_the_longest_row_of_the_power_law_graph_is_that_of_the_design():
    assert np.diff(CASES["powerlaw_1M"].build(1).indptr).max() == 4733


def test_the_groups_have_the_cases_that_they_are_named_after():
    assert {case.name for case in chosen(groups=["fast13"])} == set(DESIGN)
    assert len(chosen(groups=["grids"])) == 20
    assert len(chosen(groups=["papers"])) == 7
    assert len(CASES) == 20 + 7 + 7  # six grids are of two groups


def edges(sizes, full):
    """Pairs of neighbours in a grid: along the axes, or all around: (prod(3 m - 2) - n) / 2."""
    n = math.prod(sizes)
    if full:
        return (math.prod(3 * m - 2 for m in sizes) - n) // 2
    return sum(n // m * (m - 1) for m in sizes)


GRIDS = [name for name in CASES if "grids" in CASES[name].groups]


@pytest.mark.parametrize("name", [n for n in GRIDS if not n.startswith("g3d27")])
def test_a_grid_of_the_paper_has_as_many_entries_as_points_and_neighbours(name):
    kind, _, text = name.partition("_")
    sizes = [int(m) for m in text.split("x")] if "x" in text else [128] * 3
    T = CASES[name].build(1)
    assert T.shape[0] == math.prod(sizes)
    assert T.nnz == T.shape[0] + edges(sizes, kind.endswith("9"))


@pytest.mark.parametrize("sizes", [(3, 4), (5, 2, 3)])
@pytest.mark.parametrize("full", [False, True])
def test_a_grid_joins_the_points_whose_coordinates_differ_by_one_step(sizes, full):
    points = list(np.ndindex(*sizes))
    expected = [
        [
            j
            for j in range(i)
            if max(d := [abs(a - b) for a, b in zip(points[i], points[j], strict=True)]) == 1
            and (full or sum(d) == 1)
        ]
        for i in range(len(points))
    ]
    indptr, indices = grid(sizes, star(len(sizes), full))
    found = np.split(indices, indptr[1:-1])
    assert [row.tolist() for row in found] == expected


def test_the_unknowns_of_a_grid_point_are_coupled_to_all_before_them():
    indptr, indices = grid((2,), [(-1,), (1,)], dof=2)
    rows = [row.tolist() for row in np.split(indices, indptr[1:-1])]
    assert rows == [[], [0], [0, 1], [0, 1, 2]]


def test_a_kkt_system_has_constraints_on_neighbouring_unknowns():
    indptr, indices = kkt((3,))
    rows = [row.tolist() for row in np.split(indices, indptr[1:-1])]
    assert rows == [[], [], [], [0, 1], [0, 1, 2], [1, 2]]


def test_a_band_holds_the_columns_before_the_diagonal():
    indptr, indices = band(4, 2)
    assert [row.tolist() for row in np.split(indices, indptr[1:-1])] == [[], [0], [0, 1], [1, 2]]


@pytest.mark.parametrize("name", CASES)
def test_a_small_case_is_a_canonical_lower_triangle_with_its_diagonal_last(name):
    T = CASES[name].build(SMALL)
    n = T.shape[0]
    assert (T.indptr.dtype, T.indices.dtype, T.data.dtype) == (np.int32, np.int32, np.float64)
    assert T.indices[T.indptr[1:] - 1].tolist() == list(range(n))
    row = np.repeat(np.arange(n), np.diff(T.indptr))
    inside = np.diff(row) == 0
    assert (np.diff(T.indices)[inside] > 0).all()
    assert n < 6000


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_the_same_each_time_and_its_solutions_do_not_grow(name):
    T, again = CASES[name].build(SMALL), CASES[name].build(SMALL)
    assert (again != T).nnz == 0
    x = gpuilu.TriangularSolver(T, device="cpu").solve(np.ones(T.shape[0]))
    assert np.abs(x).max() < 1e4


@pytest.mark.parametrize(
    ("name", "n_levels"), [("kkt_100", 2), ("arrow_466k", 3), ("blocks_60k", 11)]
)
def test_a_stand_in_has_the_levels_of_what_it_stands_for(name, n_levels):
    assert count_levels(strict(CASES[name].build(SMALL))) == n_levels


def test_the_shell_has_35_entries_a_row_in_the_whole_matrix():
    T = CASES["shell_318_dof5"].build(0.1)
    assert 33 < (2 * T.nnz - T.shape[0]) / T.shape[0] < 35


def test_a_file_gives_its_pattern_a_full_diagonal_and_tame_values(tmp_path):
    A = sp.coo_array(np.array([[0.0, 1e300, 0], [0, 5, 0], [7, 0, 0]]))
    path = tmp_path / "A.mtx"
    scipy.io.mmwrite(path, A)
    case = named(str(path))
    B = case.build(1)
    np.testing.assert_array_equal(B.toarray() != 0, [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    off = B - sp.diags_array(B.diagonal())
    assert (B.diagonal() > abs(off).sum(axis=1)).all()
    assert label(case, 0.5) == str(path)


def test_a_name_that_is_neither_case_nor_file_is_an_error():
    with pytest.raises(gpuilu.OptionError, match="no case and no file"):
        chosen(["what"])
    with pytest.raises(gpuilu.OptionError, match="no group"):
        chosen(groups=["what"])


def test_a_record_tells_a_small_case_from_the_full_one():
    case = CASES["g3d7_128"]
    assert label(case, 1) == "g3d7_128"
    assert label(case, 0.01) == "g3d7_128@0.01"
    assert known("g3d7_128@0.01") is case
    assert known("file.mtx") is None
