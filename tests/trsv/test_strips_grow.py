"""Strips grown along the dependencies: by hand, against plain loops, and where they are taken."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from cases import PATTERNS, as_triangle, chain, grid, mesh, triangle

from gpuilu.dag import is_regular, levels
from gpuilu.trsv import blocked, strips_grow
from gpuilu.trsv.strips import ranges
from gpuilu.trsv.strips_grow import grow, grown
from gpuilu.trsv.strips_model import counted, predicted_us

NAMES = [name for name in PATTERNS if PATTERNS[name]().shape[0]]


def made(P, lower=True):
    return as_triangle(triangle(P, lower=lower), lower)


def by_plain_loops(T, deepest, together, reach):
    """{row: (stage, level and group where its patch began, depth)}, row after row."""
    found = levels(T)
    group = np.empty(T.n, int)
    for begin, end in zip(found.level_ptr, found.level_ptr[1:], strict=False):
        group[found.level_order[begin:end]] = np.arange(end - begin) // together
    word = {}
    for i in range(T.n) if T.lower else range(T.n - 1, -1, -1):
        own = (int(found.level[i]), int(group[i]))
        theirs = [word[j] for j in T.indices[T.indptr[i] : T.indptr[i + 1]].tolist()]
        stage = max((s for s, _, _ in theirs), default=-1)
        patches = {patch for s, patch, _ in theirs if s == stage}
        depth = max((d for s, _, d in theirs if s == stage), default=0)
        patch = patches.pop() if len(patches) == 1 else None
        if patch and depth < deepest and abs(own[1] - patch[1]) <= reach:
            word[i] = stage, patch, depth + 1
        else:
            word[i] = stage + 1, own, 1
    return word


def strips_by_plain_loops(word, rows):
    """Patches in order, a new strip with each stage and past each multiple of `rows`."""
    members = defaultdict(list)
    for i, (stage, patch, _) in word.items():
        members[stage, patch].append(i)
    strip, count, before, last = np.empty(len(word), np.int32), 0, 0, None
    for (stage, _), inside in sorted(members.items()):
        here = stage, before // rows
        count += last is not None and here != last
        strip[inside], before, last = count, before + len(inside), here
    return count + 1, strip


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("deepest", "together", "reach", "rows"), [(3, 2, 1, 5), (96, 16, 24, 30)])
@pytest.mark.parametrize("name", [*NAMES, "mesh"])
def test_strips_are_those_of_plain_loops(monkeypatch, name, deepest, together, reach, rows, lower):
    T = made(mesh(400) if name == "mesh" else PATTERNS[name](), lower)
    for constant, value in (
        *(("DEEPEST", deepest), ("TOGETHER", together)),
        *(("REACH", reach), ("MEAN_ROWS", rows)),
    ):
        monkeypatch.setattr(strips_grow, constant, value)
    word = by_plain_loops(T, deepest, together, reach)
    count, strip = strips_by_plain_loops(word, rows)
    strips = grow(T, levels(T))
    assert (strips.count, strips.hops) == (count, max(s for s, _, _ in word.values()))
    assert strips.of_row.dtype == np.int32
    np.testing.assert_array_equal(strips.of_row, strip)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", [*NAMES, "mesh"])
def test_strips_depend_on_earlier_ones_and_no_path_crosses_more_than_it_has_stages(
    monkeypatch, name, lower
):
    monkeypatch.setattr(strips_grow, "DEEPEST", 4)
    monkeypatch.setattr(strips_grow, "MEAN_ROWS", 20)
    T = made(mesh(400) if name == "mesh" else PATTERNS[name](), lower)
    strips = grow(T, levels(T))
    row = np.repeat(np.arange(T.n), np.diff(T.indptr))
    assert np.all(strips.of_row[T.indices] <= strips.of_row[row])
    assert sorted(set(strips.of_row.tolist())) == list(range(strips.count))
    crossed = np.zeros(T.n, int)
    for i in levels(T).level_order.tolist():
        for j in T.indices[T.indptr[i] : T.indptr[i + 1]].tolist():
            leaves = strips.of_row[i] != strips.of_row[j]
            crossed[i] = max(crossed[i], crossed[j] + leaves)
    assert crossed.max() <= strips.hops


def test_a_chain_is_cut_every_so_many_rows():
    T = made(chain(1000))
    strips = grow(T, levels(T))
    np.testing.assert_array_equal(strips.of_row, np.arange(1000) // 128)
    assert (strips.count, strips.hops) == (8, 7)


def test_a_patch_spreads_only_as_far_as_it_may(monkeypatch):
    monkeypatch.setattr(strips_grow, "TOGETHER", 1)
    monkeypatch.setattr(strips_grow, "REACH", 2)
    monkeypatch.setattr(strips_grow, "MEAN_ROWS", 1)
    P = np.zeros((9, 9))
    P[1:, 0] = 1  # a star: the other rows are in one level, each a group of its own
    T = made(P)
    strips = grow(T, levels(T))
    np.testing.assert_array_equal(strips.of_row, [0, 0, 0, 0, 1, 2, 3, 4, 5])
    assert strips.hops == 1


def test_grids_and_what_has_few_levels_are_left_alone(monkeypatch):
    monkeypatch.setattr(strips_grow, "FEWEST_LEVELS", 40)
    T = made(grid(30, 30))
    assert is_regular(T)
    assert grown(T, levels(T), 900) == []
    T = made(mesh(2000))
    found, strips = levels(T), grow(T, levels(T))
    assert not is_regular(T)
    assert 40 <= found.n_levels < 256
    assert len(grown(T, found, strips.count)) == 1
    assert grown(T, found, strips.count - 1) == []
    monkeypatch.setattr(strips_grow, "FEWEST_LEVELS", found.n_levels + 1)
    assert grown(T, found, strips.count) == []
    monkeypatch.setattr(strips_grow, "FEWEST_LEVELS", 40)
    monkeypatch.setattr(strips_grow, "MOST_LEVELS", found.n_levels - 1)
    assert grown(T, found, strips.count) == []


def test_strips_are_grown_only_where_others_wait_long_and_rows_have_room(monkeypatch):
    T = made(mesh(60_000))
    cuts = [cut for cut, _ in blocked._candidates(T) if not isinstance(cut, int)]
    assert len(cuts) == 1
    monkeypatch.setattr(strips_grow, "MOST_ROWS", T.n - 1)
    assert grown(T, levels(T), T.n) == []
    assert all(isinstance(cut, int) for cut, _ in blocked._candidates(T))
    monkeypatch.undo()
    monkeypatch.setattr(blocked, "waits_long", lambda *_: False)
    assert all(isinstance(cut, int) for cut, _ in blocked._candidates(T))


@pytest.mark.parametrize("lower", [True, False])
def test_a_mesh_in_order_of_bandwidth_is_taken_in_grown_strips(lower):
    T = made(mesh(60_000), lower)
    found, (strips,) = levels(T), grown(T, levels(T), T.n // blocked.FEWEST_ROWS)
    us, taken = blocked.predicted(T, np.dtype("d"))
    np.testing.assert_array_equal(taken.of_row, strips.of_row)
    best = min(
        predicted_us(T, found, counted(T, found, ranges(T, count)), 8) for count in (32, 64, 96)
    )
    assert us < best
