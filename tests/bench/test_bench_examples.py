"""The commands and the records of examples/benchmarks."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuilu.bench import cases, papers, tables
from gpuilu.bench.command import add_parser
from gpuilu.bench.record import load
from gpuilu.trsv.base import algorithms

FOLDER = Path(__file__).parents[2] / "examples" / "benchmarks"
RECORDS = sorted((FOLDER / "results").glob("*.json"))

# Stands for the interpreter: writes its arguments to a file, a line a call, and lists the cases.
TOLD = """#!/bin/bash
echo "$@" >>"$TOLD"
if [[ "$*" == "-m gpuilu bench cases" ]]; then exec "$REAL" "$@"; fi
"""


@pytest.fixture
def commands(tmp_path):
    """A function that runs run_all.sh with steps: (exit code, command lines without "-m")."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    fake = tmp_path / "python"
    fake.write_text(TOLD)
    fake.chmod(0o755)

    def ran(*steps):
        told = tmp_path / "told"
        told.write_text("")
        words = {"PYTHON": str(fake), "REAL": sys.executable, "TOLD": str(told)}
        done = subprocess.run(
            ["bash", str(FOLDER / "run_all.sh"), str(tmp_path / "out"), *steps],
            env={**os.environ, **words, "COMMIT": "abc", "PYTHONPATH": str(FOLDER.parents[1])},
            capture_output=True,
            check=False,
        )
        return done.returncode, [line.split() for line in told.read_text().splitlines()]

    return ran


def test_every_measurement_of_the_script_is_one_that_the_command_understands(commands, tmp_path):
    code, lines = commands()
    runs = [line[2:] for line in lines if "run" in line]
    assert (code, len(runs)) == (0, 6)
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    known = {name for name, device in algorithms() if device == "cuda"} | {"auto"}
    files, measured = [], set()
    for run in runs:
        options = parser.parse_args(run)
        chosen = cases.chosen(options.cases, options.group)
        assert chosen
        assert set(options.algorithms) <= known
        assert options.commit == "abc"
        files.append(Path(options.output).name)
        measured |= {case.name for case in chosen if not options.algorithms}
    steps = ("fast13", "papers", "apply", "nrhs16", "setup", "shares")
    assert files == [f"{step}.json" for step in steps]
    assert measured == set(cases.CASES), "all cases with all algorithms"


def test_the_script_runs_the_example_of_multigrid_and_knows_its_steps(commands):
    code, lines = commands("amg")
    grids = [line[2:5] for line in lines if line[0].endswith("amg_poisson.py")]
    assert code == 0
    assert grids == [["1024", "1024", "--json"], ["128", "128", "128"]]
    assert commands("what")[0] == 2


def test_there_are_records_and_each_can_be_shown():
    assert RECORDS
    for path in RECORDS:
        record = load(path)
        assert record.header["commit"] != "unknown"
        assert record.rows
        if not path.name.startswith("amg"):
            assert "### Speed, cusparse = 1" in tables.document(record)


def test_the_page_has_a_place_for_the_claims():
    text = (FOLDER / "README.md").read_text()
    assert text.count(papers.BEGIN) == text.count(papers.END) == 1
