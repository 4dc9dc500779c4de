"""The record of a comparison: readable like any other, with where and what it was measured on."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpuilu.amg import compare
from gpuilu.bench.record import load
from gpuilu.sources import laplacian

SIDE = compare.Side("pyamg_cpu", "jacobi", 7, 20.0, 0.0, (3.0, 1.0, 2.0), (1.0, 1e-9), 1e-16, 100)


def test_a_record_has_a_row_for_each_side_and_phase(tmp_path):
    ours = replace(SIDE, algorithm="amg_cpu", move_ms=5.0, solve_ms=(1.0, 1.0, 1.0))
    A = laplacian((4, 4))
    ml = SimpleNamespace(levels=[SimpleNamespace(A=A)])
    compare.write_record(tmp_path / "x.json", "poisson", ml, [(SIDE, ours)])
    record = load(tmp_path / "x.json")
    assert record.header["driver"] is None
    found = {(row["algorithm"], row["phase"]): row["ms"] for row in record.rows}
    assert found == {
        ("pyamg_cpu", "solve"): 2.0,
        ("pyamg_cpu", "time_to_solution"): pytest.approx(22.0),
        ("amg_cpu", "solve"): 1.0,
        ("amg_cpu", "time_to_solution"): pytest.approx(26.0),
    }
    assert {row["case"] for row in record.rows} == {"poisson jacobi"}
    assert {(row["n"], row["nnz"]) for row in record.rows} == {(16, 64)}
