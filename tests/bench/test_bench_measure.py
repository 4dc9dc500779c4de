"""What is timed: systems, their checks, the race of the contenders, and failures that stay in."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
import scipy.sparse as sp

import gpuilu
from gpuilu.backend import cuda, devices, partition
from gpuilu.bench import analyses, measure, prepare, products, race, runs
from gpuilu.bench.cases import CASES, Case
from gpuilu.bench.measure import Solver
from gpuilu.bench.measure import measure as rows_of
from gpuilu.bench.record import Record
from gpuilu.bench.systems import Problem, System, flop
from gpuilu.dag import level_sets
from gpuilu.trsv.base import Plan, algorithms
from gpuilu.trsv.serial import Serial

L3 = sp.csr_array(np.array([[2.0, 0, 0], [1, 4, 0], [0, 3, 5]]))
A3 = sp.csr_array(np.array([[2.0, 7, 0], [1, 4, 0], [0, 3, 5]]))


def system(A=L3, **words):
    return System(Problem("case", **words), A, "cpu")


def solved(system):
    """[b, x] or [b, z, x] of a system by plain substitution."""
    solver = Solver("serial", system, Serial)
    solver.build()
    solver.run()
    return solver.vectors


@pytest.fixture
def quick(monkeypatch):
    """Few rounds."""
    monkeypatch.setattr(race, "ROUNDS", 3)
    monkeypatch.setattr(race, "BURST", 2)


# ---- systems ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("A", "op", "trans", "dense"),
    [
        (L3, "lower", "N", L3.toarray()),
        (L3, "upper", "N", L3.toarray().T),
        (L3, "lower", "T", L3.toarray().T),
        (L3, "apply", "N", L3.toarray() @ L3.toarray().T),
        (A3, "upper", "N", np.triu(A3.toarray())),
        (A3, "apply", "N", np.tril(A3.toarray()) @ np.triu(A3.toarray())),
        (A3, "apply", "T", (np.tril(A3.toarray()) @ np.triu(A3.toarray())).T),
    ],
)
@pytest.mark.parametrize("nrhs", [1, 3])
def test_a_system_is_the_triangle_or_the_two_that_its_words_say(A, op, trans, dense, nrhs):
    S = system(A, op=op, trans=trans, nrhs=nrhs)
    b, *_, x = solved(S)
    assert b.shape == ((3,) if nrhs == 1 else (3, nrhs))
    np.testing.assert_allclose(dense @ x, b)


def test_a_system_counts_entries_and_levels_of_what_is_solved():
    assert (system().n, system().nnz, system().n_levels) == (3, 5, 3)
    both = system(A3, op="apply")
    assert (both.nnz, both.n_levels) == (A3.nnz, 3 + 2)
    assert system().row() == {
        "case": "case",
        **{"n": 3, "nnz": 5, "n_levels": 3},
        **{"dtype": "float64", "nrhs": 1, "op": "lower", "trans": "N"},
    }


def test_the_yardstick_is_that_of_the_design_and_of_its_card_alone():
    S = System(Problem("g2d5"), CASES["g2d5_1024x1024"].build(0.01), "cpu")
    assert S.floor_ms("NVIDIA H100 80GB HBM3") == pytest.approx(S.n_levels * 0.03e-3)
    T = System(Problem("random"), CASES["kkt_100"].build(0.1), "cpu")
    assert T.floor_ms("NVIDIA H200") == pytest.approx((12 * T.nnz + 20 * T.n) / 2.9e9)
    assert S.floor_ms("Tesla V100") is None


def test_the_backward_error_is_componentwise_and_that_of_the_worse_triangle():
    S = system(A3, op="apply")
    vectors = solved(S)
    assert S.backward_error(vectors) <= S.bound()
    vectors[2][1] *= 1.5
    T, x, z = np.triu(A3.toarray()), vectors[2], vectors[1]
    expected = abs(z - T @ x) / (abs(T) @ abs(x) + abs(z))
    assert S.backward_error(vectors) == pytest.approx(expected.max())
    vectors[2][0] = np.nan
    assert not S.backward_error(vectors) <= S.bound()


@pytest.mark.parametrize("words", [{"op": "what"}, {"trans": "what"}])
def test_unknown_words_are_an_error(words):
    with pytest.raises(gpuilu.OptionError):
        system(**words)


# ---- the race -----------------------------------------------------------------------------------


def test_what_an_algorithm_predicts_is_told_where_it_does(quick, monkeypatch):
    def predicted(cls, T):
        return 1500.0 if cls.name == "serial" else float("inf")

    monkeypatch.setattr(Plan, "predicted_us", classmethod(predicted))
    rows = rows_of(system(op="apply"), ["serial", "level"], budget_s=1, card="")
    told = {(r["algorithm"], r["phase"]): r.get("predicted_ms") for r in rows}
    assert told.pop(("serial", "solve")) == 3.0
    assert set(told.values()) == {None}


def test_every_algorithm_of_the_device_is_measured_and_auto_is_what_it_chooses(quick):
    names = runs.names_on("cpu")
    assert names[0] == "auto"
    assert set(names[1:]) == {name for name, device in algorithms() if device == "cpu"}
    rows = rows_of(system(CASES["g3d7_128"].build(1e-3)), names, budget_s=1, card="")
    assert {(r["algorithm"], r["phase"]) for r in rows} == {
        *((name, phase) for name in names for phase in ("setup", "solve")),
        ("auto", "setup_once"),
    }
    assert not [r for r in rows if "error" in r]
    for r in rows:
        assert 0 <= r["q1_ms"] <= r["ms"] <= r["q3_ms"]
        assert r["nbytes"] > 0
        assert r["backward_error"] < 1e-15
    auto, chosen = (
        next(r for r in rows if (r["algorithm"], r["phase"]) == (name, "solve"))
        for name in ("auto", "serial")
    )
    assert auto["chosen"] == "serial"
    assert auto["reason"]
    assert auto["ms"] == chosen["ms"]


def test_auto_alone_is_measured_too(quick):
    rows = rows_of(system(), ["auto"], budget_s=1, card="")
    assert [(r["algorithm"], r["chosen"]) for r in rows] == [("auto", "serial")] * 3
    assert {r["phase"]: r["expected_solves"] for r in rows} == {
        "setup": 100,
        "setup_once": 1,
        "solve": 100,
    }


class Broken(Serial):
    """Stalls at the third solve: after the two of the start. (Without a name: no algorithm.)"""

    def __init__(self, T):
        super().__init__(T)
        self.count = 0

    def solve(self, x, b=None):
        self.count += 1
        if self.count > 2:
            raise gpuilu.SolveStalledError("no progress\nsecond line")
        super().solve(x, b)


def contenders(*classes):
    S = system()
    return [Solver(c.__name__, S, c) for c in classes]


def test_a_failure_keeps_its_name_and_does_not_stop_the_others(quick):
    broken, serial = contenders(Broken, Serial)
    race.race([broken, serial], 1.0)
    assert race.failure(broken) == {"error": "SolveStalledError", "message": "no progress"}
    assert race.failure(serial) == {}
    assert serial.setups_ms
    assert race.summary([]) == {"ms": None, "q1_ms": None, "q3_ms": None}


def test_a_wrong_result_is_a_failure_unless_the_algorithm_says_that_it_approximates(quick):
    class Wrong(Serial):
        def solve(self, x, b=None):
            super().solve(x, b)
            x[-1] += 1

    class Approximate(Wrong):
        exact = False

    wrong, approximate = contenders(Wrong, Approximate)
    race.race([wrong, approximate], 1.0)
    assert race.failure(wrong)["error"] == "InaccurateError"
    assert wrong.backward_error == approximate.backward_error > 0.01
    assert race.failure(approximate) == {}


class Slow(Serial):
    """Counts its solves, which take 30 ms. (Without a name: no algorithm.)"""

    count = 0

    def solve(self, x, b=None):
        Slow.count += 1
        time.sleep(0.03)
        super().solve(x, b)


def test_a_slow_algorithm_gets_fewer_rounds_but_at_least_one(monkeypatch):
    slow, serial = contenders(Slow, Serial)
    monkeypatch.setattr(race, "ROUNDS", 8)
    race.race([slow, serial], 0.1)
    assert len(slow.solves_ms) == 1
    assert slow.solves_ms[0] >= 30
    assert len(slow.setups_ms) >= race.FEWEST_REBUILDS
    assert len(serial.solves_ms) == 8 * race.BURST


def test_an_algorithm_too_slow_for_its_share_solves_only_twice_in_all(monkeypatch):
    monkeypatch.setattr(Slow, "count", 0)
    (slow,) = contenders(Slow)
    race.race([slow], 0.01)
    assert Slow.count == 2, "one to compile and check, one that is the measurement"
    assert len(slow.solves_ms) == 1
    assert slow.solves_ms[0] >= 30
    assert 0 < race.summary(slow.setups_ms)["ms"] < 10


class Lazy(Serial):
    """Puts 20 ms off to the first solve. (Without a name: no algorithm.)"""

    def __init__(self, T):
        super().__init__(T)
        time.sleep(0.01)
        self.ready = False

    def solve(self, x, b=None):
        if not self.ready:
            time.sleep(0.02)
            self.ready = True
        super().solve(x, b)


def test_work_put_off_to_the_first_solve_belongs_to_the_set_up(quick):
    (lazy,) = contenders(Lazy)
    race.race([lazy], 2.0)
    assert len(lazy.setups_ms) == race.REBUILDS
    assert race.summary(lazy.setups_ms)["ms"] >= 29
    assert race.summary(lazy.solves_ms)["ms"] < 10


def test_the_vendor_is_not_charged_for_the_conversion_into_its_format(quick):
    class Vendor(Lazy):
        vendor = True

    (vendor,) = contenders(Vendor)
    race.race([vendor], 1.0)
    assert 15 <= race.summary(vendor.setups_ms)["ms"] < 29


def test_a_cheap_set_up_is_timed_a_few_times_and_a_dear_one_once_when_the_time_is_spent():
    class Dear(Serial):
        def __init__(self, T):
            super().__init__(T)
            time.sleep(0.11)

    dear, serial = contenders(Dear, Serial)
    race.race([dear, serial], 1e-6)
    assert len(dear.setups_ms) == 1
    assert dear.setups_ms[0] >= 110
    assert len(serial.setups_ms) == race.FEWEST_REBUILDS


def test_a_contender_is_timed_in_the_phases_that_it_names(quick):
    class Solves(Solver):
        timed = frozenset({"solve"})

    class SetsUp(Solver):
        timed = frozenset({"setup"})

    solves, sets_up = (kind("serial", system(), Serial) for kind in (Solves, SetsUp))
    race.race([solves, sets_up], 1.0)
    assert (bool(solves.solves_ms), bool(solves.setups_ms)) == (True, False)
    assert (bool(sets_up.solves_ms), bool(sets_up.setups_ms)) == (False, True)


def test_the_progress_names_failures_but_not_what_is_unsupported():
    def row(**words):
        return {"algorithm": "row", "phase": "solve", "ms": 1.0, **words}

    good, stalled = row(algorithm="serial"), row(error="SolveStalledError")
    refused = row(algorithm="level", error="UnsupportedAlgorithmError")
    assert runs._brief([good, stalled, refused]) == "serial 1 ms, row SolveStalledError"


# ---- products -----------------------------------------------------------------------------------


def test_products_and_transposes_are_measured_beside_the_solves(quick):
    rows = products.measure_products(system(), budget_s=1)
    assert [(r["op"], r["algorithm"], r["phase"]) for r in rows] == [
        ("spmv", "scipy", "run"),
        ("spgemm", "scipy", "run"),
        ("transpose", "scipy", "run"),
        ("transpose", "gpuilu", "run"),
    ]
    assert all(r["ms"] > 0 and "error" not in r for r in rows)
    assert rows[1]["flop"] == 2 * (1 * 2 + 2 * 2 + 1 * 2)


def test_the_operations_of_a_product_are_those_of_its_terms():
    T = system().triangles[0]
    dense = (L3.toarray() != 0).astype(int)
    assert flop(T) == 2 * (dense @ dense).sum()


# ---- analyses -----------------------------------------------------------------------------------


def test_the_steps_of_a_set_up_are_measured_each_alone(quick):
    rows = analyses.measure_analyses(system(), budget_s=1)
    assert [(r["op"], r["algorithm"], r["phase"]) for r in rows] == [
        ("in_degree", "gpuilu", "run"),
        ("count_levels", "self_scheduled", "run"),
        ("levels", "self_scheduled", "run"),
        ("levels", "kahn", "run"),
        ("transpose", "scipy", "run"),
        ("transpose", "gpuilu", "run"),
    ]
    assert all(r["ms"] > 0 and "error" not in r for r in rows)


def test_analyses_that_do_not_agree_are_a_failure(quick, monkeypatch):
    wrong = np.array([0, 1, 1], np.int32)
    monkeypatch.setattr(analyses, "kahn_levels", lambda T, *t: level_sets(wrong))
    rows = analyses.measure_analyses(system(), budget_s=1)
    assert {r["algorithm"]: r["error"] for r in rows if "error" in r} == {
        "kahn": "LevelsDifferError"
    }


# ---- runs ---------------------------------------------------------------------------------------

SMALL = {"scale": 1e-3, "budget_s": 0.01}


def ran(record, cases=("road_1M", "band64_60k"), told=None, **words):
    request = runs.Request("cpu", ("serial",), **{**SMALL, **words})
    found = [CASES[c] for c in cases]
    with prepare.prepared(found, SMALL["scale"], jobs=1) as store:
        failed = runs.run(request, found, store, record, lambda t: told is None or told.append(t))
    return failed


def test_a_run_measures_what_the_record_lacks_and_nothing_else(tmp_path):
    record = Record(
        tmp_path / "a.json",
        dict.fromkeys(("schema", "commit", "date", "card", "driver", "cupy"), ""),
    )
    told = []
    assert ran(record, told=told) == 0
    assert len(told) == 2
    assert {r["case"] for r in record.rows} == {"road_1M@0.001", "band64_60k@0.001"}
    before = list(record.rows)
    ran(record, told=told)
    assert len(told) == 2
    assert record.rows == before
    ran(record, told=told, dtypes=("float64", "float32"), products=True)
    assert len(told) == 2 + 4
    assert record.rows[: len(before)] == before
    for _ in range(2):
        ran(record, told=told, analyses=True)
        assert len(told) == 2 + 4 + 2
    assert {"levels", "in_degree"} <= {r["op"] for r in record.rows}


def test_a_case_that_cannot_be_built_is_told_and_the_next_is_measured():
    def broken(scale):
        raise MemoryError("too large")

    record = Record(None, {"card": ""})
    cases = [Case("broken", ("files",), "", broken), CASES["road_1M"]]
    request = runs.Request("cpu", ("serial",), **SMALL)
    told = []
    with prepare.prepared(cases[1:], 1e-3, jobs=1) as store:
        assert runs.run(request, cases, store, record, told.append) == 1
    assert "MemoryError: too large" in told[0]
    assert {r["case"] for r in record.rows} == {"road_1M@0.001"}


@pytest.mark.parametrize(
    "words",
    [{"dtypes": ("int8",)}, {"ops": ("what",)}, {"trans": "X"}, {"nrhs": 0}, {"shares": (0.5,)}],
)
def test_a_request_that_makes_no_sense_is_an_error(words):
    with pytest.raises(gpuilu.OptionError):
        runs.Request("cpu", ("serial",), **words)


def test_an_unknown_algorithm_is_an_error_that_lists_the_known():
    with pytest.raises(gpuilu.UnknownAlgorithmError, match="auto, level, serial"):
        runs.names_on("cpu", ["what"])


# ---- building ahead -----------------------------------------------------------------------------


def test_cases_built_by_processes_are_those_built_here(tmp_path):
    cases = [CASES["road_1M"], CASES["g3d7_128"]]
    told = []
    with prepare.prepared(cases, 1e-3, folder=tmp_path, jobs=2, progress=told.append) as store:
        assert all(case in store for case in cases)
        for case in cases:
            assert (store.load(case) != case.build(1e-3)).nnz == 0
    assert len(told) == 3
    with prepare.prepared(cases, 1e-3, folder=tmp_path, jobs=2, progress=told.append) as store:
        assert (store.load(cases[0]) != cases[0].build(1e-3)).nnz == 0
    assert len(told) == 3, "they were there already"


def test_a_damaged_file_is_built_again(tmp_path):
    store = prepare.Store(tmp_path, 1e-3)
    case = CASES["road_1M"]
    store.load(case)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:200])
    assert (store.load(case) != case.build(1e-3)).nnz == 0
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# ---- two solves in one go -----------------------------------------------------------------------


class Joined:
    """Both solves of a pair, counted."""

    def __init__(self, first, second, error=0.0):
        self.parts, self.error, self.runs = (first, second), error, 0

    def solve(self, x, b):
        self.runs += 1
        x[...] = b
        for plan in self.parts:
            plan.solve(x)
        x += self.error

    def check(self):
        pass


def joining(error=0.0):
    """`serial` as an algorithm that joins, which nothing registers."""

    class Joining(Serial):
        def followed_by(self, other):
            return Joined(self, other, error)

    return Joining


def test_an_apply_is_timed_as_an_operator_does_it_and_both_its_parts_are_checked():
    problem = system(A3, op="apply")
    solver, apart = Solver("joining", problem, joining()), solved(problem)
    solver.start()
    assert solver.joined.runs == 2
    for x, y in zip(solver.vectors, apart, strict=True):
        np.testing.assert_array_equal(x, y)
    assert solver.backward_error <= problem.bound()
    solver.release()
    assert solver.joined is None


def test_a_joined_solve_that_is_wrong_is_found():
    solver = Solver("joining", system(A3, op="apply"), joining(error=1e-3))
    with pytest.raises(measure.InaccurateError):
        solver.start()


# ---- shares of a card ---------------------------------------------------------------------------


class Stream:
    """Stands for a CuPy stream."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def test_grids_are_sized_by_the_multiprocessors_that_a_stream_owns(monkeypatch):
    monkeypatch.setattr(devices, "all_multiprocessors", lambda device: 132)
    assert cuda.multiprocessors(0) == 132
    with cuda.confined(Stream(), 32):
        assert cuda.multiprocessors(0) == 32
        with cuda.confined(Stream(), 8):
            assert cuda.multiprocessors(0) == 8
        assert cuda.multiprocessors(0) == 32
    assert cuda.multiprocessors(0) == 132


def test_the_vendor_is_measured_on_the_whole_card_and_not_on_a_part(monkeypatch, tmp_path):
    def counted(system, names, **words):
        row = {**vars(system), "n": 1, "nnz": 1, "phase": "solve", "ms": 1.0}
        return [row | {"algorithm": name} for name in names]

    monkeypatch.setattr(partition, "limited_to", lambda share: contextlib.nullcontext(33))
    monkeypatch.setattr(runs, "System", lambda problem, A, device: problem)
    monkeypatch.setattr(runs, "measure", counted)
    monkeypatch.setattr(runs, "_release", lambda device: None)
    names = ("auto", "cusparse", "row")
    request = runs.Request("cuda:0", names, shares=(0.25, 1.0), scale=1e-3)
    record, case, told = Record(None, {"card": ""}), CASES["road_1M"], []
    with prepare.prepared([case], 1e-3, folder=tmp_path) as store:
        assert runs.run(request, [case], store, record, told.append) == 0
    assert [(r.get("multiprocessors"), r["algorithm"]) for r in record.rows] == [
        *((33, name) for name in ("auto", "row")),
        *((None, name) for name in names),
    ]
    assert "cusparse" in told[0]
    assert "25% of the card" in told[1]
    assert not runs.lacks(request, case, record), "the vendor is not missing there"
    alone = runs.Request("cuda:0", ("cusparse",), shares=(0.25,), scale=1e-3)
    assert not runs.lacks(alone, case, Record(None, {"card": ""}))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_beyond_the_card_is_an_error(share):
    with (
        pytest.raises(gpuilu.OptionError, match="above 0 and at most 1"),
        partition.limited_to(share),
    ):
        pass


def test_the_driver_s_structure_has_the_size_of_its_header():
    import ctypes

    resource = partition._Resource
    assert (ctypes.sizeof(resource), resource.n_multiprocessors.offset) == (144, 96)


@pytest.mark.parametrize(
    ("library", "message"),
    [(object(), "CUDA 12.4 or newer"), (type("L", (), {"f": lambda *a: 801})(), "status 801")],
)
def test_a_driver_that_cannot_share_is_an_error(library, message, monkeypatch):
    monkeypatch.setattr(partition, "_library", lambda: library)
    with pytest.raises(gpuilu.BackendUnavailableError, match=message):
        partition._driver("f", 1, 2)
