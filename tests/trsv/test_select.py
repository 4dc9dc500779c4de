"""The rule behind algorithm="auto": every branch with its reason, and alike each time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import as_triangle, chain, dense, grid, layered, triangle

import gpuilu
from gpuilu import dag
from gpuilu.trsv import base, select
from gpuilu.trsv.base import algorithms
from gpuilu.trsv.long_rows import cut_long_rows
from gpuilu.trsv.select import choose


def shape(P):
    return as_triangle(triangle(P))


def auto(parts, expected_solves=100):
    return choose(parts, "auto", "cpu", expected_solves=expected_solves, deterministic=True)


@pytest.fixture
def easy(monkeypatch):
    """Thresholds that small triangles pass: 60 rows, 20 a level, 4 threads."""
    monkeypatch.setattr(select, "n_threads", lambda: 4)
    monkeypatch.setattr(select, "SMALLEST", 60)
    monkeypatch.setattr(select, "ROWS_A_LEVEL", 20)


def test_one_thread_takes_serial(easy, monkeypatch):
    monkeypatch.setattr(select, "n_threads", lambda: 1)
    assert auto((shape(layered(3, 30)),)) == ("serial", "one thread")


def test_few_rows_take_serial(easy):
    name, reason = auto((shape(layered(1, 59)),))
    assert (name, reason) == ("serial", "n = 59 is below 60, too few rows to share")
    assert auto((shape(layered(1, 60)),))[0] == "level"


def test_few_expected_solves_take_serial(easy):
    T = (shape(layered(3, 30)),)
    assert auto(T, 9) == ("serial", "9 expected solves do not repay a level order")
    assert auto(T, 10)[0] == "level"


def test_narrow_levels_take_serial(easy):
    name, reason = auto((shape(chain(100)),))
    assert (name, reason) == ("serial", "1 rows a level on average, too few for 4 threads")


def test_wide_levels_are_shared(easy):
    name, reason = auto((shape(layered(3, 30)),))
    assert (name, reason) == ("level", "30 rows a level on average, shared by 4 threads")


def test_the_deeper_of_two_triangles_decides(easy):
    wide, deep = shape(layered(3, 30)), shape(chain(90))
    assert auto((wide, deep))[0] == auto((deep, wide))[0] == "serial"
    assert auto((wide, wide))[0] == "level"


def test_no_triangle_at_all_takes_serial(easy):
    assert auto(()) == ("serial", "n = 0 is below 60, too few rows to share")


def test_the_rule_decides_alike_each_time(easy):
    T = (shape(layered(4, 25)),)
    assert len({auto(T) for _ in range(20)}) == 1


@pytest.mark.parametrize(("name", "device"), sorted(algorithms()))
def test_an_algorithm_asked_for_by_name_is_taken_whatever_the_rule_says(name, device):
    taken = choose((), name, device, expected_solves=1, deterministic=False)
    assert taken == (name, "asked for")


def test_a_name_that_no_algorithm_has_lists_those_there_are():
    with pytest.raises(gpuilu.UnknownAlgorithmError, match=r"'fastest'.*'auto'.*'level', 'serial'"):
        choose((), "fastest", "cpu", expected_solves=100, deterministic=True)


def test_an_algorithm_of_another_device_is_refused_with_those_there_are():
    with pytest.raises(gpuilu.UnsupportedAlgorithmError, match="not run on 'abacus'"):
        choose((), "serial", "abacus", expected_solves=100, deterministic=True)


def test_an_algorithm_with_varying_last_bits_is_refused_unless_allowed(monkeypatch):
    varying = type("Varying", (), {"name": "varying", "deterministic": False})
    monkeypatch.setattr(base, "algorithms", lambda: {("varying", "cpu"): varying})
    with pytest.raises(gpuilu.UnsupportedAlgorithmError, match=r"deterministic=False"):
        choose((), "varying", "cpu", expected_solves=100, deterministic=True)
    allowed = choose((), "varying", "cpu", expected_solves=100, deterministic=False)
    assert allowed == ("varying", "asked for")


def test_info_tells_the_choice_and_its_reason_through_every_factory(easy):
    A = triangle(layered(3, 30))
    for M in (gpuilu.TriangularSolver(A), gpuilu.ilu0(A), gpuilu.gauss_seidel(A)):
        assert M.info.algorithm == "level"
        assert M.info.reason == "30 rows a level on average, shared by 4 threads"
    assert gpuilu.ilu0(A, expected_solves=1).info.algorithm == "serial"


def test_every_choice_solves_alike(easy):
    A = triangle(layered(3, 30))
    b = np.random.default_rng(0).random(90)
    chosen, forced = gpuilu.ilu0(A), gpuilu.ilu0(A, algorithm="serial")
    assert chosen.info.algorithm != forced.info.algorithm
    np.testing.assert_array_equal(chosen @ b, forced @ b)


# ---- on a GPU: the rule reads patterns only, wherever they are ----------------------------------


def auto_cuda(*parts, expected_solves=100):
    return choose(parts, "auto", "cuda", expected_solves=expected_solves, deterministic=True)


def test_few_rows_take_row_on_a_gpu():
    assert auto_cuda(shape(chain(1023)))[1] == "n = 1023 is below 1024: any algorithm will do"


def test_full_tiles_take_dense_block():
    assert auto_cuda(shape(dense(1024))) == ("dense_block", "32x32 tiles are at least 50% full")
    assert auto_cuda(shape(dense(1024)), shape(grid(32, 32)))[0] == "row"


def test_very_few_solves_take_row_on_a_gpu():
    narrow = shape(grid(3000, 32))
    name, reason = auto_cuda(narrow, expected_solves=4)
    assert (name, reason) == ("row", "4 expected solves repay no larger set-up")
    assert auto_cuda(narrow, expected_solves=10_000)[0] == "blocked"


def test_narrow_levels_take_strips_and_wide_ones_rows():
    name, reason = auto_cuda(shape(grid(3000, 32)), expected_solves=10_000)
    assert name == "blocked"
    assert reason == "predicted 1824 us a solve by rows, 185 in strips"
    assert auto_cuda(shape(layered(20, 500)))[1].endswith("too little to save on")


def test_the_choice_is_the_same_each_time():
    parts = shape(grid(3000, 32)), shape(grid(400, 64))
    assert len({auto_cuda(*parts, expected_solves=10_000) for _ in range(3)}) == 1


def test_few_expected_solves_cost_no_analysis(monkeypatch):
    def never(*_):
        raise AssertionError("the choice looked too closely")

    monkeypatch.setattr(dag, "_levels", never)
    monkeypatch.setattr(select, "predicted", never)
    monkeypatch.setattr(select, "predicted_us", never)
    assert auto_cuda(shape(grid(3000, 32)), expected_solves=1)[0] == "row"


def with_long_row(P):
    last = sp.csr_array(np.ones((1, P.shape[0])))
    return sp.csr_array(sp.block_array([[P, None], [last, sp.csr_array((1, 1))]]))


@pytest.mark.parametrize("pattern", [grid(3000, 32), with_long_row(grid(3000, 32))])
def test_the_choice_and_the_plan_share_one_level_analysis(monkeypatch, pattern):
    counted, levels = [], dag._levels
    monkeypatch.setattr(dag, "_levels", lambda T: counted.append(T) or levels(T))
    T = shape(pattern)
    with dag.remembered():
        auto_cuda(T)
        with dag.remembered():  # as a measurement inside a set-up does
            dag.levels(cut_long_rows(T).pattern)
        dag.levels(cut_long_rows(T).pattern)
    assert len(counted) == 1
    dag.levels(cut_long_rows(T).pattern)
    assert len(counted) == 2
