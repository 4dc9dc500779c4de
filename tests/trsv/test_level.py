"""Level-set substitution over the cores: the same bits as one core, wide levels really shared."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
from cases import (
    DTYPES,
    PATTERNS,
    as_triangle,
    chain,
    grid,
    layered,
    permuted,
    random_values,
    triangle,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

import gpuilu
from gpuilu.backend import cpu, held_bytes
from gpuilu.dag import levels
from gpuilu.trsv import level
from gpuilu.trsv.level import Level
from gpuilu.trsv.serial import Serial


def solved(plan, b):
    x = b.copy()
    plan.solve(x)
    return x


@pytest.fixture
def shared(monkeypatch):
    """Calls of the threaded loops, by the number of wide runs each was given."""
    calls = []
    monkeypatch.setattr(level, "n_threads", lambda: 2)

    def spied(loop):
        def spy(threads, run_ptr, run_is_wide, *rest):
            calls.append(int(run_is_wide.sum()))
            loop(threads, run_ptr, run_is_wide, *rest)

        return spy

    for name in ("_solve_vector", "_solve_block"):
        monkeypatch.setattr(level, name, spied(getattr(level, name)))
    return calls


@pytest.mark.parametrize("unit_diagonal", [False, True], ids=["stored", "unit"])
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [1, 4, 30])
def test_threads_give_the_bits_of_one_thread(
    shared, monkeypatch, wide, dtype, lower, unit_diagonal
):
    monkeypatch.setattr(level, "WIDE", wide)
    T = as_triangle(triangle(permuted(grid(20, 30)), dtype, lower), lower, unit_diagonal)
    B = random_values(np.random.default_rng(0), (600, 3), dtype)
    one, many = Serial(T), Level(T)
    np.testing.assert_array_equal(solved(many, B), solved(one, B))
    np.testing.assert_array_equal(solved(many, B[:, 0].copy()), solved(one, B[:, 0].copy()))
    assert len(shared) == 2
    assert min(shared) > 0


def test_levels_wide_enough_by_default_are_shared_and_keep_their_bits(shared):
    T = as_triangle(triangle(layered(6, 2500)))
    b = random_values(np.random.default_rng(0), 15000, "float64")
    np.testing.assert_array_equal(solved(Level(T), b), solved(Serial(T), b))
    assert shared == [6]


@pytest.mark.parametrize("threads", [1, 2, 3, 16, 64])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, threads):
    monkeypatch.setattr(level, "WIDE", 1)
    monkeypatch.setattr(level, "n_threads", lambda: threads)
    T = as_triangle(triangle(layered(9, 7)))
    B = random_values(np.random.default_rng(threads), (63, 2), "float64")
    np.testing.assert_array_equal(solved(Level(T), B), solved(Serial(T), B))


FEW_LEVELS = [c for c in PATTERNS if "pattern" not in c and not c.startswith("chain 10")]


@pytest.mark.parametrize("case", FEW_LEVELS)
def test_every_case_keeps_its_bits_when_all_its_levels_are_shared(shared, monkeypatch, case):
    monkeypatch.setattr(level, "WIDE", 1)
    T = as_triangle(triangle(PATTERNS[case]()))
    b = random_values(np.random.default_rng(0), T.n, "float64")
    np.testing.assert_array_equal(solved(Level(T), b), solved(Serial(T), b))
    assert shared == [levels(T).n_levels]


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_pattern_of_dependencies_changes_the_bits(data):
    n = data.draw(st.integers(1, 25))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    rows, cols = [i for i, _ in chosen], [j for _, j in chosen]
    T = as_triangle(triangle(coo_array((np.ones(len(chosen)), (rows, cols)), shape=(n, n))))
    b = random_values(np.random.default_rng(n), n, "float64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "WIDE", 2)
        patch.setattr(level, "n_threads", lambda: 2)
        np.testing.assert_array_equal(solved(Level(T), b), solved(Serial(T), b))


def test_narrow_levels_that_follow_each_other_are_swept_as_one_run(monkeypatch):
    monkeypatch.setattr(level, "WIDE", 4)
    # Levels of 1, 1, 5, 4, 1 and 2 rows: row r depends on the first row of the level before.
    first, rows, cols = [0, 1, 2, 7, 11, 12, 14], [], []
    for below, begin, end in zip(first, first[1:], first[2:], strict=False):
        rows += range(begin, end)
        cols += [below] * (end - begin)
    T = as_triangle(triangle(coo_array((np.ones(len(rows)), (rows, cols)), shape=(14, 14))))
    run_ptr, run_is_wide = level._runs(levels(T))
    assert run_ptr.tolist() == [0, 2, 7, 11, 14]
    assert run_is_wide.tolist() == [False, True, True, False]


def test_new_values_reach_the_copy_in_level_order_only_through_refresh():
    T, U = (
        as_triangle(triangle(layered(5, 9), seed=1)),
        as_triangle(triangle(layered(5, 9), seed=2)),
    )
    b = random_values(np.random.default_rng(0), 45, "float64")
    plan = Level(T)
    T.assign(U)
    plan.refresh()
    np.testing.assert_array_equal(solved(plan, b), solved(Serial(U), b))


def test_one_thread_never_enters_the_threaded_loops(shared, monkeypatch):
    monkeypatch.setattr(level, "n_threads", lambda: 1)
    T = as_triangle(triangle(layered(3, 2100)))
    b = random_values(np.random.default_rng(0), T.n, "float64")
    np.testing.assert_array_equal(solved(Level(T), b), solved(Serial(T), b))
    assert shared == []


def test_memory_is_one_copy_of_the_triangle_and_the_level_order():
    T = as_triangle(triangle(chain(100)))
    # order, indptr (101), indices, data, diagonal, and one run of narrow levels.
    own = 4 * 100 + 4 * 101 + 4 * 99 + 8 * 99 + 8 * 100 + (8 + 1)
    assert held_bytes(Level(T)) == held_bytes(T) + own


def _in_worker(solver, b, answer):
    answer.send((cpu.n_threads(), solver.solve(b)))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this platform"
)
def test_a_forked_worker_stays_on_one_thread_and_gets_the_same_bits(monkeypatch):
    monkeypatch.setattr(level, "WIDE", 8)
    S = gpuilu.TriangularSolver(triangle(layered(5, 40)), algorithm="level")
    b = random_values(np.random.default_rng(0), 200, "float64")
    x = S.solve(b)  # the threads exist before the fork, and the worker inherits the object
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_in_worker, args=(S, b, sender))
    worker.start()
    sender.close()  # so that a worker that dies ends the wait
    assert receiver.poll(60), "the worker does not answer"
    threads, in_worker = receiver.recv()
    worker.join(60)
    assert worker.exitcode == 0
    assert threads == 1
    np.testing.assert_array_equal(in_worker, x)
    np.testing.assert_array_equal(S.solve(b), x)
