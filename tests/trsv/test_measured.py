"""algorithm="measure": the fastest of what can solve, with the times of all."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from cases import as_triangle, chain, layered, poisson, triangle

import gpuilu
from gpuilu import dag
from gpuilu.backend import cuda
from gpuilu.relaxation.gauss_seidel import plan_for
from gpuilu.trsv import measured
from gpuilu.trsv.base import Plan
from gpuilu.trsv.level_launches import LAUNCH_US
from gpuilu.trsv.level_row import LevelRows
from gpuilu.trsv.row import Row
from gpuilu.trsv.select import choose
from gpuilu.trsv.serial import Serial

A = poisson(20, 20)
CPU_REASON = re.compile(r"measured ms a solve: (\w+) (\d+\.\d{3}), (\w+) (\d+\.\d{3})$")


def shape(P):
    return as_triangle(triangle(P))


@pytest.mark.parametrize(
    "make",
    [
        gpuilu.ilu0,
        gpuilu.gauss_seidel,
        gpuilu.ssor,
        lambda A, **words: gpuilu.sor(A, omega=1.2, **words),
        lambda A, **words: gpuilu.TriangularSolver(sp.tril(A), **words),
        lambda A, **words: gpuilu.from_factors(sp.tril(A), sp.triu(A), **words),
    ],
)
def test_every_factory_measures_and_tells_the_times_in_order(make):
    M = make(A, algorithm="measure", device="cpu")
    first, t, second, u = CPU_REASON.fullmatch(M.info.reason).groups()
    assert {first, second} == {"serial", "level"}
    assert M.info.algorithm == first
    assert float(t) <= float(u)
    b = np.arange(400.0)
    np.testing.assert_array_equal(M @ b, make(A, algorithm="serial", device="cpu") @ b)


def test_a_relaxation_measures_too():
    x = np.zeros(400)
    gpuilu.relax(A, x, np.ones(400), algorithm="measure")
    y = np.zeros(400)
    gpuilu.relax(A, y, np.ones(400), algorithm="serial")
    np.testing.assert_array_equal(x, y)
    assert plan_for(shape(chain(9)), "measure", "cpu").name in ("serial", "level")


def test_no_rows_are_left_to_the_rule():
    M = gpuilu.ilu0(sp.csr_array((0, 0)), algorithm="measure")
    assert M.info.algorithm == "serial"


def test_a_copy_keeps_the_choice_and_a_move_measures_again(monkeypatch):
    M = gpuilu.ilu0(A, algorithm="measure", device="cpu")
    asked = []
    monkeypatch.setattr(
        "gpuilu.trsv.select.fastest", lambda *a, **k: asked.append(a) or ("serial", "")
    )
    assert M.copy().info.reason == M.info.reason
    assert asked == []
    monkeypatch.setattr(cuda, "mover", lambda device: np.copy)
    M._application.to("cpu")
    assert len(asked) == 1


# ---- on a GPU: stand-ins with times of their own -------------------------------------------------

MADE: list[str] = []


def stand_in(name, ms, *, predicted=0.0, error=None, check=None, **attributes):
    """An algorithm of a GPU that takes `ms`; it is registered nowhere."""

    class StandIn(Serial):
        device = "cuda"

        def __init__(self, T):
            MADE.append(name)
            if error is not None:
                raise error
            super().__init__(T)

        def solve(self, x, b=None):
            CLOCK[0] += ms

        def check(self):
            if check is not None:
                raise check

        @classmethod
        def predicted_us(cls, T):
            return 1e3 * predicted

    StandIn.name = name
    for key, value in attributes.items():
        setattr(StandIn, key, value)
    return StandIn


CLOCK = [0.0]


@pytest.fixture
def measure(monkeypatch):
    """Choose among stand-ins on a clock of their own."""

    def elapsed(work):
        before = CLOCK[0]
        work()
        return CLOCK[0] - before

    monkeypatch.setattr(cuda, "elapsed_ms", elapsed)

    def chosen(*plans, deterministic=True, parts=1):
        MADE.clear()
        table = {(plan.name, plan.device): plan for plan in plans} | {("serial", "cpu"): Serial}
        monkeypatch.setattr(measured, "algorithms", lambda: table)
        triangles = (shape(chain(5)),) * parts
        return choose(triangles, "measure", "cuda", expected_solves=1, deterministic=deterministic)

    return chosen


def test_the_fastest_is_kept_and_all_times_are_told(measure):
    name, reason = measure(stand_in("a", 3.0), stand_in("b", 2.0), stand_in("c", 5.0))
    assert name == "b"
    assert reason == "measured ms a solve: b 2.000, a 3.000, c 5.000"


def test_triangles_are_timed_together(measure):
    assert measure(stand_in("a", 3.0), parts=2)[1] == "measured ms a solve: a 6.000"


def test_vendors_approximations_and_varying_bits_take_no_part(measure):
    plans = (
        stand_in("a", 3.0),
        stand_in("vendor", 1.0, vendor=True),
        stand_in("approximate", 1.0, exact=False),
        stand_in("varying", 2.0, deterministic=False),
    )
    assert measure(*plans)[1] == "measured ms a solve: a 3.000"
    assert measure(*plans, deterministic=False)[0] == "varying"
    assert MADE == ["a", "varying"]


def test_what_cannot_solve_or_stalls_is_left_out(measure):
    name, reason = measure(
        stand_in("a", 3.0),
        stand_in("refuses", 1.0, error=gpuilu.UnsupportedAlgorithmError("too large")),
        stand_in("full", 1.0, error=MemoryError()),
        stand_in("stalls", 1.0, check=gpuilu.SolveStalledError("no progress")),
    )
    assert (name, reason) == ("a", "measured ms a solve: a 3.000; left out: full, refuses, stalls")


def test_nothing_that_can_solve_is_an_error(measure):
    with pytest.raises(gpuilu.UnsupportedAlgorithmError, match=r"none of \['full'\]"):
        measure(stand_in("full", 1.0, error=MemoryError()))


def test_what_is_predicted_to_be_hopeless_is_never_built(measure):
    slow = stand_in("slow", 1.0, predicted=8.1)
    name, reason = measure(slow, stand_in("a", 2.0, predicted=1.0))
    assert (name, reason) == ("a", "measured ms a solve: a 2.000; left out: slow")
    assert MADE == ["a"]
    assert measure(slow, stand_in("a", 2.1, predicted=1.0))[0] == "slow"


def test_what_turns_out_hopeless_is_timed_once(measure):
    before = CLOCK[0]
    measure(stand_in("a", 1.0), stand_in("b", 100.0))
    assert CLOCK[0] - before == pytest.approx((1 + measured.ROUNDS) * 1.0 + 2 * 100.0)


def test_a_launch_a_level_is_what_level_algorithms_predict():
    assert LevelRows.predicted_us(shape(chain(1000))) == 1000 * LAUNCH_US
    assert Plan.predicted_us(shape(chain(9))) == 0
    assert Row.predicted_us(shape(layered(2, 10))) < LevelRows.predicted_us(shape(layered(20, 1)))


def test_candidates_share_one_level_analysis(measure, monkeypatch):
    counted = []
    levels = dag._levels
    monkeypatch.setattr(dag, "_levels", lambda T: counted.append(T) or levels(T))

    def reads_levels(T):
        return float(dag.levels(T).n_levels)

    plans = [stand_in(name, 1.0) for name in "ab"]
    for plan in plans:
        plan.predicted_us = staticmethod(reads_levels)
    measure(*plans)
    assert len(counted) == 1
