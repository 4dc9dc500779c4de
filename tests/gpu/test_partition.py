"""A part of a card: every algorithm solves there, each in a process that may be ended.

Not run unless asked for: on an H100 something there did not come back, and a kernel that hangs
slows whatever else is being tested on the card.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuilu.trsv.base import algorithms

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        "GPUILU_TRY_SHARES" not in os.environ, reason="may hang; GPUILU_TRY_SHARES=1 tries it"
    ),
]
ALGORITHMS = sorted(name for name, device in algorithms() if device == "cuda")
SECONDS = 90
FOLDER = Path(__file__).parent

PROGRAM = """
import sys
import cupy as cp
import numpy as np
import cupyx.scipy.sparse as csp
from gpu_cases import grid, on_gpu, vector
import gpuilu
from gpuilu.backend import partition

algorithm, side = sys.argv[1], int(sys.argv[2])
A = on_gpu(csp, grid(side, side))
b = cp.asarray(vector(side * side, np.float64))
options = {"algorithm": algorithm, "deterministic": False}
try:
    expected = gpuilu.ilu0(A, **options) @ b
except gpuilu.UnsupportedAlgorithmError:
    print("unsupported")
    sys.exit()
with partition.limited_to(0.25) as n_multiprocessors:
    assert n_multiprocessors < partition.cuda.all_multiprocessors(0)
    x = gpuilu.ilu0(A, **options) @ b
assert bool(cp.allclose(x, expected, rtol=1e-10, atol=1e-10))
print("solved")
"""


@pytest.mark.parametrize("side", [40, 400])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_solves_on_a_quarter_of_the_card(cp, algorithm, side):
    command = [sys.executable, "-c", PROGRAM, algorithm, str(side)]
    try:
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"not back after {SECONDS} seconds")
    assert done.returncode == 0, done.stderr[-2000:]
    if done.stdout.strip() == "unsupported":
        pytest.skip("not for this matrix")
    assert done.stdout.strip() == "solved"
