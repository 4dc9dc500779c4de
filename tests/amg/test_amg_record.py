"""The record of a comparison: readable like any other, with where and what it was measured on."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpuilu.amg import compare
from gpuilu.bench.record import load
from gpuilu.sources import laplacian

SIDE = compare.Side("pyamg_cpu", "jacobi", 7, 20.0, 0.0, (3.0, 1.0, 2.0), (1.0, 1e-9), 1e-16, 100)


def test_a_record_has_a_row_for_each_side_and_phase(tmp_path):
    ours = replace(SIDE, algorithm="amg_cpu", move_ms=5.0, solve_ms=(1.0, 1.0, 1.0))
    A = laplacian((4, 4))
    ml = SimpleNamespace(levels=[SimpleNamespace(A=A)])
    ilu0 = replace(SIDE, algorithm="ilu0", smoother="", solve_ms=(4.0,))
    compare.write_record(tmp_path / "x.json", "poisson", ml, [(SIDE, ours)], [ilu0])
    record = load(tmp_path / "x.json")
    assert record.header["driver"] is None
    found = {(row["algorithm"], row["phase"]): row["ms"] for row in record.rows}
    assert found == {
        ("pyamg_cpu", "solve"): 2.0,
        ("pyamg_cpu", "time_to_solution"): pytest.approx(22.0),
        ("amg_cpu", "solve"): 1.0,
        ("amg_cpu", "time_to_solution"): pytest.approx(26.0),
        ("ilu0", "solve"): 4.0,
        ("ilu0", "time_to_solution"): 24.0,
    }
    assert {row["case"] for row in record.rows} == {"poisson jacobi", "poisson"}
    assert {(row["n"], row["nnz"]) for row in record.rows} == {(16, 64)}


def test_a_table_has_a_line_for_each_side_and_one_for_what_is_no_multigrid():
    ours = replace(SIDE, algorithm="amg_cpu", solve_ms=(1.0,))
    ilu0 = replace(SIDE, algorithm="ilu0", smoother="", solve_ms=(4.0,))
    lines = compare.table([(SIDE, ours)], [ilu0]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["jacobi", "pyamg_cpu", "7", "20.0", "0.0", "2.0"],
        ["jacobi", "amg_cpu", "7", "20.0", "0.0", "1.0", "2.0", "x"],
        ["ilu0", "7", "20.0", "0.0", "4.0"],
    ]


def test_cg_without_multigrid_solves_the_same_system_to_the_same_tolerance():
    A = laplacian((12, 12))
    side = compare.without_multigrid(A, np.ones(144), device="cpu", tol=1e-8, repeats=2)
    assert (side.algorithm, side.smoother, len(side.solve_ms)) == ("ilu0", "", 2)
    assert side.residuals[0] == 1.0
    assert side.residuals[-1] <= 1e-8 < side.residuals[-2]
    assert side.iterations == len(side.residuals) - 1
    assert side.backward_error < 1e-8


@pytest.mark.parametrize(("first_s", "solves"), [(0.0, 4), (0.1, 2), (0.3, 1)])
def test_slow_solves_of_pyamg_are_repeated_less(first_s, solves, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(compare, "SLOW_MS", 50.0)
    monkeypatch.setattr(compare, "VERY_SLOW_MS", 200.0)
    monkeypatch.setattr(compare.time, "perf_counter", lambda: clock[0])
    A = laplacian((3, 3))

    class Solver:
        levels = (SimpleNamespace(A=A),)

        def solve(self, b, residuals=None, **options):
            clock[0] += first_s
            if residuals is not None:
                residuals += [2.0, 1e-9]
            return np.ones(9)

    ml = Solver()
    side = compare._solved(replace(SIDE, solve_ms=()), ml, ml, np.ones(9), 1e-8, "V", 4)
    assert len(side.solve_ms) == solves
    ours = compare._solved(replace(SIDE, solve_ms=()), Solver(), ml, np.ones(9), 1e-8, "V", 4)
    assert len(ours.solve_ms) == 4


def test_matrices_of_blocks_of_one_become_csr_and_others_stay():
    pyamg = pytest.importorskip("pyamg")
    A = pyamg.gallery.poisson((40, 40), format="csr")
    ml = pyamg.smoothed_aggregation_solver(A)
    before = [level.A.toarray() for level in ml.levels]
    assert ml.levels[1].A.format == "bsr"
    compare.scalar_as_csr(ml)
    assert {getattr(level, k).format for level in ml.levels[:-1] for k in "APR"} == {"csr"}
    for level, dense in zip(ml.levels, before, strict=True):
        np.testing.assert_array_equal(level.A.toarray(), dense)
    A, B = pyamg.gallery.linear_elasticity((10, 10), format="bsr")
    ml = compare.scalar_as_csr(pyamg.smoothed_aggregation_solver(A, B=B))
    assert ml.levels[0].A.blocksize == (2, 2)
