"""What strips promise: counted by hand and by plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cases import PATTERNS, arrow, as_triangle, band, chain, dense, grid, layered, triangle

from gpuilu.dag import levels
from gpuilu.trsv import blocked, strips_model
from gpuilu.trsv.strips import columns, in_steps, ranges
from gpuilu.trsv.strips_model import (
    CLOSE,
    CROWDED,
    Counts,
    counted,
    predicted_us,
    waits_long,
)

NAMES = [name for name in PATTERNS if PATTERNS[name]().shape[0]]
FLOAT64, FLOAT32 = np.dtype("d"), np.dtype("f")


def made(P, lower=True):
    return as_triangle(triangle(P, lower=lower), lower)


def promised(T, strips, itemsize=8, **counts):
    found = levels(T)
    made = counted(T, found, strips)
    return predicted_us(T, found, Counts(**(vars(made) | counts)), itemsize)


def traffic(T, itemsize=8):
    return 2.2e-5 * T.n + 2.2e-7 * (4 + itemsize) * len(T.indices)


def test_a_chain_is_a_step_a_row_and_a_hop_a_strip():
    T = made(chain(100))
    assert counted(T, levels(T), ranges(T, 5)) == Counts(5, 4, 100, 100, 100, 4, 0, 0)
    for count in (1, 5):
        waiting = (0.095 + 0.005 * (count - 1) / 100) * 100 + 0.95 * (count - 1)
        expected = waiting + 0.06 * count + traffic(T)
        assert promised(T, ranges(T, count)) == pytest.approx(expected)
        single = 0.9 * waiting + 0.06 * count + traffic(T, 4)
        assert promised(T, ranges(T, count), 4) == pytest.approx(single)


def test_where_steps_are_full_and_rows_short_static_data_are_copied_and_steps_faster():
    T = made(grid(64, 64))  # 63 of its 127 levels have more than 32 rows
    count = counted(T, levels(T), ranges(T, 1))
    assert (count.path, count.steps) == (127 + 63, 127 + 63)
    loaded = traffic(T) + 0.06 + 0.095 * 190
    assert promised(T, ranges(T, 1)) == pytest.approx(loaded)
    full = {"steps": T.n // 32}
    copied = traffic(T) + 0.06 + 0.06 * 190
    assert promised(T, ranges(T, 1), **full) == pytest.approx(copied)
    too_large = traffic(T, 16) + 0.06 + 0.095 * 190
    assert promised(T, ranges(T, 1), 16, **full) == pytest.approx(too_large)
    far = 65 * full["steps"]  # more than are copied with a step
    assert promised(T, ranges(T, 1), **full, far=far) > loaded
    T = made(layered(100, 64, per_row=1))  # too few entries: copies would be more than they are
    waiting = promised(T, ranges(T, 1)) - traffic(T) - 0.06
    assert waiting == pytest.approx(0.095 * 200)


def test_hops_are_no_more_than_there_are_levels():
    T = made(arrow(51))
    few, many = (promised(T, ranges(T, count), far=0) for count in (10, 51))
    assert many - few == pytest.approx(0.06 * 41)


def test_hops_are_as_many_as_dependencies_on_the_path_are_far():
    T = made(chain(1000))
    for far, hops in ((0, 1), (9, 1 + 1000 * 9 / 999), (499, 99), (999, 99)):
        us = promised(T, ranges(T, 100), far=far, path=200)
        steps = 200 * (0.095 + 0.005 * far / 1000)
        assert us == pytest.approx(steps + 0.95 * hops + 6 + traffic(T))


def test_more_strips_than_are_at_work_at_once_come_in_rounds():
    T = made(chain(1000))
    one, three = (promised(T, ranges(T, k), path=0, hops=0, far=0) for k in (132, 300))
    assert one == pytest.approx(traffic(T) + 0.06 * 132 + 0.095 * 1000 / 132)
    assert three == pytest.approx(traffic(T) + 0.06 * 300 + 0.095 * 3 * 1000 / 300)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n_strips", [1, 3, 7])
@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_plain_loops(name, n_strips, lower):
    T = made(PATTERNS[name](), lower)
    found, strips = levels(T), ranges(T, n_strips)
    strip, count = strips.of_row, counted(T, found, strips)
    rows = (T.indices[a:b] for a, b in pairwise(T.indptr))
    inside = np.array([np.count_nonzero(strip[row] == strip[i]) for i, row in enumerate(rows)])
    assert (count.strips, count.hops) == (n_strips, n_strips - 1)
    assert count.far == sum(np.diff(T.indptr) - inside)
    assert count.beyond == sum(max(k - CLOSE, 0) for k in inside)
    assert count.crowded == np.count_nonzero(inside > CROWDED)
    assert count.steps == len(in_steps(T, found, strips).step_start) - 1
    pairs = list(zip(strip.tolist(), found.level.tolist(), strict=True))
    widest = {
        level: max(map(pairs.count, {p for p in pairs if p[1] == level})) for _, level in pairs
    }
    assert count.path == sum(-(-rows // 32) for rows in widest.values())
    assert count.shared_path == sum(-(-rows // 8) for rows in widest.values())


def test_rows_with_many_entries_in_their_own_strip_take_longer_steps():
    T = made(band(600, 7))  # more than four: longer rows; not more than eight
    assert promised(T, ranges(T, 1)) == pytest.approx(traffic(T) + 0.06 + 0.115 * 600)
    T = made(band(600, 20))  # more than eight: a step of eight rows
    assert promised(T, ranges(T, 2)) == pytest.approx(traffic(T) + 0.12 + 0.2 * 600 + 0.4)


def test_a_few_long_rows_make_steps_longer_as_many_with_five_entries_do():
    P = chain(4000).tolil()
    P[3999, 3900:3998] = 1  # 99 entries in one row, of 4097 in all
    T = made(P.tocsr())
    count = counted(T, levels(T), ranges(T, 1))
    assert (count.beyond, count.crowded) == (95, 1)
    assert promised(T, ranges(T, 1)) == pytest.approx(traffic(T) + 0.06 + 0.115 * 4000)


def test_the_strips_that_promise_most_are_taken():
    for T in (made(band(6000, 20)), made(grid(120, 60)), made(grid(60, 60), lower=False)):
        us, strips = blocked.predicted(T, FLOAT64)
        most = T.n // blocked.FEWEST_ROWS
        tried = [ranges(T, k) for k in blocked.STRIPS if k <= most] + columns(T, most)
        assert us == min(promised(T, other) for other in [*tried, strips]) == promised(T, strips)
        assert blocked.predicted(T, FLOAT32)[0] < us


def test_waiting_is_long_where_the_best_takes_twice_a_step_a_level():
    T = made(chain(1000))
    found = levels(T)
    short, long = (
        Counts(1, 0, 1000, 1000, 1000, 0, 0, 0),
        Counts(100, 99, 1000, 1000, 1000, 999, 0, 0),
    )
    assert predicted_us(T, found, short, 8) == pytest.approx(0.06 + 95 + traffic(T))
    assert predicted_us(T, found, long, 8) > 2 * (95 + traffic(T))
    assert waits_long(T, found, [None, long])
    assert not waits_long(T, found, [long, short])
    assert not waits_long(T, found, [None])


def test_nothing_is_told_of_rows_of_very_many_entries_or_of_too_many_runs(monkeypatch):
    T = made(dense(1100))
    assert blocked.predicted(T, FLOAT64)[0] == np.inf
    assert blocked.predicted(T, FLOAT64)[1].count == 2
    T = made(chain(1000))
    monkeypatch.setattr(strips_model, "MOST_RUNS", 1500)
    monkeypatch.setattr(strips_model, "RUNS_A_ROW", 1)
    assert promised(T, ranges(T, 1)) < np.inf
    assert counted(T, levels(T), ranges(T, 2)) is None
    monkeypatch.setattr(strips_model, "RUNS_A_ROW", 2)
    assert counted(T, levels(T), ranges(T, 2)) is not None
    assert predicted_us(T, levels(T), None, 8) == np.inf
