"""The examples run as they stand, on small grids, and print what they promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import gpuilu

ROOT = Path(gpuilu.__file__).parent.parent
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not installed")


def run(name, *arguments):
    """(exit code, stdout, stderr) of an example in a process of its own."""
    found = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": found},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout, done.stderr


def iterations(output):
    """{preconditioner: iterations} of the table that an example printed."""
    rows = re.findall(r"^(\w+) +(\d+) .* \d\.\de[-+]\d\d(.*)$", output, re.MULTILINE)
    assert all(not rest.strip() for *_, rest in rows), output
    return {name: int(count) for name, count, _ in rows}


@pytest.fixture
def matrix_file(tmp_path):
    rng = np.random.default_rng(0)
    A = sp.random_array((200, 200), density=0.02, rng=rng) + 3 * sp.eye_array(200)
    scipy.io.mmwrite(tmp_path / "A.mtx", A.tocoo())
    return tmp_path / "A.mtx"


GRIDS = {
    "laplacian_2d.py": ["--grid", 20, 24],
    "laplacian_3d.py": ["--grid", 8, 9, 10],
    "convection_diffusion.py": ["--grid", 20],
}


@pytest.mark.parametrize("name", GRIDS)
def test_an_example_shows_fewer_iterations_with_ilu0_and_when_it_has_paid(name):
    code, output, error = run(name, *GRIDS[name])
    assert code == 0, error
    counts = iterations(output)
    assert set(counts) == {"none", "jacobi", "ilu0"}
    assert counts["ilu0"] < counts["none"] / 2
    assert re.search(r"^(cg|gmres) on cpu .*set-up.*apply.*solution.*true residual", output, re.M)
    assert len(re.findall(r"^The set-up of ilu0 .* against (none|jacobi)", output, re.M)) == 2


@pytest.mark.parametrize("name", ["laplacian_2d.py", "laplacian_3d.py"])
def test_solver_and_preconditioner_are_options(name):
    options = ["--solver", "bicgstab", "--preconditioner", "ssor"]
    code, output, error = run(name, *GRIDS[name], *options)
    assert code == 0, error
    assert "bicgstab on cpu" in output
    assert iterations(output)["ssor"] < iterations(output)["none"]


def test_any_matrix_market_file_is_solved_by_the_solver_that_fits(matrix_file):
    code, output, error = run("matrix_market.py", matrix_file)
    assert code == 0, error
    assert "gmres: the matrix is not Hermitian" in output
    assert iterations(output)["ilu0"] < iterations(output)["none"]


def test_curves_are_saved(tmp_path, matrix_file):
    pytest.importorskip("matplotlib")
    code, _, error = run("matrix_market.py", matrix_file, "--plot", tmp_path / "curves.png")
    assert code == 0, error
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("content", [None, "no matrix"])
def test_a_bad_file_is_one_line_and_no_traceback(tmp_path, content):
    if content:
        (tmp_path / "A.mtx").write_text(content)
    code, _, error = run("matrix_market.py", tmp_path / "A.mtx")
    assert code == 1
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_every_example_is_listed_in_the_readme_of_the_folder():
    text = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"`{path.name}" not in text] == []


@pytest.mark.parametrize(
    ("name", "options", "smoothers"),
    [
        ("amg_poisson.py", ["--grid", 20, 24], ("jacobi", "chebyshev", "gauss_seidel")),
        ("amg_poisson.py", ["--grid", 8, 9, 10, "--hierarchy", "rs", "--cycle", "W"], ("jacobi",)),
        ("amg_elasticity.py", ["--grid", 10, 12], ("block_jacobi", "block_gauss_seidel")),
    ],
)
def test_a_moved_hierarchy_needs_as_many_iterations_as_pyamgs(name, options, smoothers, tmp_path):
    pytest.importorskip("pyamg")
    options = [*options, "--device", "cpu", "--repeats", 1]
    record = tmp_path / "record.json"
    written = ["--json", record] if name == "amg_poisson.py" else []
    code, output, error = run(name, *options, *written)
    assert code == 0, error
    counts = re.findall(r"^(\w+) +(pyamg_cpu|amg_cpu) +(\d+) ", output, re.M)
    for smoother in smoothers:
        pyamgs, ours = (int(count) for found, _, count in counts if found == smoother)
        assert pyamgs == ours > 1
    if written:
        rows = json.loads(record.read_text())["rows"]
        assert len(rows) == 2 * len(counts) + 2
        assert [row["iterations"] > 1 for row in rows if row["algorithm"] == "ilu0"] == [True] * 2
        assert {row["phase"] for row in rows} == {"solve", "time_to_solution"}
        assert all(row["q1_ms"] <= row["ms"] <= row["q3_ms"] for row in rows)
        assert all(row["backward_error"] < 1e-6 for row in rows)


def test_the_residuals_of_both_hierarchies_are_plotted(tmp_path):
    pytest.importorskip("pyamg")
    pytest.importorskip("matplotlib")
    path = tmp_path / "residuals.png"
    options = ["--grid", 12, 12, "--device", "cpu", "--repeats", 1, "--plot", path]
    code, _, error = run("amg_elasticity.py", *options)
    assert code == 0, error
    assert path.read_bytes().startswith(b"\x89PNG")
