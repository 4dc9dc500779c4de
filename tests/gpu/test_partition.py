"""A part of a card: every algorithm solves there as on all of it, in a process that may be ended.

Without the vendor's: cusparseSpSV did not come back from n = 1024^2 on a quarter of an H100. A
kernel that waits for ever can only be ended with its process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuilu.trsv.base import algorithms

pytestmark = pytest.mark.gpu
PLANS = {
    name: plan
    for (name, device), plan in sorted(algorithms().items())
    if device == "cuda" and not plan.vendor
}
SECONDS = 120
FOLDER = Path(__file__).parent

# Prints a line for each algorithm, its name before it is tried.
PROGRAM = """
import sys
import cupy as cp
import numpy as np
import cupyx.scipy.sparse as csp
from gpu_cases import grid, on_gpu, vector
import gpuilu
from gpuilu.backend import partition

side, *names = sys.argv[1:]
A = on_gpu(csp, grid(int(side), int(side)))
b = cp.asarray(vector(A.shape[0], np.float64))


def outcome(**options):
    try:
        expected = gpuilu.ilu0(A, **options) @ b
    except gpuilu.UnsupportedAlgorithmError:
        return "unsupported"
    with partition.limited_to(0.25) as n_multiprocessors:
        assert n_multiprocessors < partition.cuda.all_multiprocessors(0)
        x = gpuilu.ilu0(A, **options) @ b
    return "solved" if cp.allclose(x, expected, rtol=1e-10, atol=1e-10) else "wrong"


for name in names:
    print(name, end=" ", flush=True)
    print(outcome(algorithm=name, deterministic=False), flush=True)
"""


@pytest.mark.parametrize("side", [40, 400])
def test_every_algorithm_solves_on_a_quarter_of_the_card(cp, side):
    names = ["auto", *PLANS]
    command = [sys.executable, "-c", PROGRAM, str(side), *names]
    try:
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        told = (error.stdout or b"").decode()
        pytest.fail(f"not back after {SECONDS} seconds; the last of these did not end:\n{told}")
    told = done.stdout.decode()
    assert done.returncode == 0, told + done.stderr.decode()[-2000:]
    outcomes = dict(line.split() for line in told.splitlines())
    special = {name for name, plan in PLANS.items() if plan.special}
    refused = {name for name in special if outcomes.get(name) == "unsupported"}
    assert outcomes == {name: "unsupported" if name in refused else "solved" for name in names}
