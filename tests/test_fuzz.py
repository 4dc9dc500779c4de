"""Malformed matrices and files: an error of ours or a right answer, never a crash or a hang."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuilu
from gpuilu.__main__ import main

PATHS = (Path(__file__).parent, Path(gpuilu.__file__).parents[1])
FUZZ = settings(derandomize=True, deadline=None, max_examples=150)
N = 6
BASE = sp.csr_array(reference.random_matrix(np.random.default_rng(0), N))
COMPRESSED = ("csr", "csc", "bsr")
NUMBERS = st.integers(-3, 12) | st.sampled_from([2**31, -(2**31), 2**40])


@st.composite
def corrupted(draw):
    """A small matrix with one of its arrays changed: an entry, the length or the dimension."""
    A = BASE.asformat(draw(st.sampled_from([*COMPRESSED, "coo", "dia"]))).copy()
    names = {"coo": ["row", "col", "data"], "dia": ["offsets", "data"]}
    name = draw(st.sampled_from(names.get(A.format, ["indptr", "indices", "data"])))
    array = np.array(getattr(A, name), np.float64 if name == "data" else np.int64)
    kind = draw(st.sampled_from(["entry", "shorter", "longer", "flat", "fractional"]))
    flat = array.reshape(-1)
    if kind == "entry":
        flat[draw(st.integers(0, flat.size - 1))] = draw(NUMBERS)
    elif kind == "shorter":
        array = array[: draw(st.integers(0, len(array) - 1))]
    elif kind == "longer":
        array = np.concatenate([array, array[-1:]])
    elif kind == "flat":
        array = array.reshape(1, -1)
    elif name != "data":
        array = array + 0.5
    with contextlib.suppress(AttributeError, ValueError):  # SciPy refuses some of them by itself
        setattr(A, name, array)
    return A


def survives(A):
    """ilu0 raises an error of ours, or its factors are those of the matrix that A now is."""
    try:
        M = gpuilu.ilu0(A)
    except gpuilu.GpuiluError:
        return
    expected = reference.ilu0(sp.csr_array(A.tocsr(), copy=True))
    packed = M.L.toarray() + M.U.toarray() - np.eye(M.shape[0])
    np.testing.assert_allclose(packed, expected, rtol=1e-10, atol=1e-10)


def fuzz_matrices():
    """What the test below runs in a process of its own, since a crash would end this one."""
    FUZZ(given(corrupted())(survives))()


def test_corrupted_matrices_are_refused_or_factored_and_do_no_harm_to_the_process():
    program = "import test_fuzz; test_fuzz.fuzz_matrices()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


WHOLE = "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 5\n" + "".join(
    f"{i} {j} {v}\n" for i, j, v in [(1, 1, 4), (1, 2, -1), (2, 2, 4), (3, 1, -1), (3, 3, 4)]
)
WORDS = ["", "-1", "0", "4", "99999999999999", "1e9", "nan", "array", "symmetric", "\x00", "é"]


@st.composite
def matrix_market_bytes(draw):
    """A valid file cut off, with a word replaced, or no such file at all; sometimes gzipped."""
    kind = draw(st.sampled_from(["cut", "word", "junk"]))
    if kind == "cut":
        content = WHOLE.encode()[: draw(st.integers(0, len(WHOLE)))]
    elif kind == "word":
        words = WHOLE.split(" ")
        words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(WORDS))
        content = " ".join(words).encode()
    else:
        content = draw(st.binary(max_size=200))
    if draw(st.booleans()):
        packed = gzip.compress(content)
        return ".mtx.gz", packed[: draw(st.integers(0, len(packed)))]
    return ".mtx", content


@FUZZ
@given(matrix_market_bytes(), st.sampled_from(["info", "solve"]))
def test_any_file_ends_the_command_line_with_a_code_and_at_most_one_line(
    tmp_path_factory, file, command
):
    suffix, content = file
    path = tmp_path_factory.mktemp("fuzz") / f"A{suffix}"
    path.write_bytes(content)
    options = ["--maxiter", "5"] if command == "solve" else []
    out, err = io.StringIO(), io.StringIO()
    tracemalloc.start()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([command, str(path), *options])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code in (0, 1, 2)
    assert peak < 500e6
    lines = err.getvalue().splitlines()
    assert len(lines) == (code == 2)
    assert all(line.startswith("gpuilu: error: ") for line in lines)
