"""`gpuilu bench` from end to end, on the CPU and on small cases."""

from __future__ import annotations

import json

import bench_fakes as fakes
import pytest
import scipy.io
import scipy.sparse as sp

from gpuilu.__main__ import main
from gpuilu.bench.command import with_run
from gpuilu.bench.papers import BEGIN, END

TINY = ["--scale", "0.001", "--budget", "0.05", "--jobs", "1", "--device", "cpu"]


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
    """A record in a file."""
    record = fakes.record(["g3d7_128", "road_1M"], ["row", "cusparse"])
    record.path = tmp_path / "old.json"
    record.save()
    return record.path


def test_run_is_the_command_that_needs_no_name():
    assert with_run(["bench"]) == ["bench", "run"]
    assert with_run(["bench", "--nrhs", "2"]) == ["bench", "run", "--nrhs", "2"]
    assert with_run(["bench", "a.mtx"]) == ["bench", "run", "a.mtx"]
    for arguments in (["bench", "compare", "a"], ["bench", "--help"], ["solve", "bench"], []):
        assert with_run(arguments) == arguments


def test_a_run_writes_a_record_shows_progress_and_prints_tables(run, tmp_path):
    path = tmp_path / "new.json"
    arguments = ["bench", "--cases", "road_1M,g3d7_128", "--dtypes", "float64,float32", *TINY]
    code, output, error = run(*arguments, "--output", path)
    assert code == 0, error
    assert error.count("] road_1M@0.001 float") == 2
    assert "### Speed, serial = 1" in output
    rows = json.loads(path.read_text())["rows"]
    assert len({(r["case"], r["dtype"]) for r in rows}) == 4
    before = path.read_text()
    code, _, error = run(*arguments, "--output", path)
    assert code == 0
    assert "float" not in error, "everything was there"
    assert path.read_text() == before


def test_a_matrix_market_file_is_a_case(run, tmp_path):
    scipy.io.mmwrite(tmp_path / "A.mtx", sp.random_array((50, 50), density=0.1, rng=0))
    code, output, error = run("bench", tmp_path / "A.mtx", "--op", "lower,upper,apply", *TINY)
    assert code == 0, error
    assert "a file" in output
    assert [f"float64, {op}" in output for op in ("lower", "upper", "apply")] == [True] * 3


def test_a_failure_is_measured_again_only_when_asked_for(run, tmp_path):
    path = tmp_path / "new.json"
    arguments = ["bench", "--cases", "road_1M", "--algorithms", "serial", "--commit", "x", *TINY]
    run(*arguments, "--output", path)
    record = json.loads(path.read_text())
    record["rows"][1] |= {"error": "SolveStalledError", "message": "", "ms": None}
    path.write_text(json.dumps(record))
    _, output, _ = run(*arguments, "--output", path)
    assert "SolveStalledError" in output
    _, output, _ = run(*arguments, "--output", path, "--retry")
    assert "SolveStalledError" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases", "what"], "no case and no file is named 'what'"),
        (["--group", "what"], "no group is named 'what'"),
        (["nowhere.mtx"], "nowhere.mtx"),
        (["--algorithms", "what"], "auto, level, serial"),
        (["--dtypes", "int8"], "dtype is one of"),
        (["--op", "what"], "op is one of"),
        (["--scale", "2"], "scale is above 0"),
        (["--shares", "0.5"], "needs a GPU"),
        (["--device", "what"], "device must be"),
    ],
)
def test_a_wrong_option_is_one_line_on_stderr_and_exit_code_2(arguments, message, run):
    code, _, error = run("bench", "--device", "cpu", *arguments)
    assert code == 2
    assert error.startswith("gpuilu: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_the_cases_are_listed_with_what_they_stand_for(run):
    code, output, _ = run("bench", "cases")
    assert code == 0
    assert any(line.split()[0] == "kkt_100" and "nlpkkt160" in line for line in output.splitlines())


def test_two_records_are_compared_and_merged(run, saved, tmp_path):
    code, output, _ = run("bench", "compare", saved, saved)
    assert code == 0
    assert "1.000" in output
    code, output, _ = run("bench", "merge", tmp_path / "all.json", saved, saved)
    assert (code, output) == (0, f"{tmp_path / 'all.json'}: 16 rows\n")


def test_tables_are_chosen_by_name(run, saved):
    code, output, _ = run("bench", "tables", saved, "--tables", "setup")
    assert code == 0
    assert "### Set-up [ms]" in output
    assert "### Solve [ms]" not in output


def test_several_records_are_shown_as_one(run, saved, tmp_path):
    other = fakes.record(["fem2d_rcm"], ["row", "cusparse"], ["float64"])
    other.path = tmp_path / "more.json"
    other.save()
    code, output, _ = run("bench", "tables", saved, other.path, "--tables", "ratio")
    assert code == 0
    assert "geometric mean, 3 cases" in output
    code, output, _ = run("bench", "tables", saved, other.path, "--papers")
    assert (code, "TileSpTRSV" in output) == (0, True)


def test_the_papers_claims_are_put_into_a_file(run, saved, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    code, output, _ = run("bench", "tables", saved, "--papers")
    assert code == 0
    assert "TileSpTRSV" in output
    assert run("bench", "tables", saved, "--papers", "--into", readme)[0] == 0
    assert output.strip() in readme.read_text()


def test_figures_are_saved_where_they_were_asked_for(run, saved, tmp_path):
    pytest.importorskip("matplotlib")
    names = "throughput,ratio"
    code, output, _ = run("bench", "figures", saved, "--folder", tmp_path, "--figures", names)
    assert code == 0
    assert output.splitlines()[0] == str(tmp_path / "throughput.png")
    assert (tmp_path / "ratio_float32.png").exists()


@pytest.mark.parametrize("command", [[], ["run"], ["tables"], ["figures"], ["compare"]])
def test_help_is_there_for_every_command(command, run):
    code, output, _ = run("bench", *command, "--help")
    assert code == 0
    assert output.startswith("usage: gpuilu bench")
