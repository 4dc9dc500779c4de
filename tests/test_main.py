"""`gpuilu info` and `gpuilu solve`: what they print, and the exit codes that --help promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import gpuilu
from gpuilu.__main__ import main
from gpuilu.trsv.base import algorithms

ROOT = Path(gpuilu.__file__).parent.parent


@pytest.fixture
def run(capsys):
    """A function that runs a command line in this process: (exit code, stdout, stderr)."""

    def ran(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return ran


@pytest.fixture
def saved(tmp_path):
    """A function that writes a matrix as a Matrix Market file and returns its path."""

    def written(A, name="A.mtx"):
        scipy.io.mmwrite(tmp_path / name, sp.coo_array(A) if sp.issparse(A) else A)
        return tmp_path / name

    return written


def row(output, name):
    """The words of the table's row of that name."""
    return next(line.split() for line in output.splitlines() if line.startswith(f"{name} "))


# ---- the command itself --------------------------------------------------------------------------


def test_python_m_gpuilu_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "gpuilu", "solve", "laplacian2d:8"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "cg on cpu" in done.stdout


def test_the_version_is_that_of_the_package(run):
    assert run("--version")[:2] == (0, f"gpuilu {gpuilu.__version__}\n")


@pytest.mark.parametrize("command", [["--help"], ["info", "--help"], ["solve", "--help"]])
def test_help_explains_sources_and_exit_codes(command, run):
    code, output, _ = run(*command)
    assert code == 0
    assert "laplacian2d:512" in output
    assert re.search(r"exit codes:\n  0  .*\n  1  .*converge.*\n  2  ", output)


@pytest.mark.parametrize(
    "arguments",
    [[], ["what"], ["solve"], ["solve", "laplacian2d:4", "--solver", "sor"], ["info", "--what"]],
)
def test_wrong_arguments_exit_with_2_and_the_usage(arguments, run):
    code, output, error = run(*arguments)
    assert (code, output) == (2, "")
    assert error.startswith("usage: gpuilu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere.mtx"], "no such file: nowhere.mtx"),
        (["solve", "nowhere.mtx"], "no such file: nowhere.mtx"),
        (["solve", "laplacian2d:4", "--rhs", "nowhere.mtx"], "no such file: nowhere.mtx"),
        (["solve", "laplacian2d:what"], "expected 2 sizes"),
        (["solve", "laplacian2d:4", "--rtol", "0"], "expected rtol > 0"),
        (["solve", "laplacian2d:4", "--maxiter", "0"], "maxiter >= 1"),
        (["solve", "laplacian2d:4", "--restart", "0"], "restart >= 1"),
        (["solve", "laplacian2d:4", "--pivot", "what"], "pivot must be one of"),
        (["solve", "laplacian2d:4", "--missing-diagonal", "what"], "missing_diagonal must be"),
        (["solve", "laplacian2d:4", "--algorithm", "what"], "no algorithm is named 'what'"),
        (["solve", "laplacian2d:4", "--device", "what"], "device must be"),
        (["solve", "laplacian2d:4", "--omega", "1.5"], "ilu0 takes no omega"),
        (["solve", "laplacian2d:4", "--preconditioner", "sor"], "sor needs omega"),
        (["solve", "laplacian2d:4", "--preconditioner", "sor", "--omega", "2"], "omega"),
        (["solve", "laplacian2d:4", "--plot", "nowhere/curves.png"], "nowhere"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_2(arguments, message, run):
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    code, _, error = run(*arguments)
    assert code == 2
    assert error.startswith("gpuilu: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_malformed_file_is_one_line_on_stderr(run, tmp_path):
    (tmp_path / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n9 9 9\n1 1 1\n")
    code, _, error = run("info", tmp_path / "A.mtx")
    assert code == 2
    assert error.startswith(f"gpuilu: error: {tmp_path / 'A.mtx'}: claims 9 entries")


# ---- info ----------------------------------------------------------------------------------------


def test_info_without_a_source_lists_versions_and_algorithms(run):
    code, output, _ = run("info")
    assert code == 0
    for name in ("gpuilu", "numpy", "scipy", "numba", "python", "threads"):
        assert re.search(rf"^  {name} +\d", output, re.MULTILINE)
    for name, device in algorithms():
        assert re.search(rf"algorithms on {device} .*\b{name}\b", output)


INFO = {
    "symmetric": (
        sp.csr_array([[2.0, -1.0], [-1.0, 2.0]]),
        ["order     2", "4 (2.0 a row), float64", "symmetry  symmetric\n", "complete", "2 lower"],
    ),
    "unsymmetric values": (
        sp.csr_array([[2.0, -1.0], [1.0, 2.0]]),
        ["symmetric pattern, other values", "completes in"],
    ),
    "unsymmetric pattern": (sp.csr_array([[2.0, -1.0], [0.0, 2.0]]), ["symmetry  none\n"]),
    "Hermitian": (sp.csr_array([[2.0, 1j], [-1j, 2.0]]), ["symmetry  Hermitian\n"]),
    "complex symmetric": (
        sp.csr_array([[2.0, 1j], [1j, 2.0]]),
        ["complex symmetric, not Hermitian", "complex128"],
    ),
    "no diagonal": (
        sp.csr_array([[2.0, 1.0, 0], [1.0, 0, 1.0], [0, 1.0, 0]]),
        ["2 missing, the first in row 1", "ilu0      fails: row 1 has no stored diagonal entry"],
    ),
    "a zero on the diagonal": (
        sp.csr_array(([2.0, 0.0], ([0, 1], [0, 1]))),
        ["1 stored but zero, the first in row 1", "fails: the pivot in row 1 is zero"],
    ),
    "a chain": (
        sp.diags_array([-1.0, 2.0], offsets=[-1, 0], shape=(7, 7)),
        ["7 lower, 1 upper"],
    ),
}


@pytest.mark.parametrize("what", INFO)
def test_info_describes_a_matrix(what, run, saved):
    A, expected = INFO[what]
    code, output, _ = run("info", saved(A))
    assert code == 0
    for text in expected:
        assert text in output


def test_info_describes_an_empty_matrix(run, tmp_path):
    (tmp_path / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n0 0 0\n")
    assert run("info", tmp_path / "A.mtx")[0] == 0


# ---- solve ---------------------------------------------------------------------------------------


def test_solve_compares_with_and_without_the_preconditioner(run):
    code, output, _ = run("solve", "laplacian2d:20")
    assert code == 0
    assert "laplacian2d:20: n = 400, 1920 entries, float64" in output
    assert "solver cg: the matrix is Hermitian with a positive diagonal" in output
    assert "device cpu: n = 400 is below" in output
    without, with_ = row(output, "none"), row(output, "ilu0")
    assert int(with_[1]) < int(without[1])
    assert max(float(without[-1]), float(with_[-1])) < 1.1e-6
    assert re.search(r"The set-up of ilu0 (has paid|never pays).* against none", output)


@pytest.mark.parametrize("solver", ["cg", "gmres", "bicgstab"])
@pytest.mark.parametrize("name", ["jacobi", "ilu0", "gauss_seidel", "ssor"])
def test_solve_takes_every_solver_and_preconditioner(solver, name, run):
    code, output, _ = run(
        "solve", "laplacian3d:4x5x6", "--solver", solver, "--preconditioner", name
    )
    assert code == 0
    assert f"solver {solver}, as asked for" in output
    assert f"{solver} on cpu" in output
    assert row(output, name)


def test_solve_without_a_preconditioner_runs_once(run):
    code, output, _ = run("solve", "laplacian2d:6", "--preconditioner", "none")
    assert code == 0
    assert row(output, "none")
    assert "The set-up" not in output


def test_the_algorithm_asked_for_is_used(run):
    _, output, _ = run("solve", "laplacian2d:6", "--algorithm", "level")
    assert "triangular solves by 'level': asked for" in output


def test_gmres_is_chosen_where_cg_is_of_no_use(run, saved):
    A = saved(sp.diags_array([-1.5, 2.0, -0.5], offsets=[-1, 0, 1], shape=(9, 9)))
    assert "solver gmres: the matrix is not Hermitian" in run("solve", A)[1]
    _, output, _ = run("solve", A, "--solver", "cg")
    assert "solver cg, as asked for; it may fail: the matrix is not Hermitian" in output


def test_gmres_is_chosen_for_forward_sor(run):
    _, output, _ = run("solve", "laplacian2d:6", "--preconditioner", "sor", "--omega", "1.2")
    assert "solver gmres: the preconditioner is not Hermitian" in output


def test_a_run_that_does_not_converge_exits_with_1(run):
    code, output, _ = run("solve", "laplacian2d:20", "--maxiter", "2")
    assert code == 1
    assert output.count("not converged") == 2
    assert "never pays against none: it did not converge" in output


def test_the_tolerance_is_that_of_the_true_residual(run):
    _, output, _ = run("solve", "laplacian2d:20", "--rtol", "1e-10")
    assert float(row(output, "ilu0")[-1]) < 1.1e-10


def test_a_right_hand_side_comes_from_a_file(run, saved):
    b = saved(np.eye(36)[:, :1], "b.mtx")
    assert run("solve", "laplacian2d:6", "--rhs", b)[0] == 0
    code, _, error = run("solve", "laplacian2d:7", "--rhs", b)
    assert code == 2
    assert "expected b of shape (49,)" in error


def test_a_missing_diagonal_is_an_error_until_it_is_inserted(run, saved):
    A = saved(sp.csr_array([[2.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]))
    code, _, error = run("solve", A)
    assert code == 2
    assert "row 1 has no stored diagonal entry" in error
    assert run("solve", A, "--missing-diagonal", "insert")[0] == 0


def test_a_zero_pivot_is_an_error_until_it_is_boosted(run, saved):
    A = saved(sp.csr_array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 3.0]]))
    code, _, error = run("solve", A)
    assert code == 2
    assert "the pivot in row 1 is zero" in error
    assert run("solve", A, "--pivot", "boost")[0] == 0


def test_an_empty_system_is_solved(run, tmp_path):
    (tmp_path / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n0 0 0\n")
    assert run("solve", tmp_path / "A.mtx")[0] == 0


def test_the_curves_are_saved(run, tmp_path):
    pytest.importorskip("matplotlib")
    code, output, _ = run("solve", "laplacian2d:6", "--plot", tmp_path / "curves.png")
    assert code == 0
    assert str(tmp_path / "curves.png") in output
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_curves_need_matplotlib(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, error = run("solve", "laplacian2d:6", "--plot", "curves.png")
    assert code == 2
    assert "gpuilu[plot]" in error
