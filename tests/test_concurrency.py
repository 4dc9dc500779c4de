"""Many threads on one object and on many; the same bits again and again."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import (
    assert_same_answer,
    every_algorithm,
    every_deterministic_algorithm,
    forced,
    poisson,
    random_values,
    suited,
    unsymmetric,
)

import gpuilu
from gpuilu.triangle import Transposed
from gpuilu.trsv import level


def permuted_grid(m):
    """The 5-point Laplacian with its nodes numbered at random."""
    order = np.random.default_rng(0).permutation(m * m)
    return poisson(m, m)[order][:, order]


@pytest.fixture
def wide(monkeypatch):
    """Levels of 100 rows count as wide: the threaded loops run on small matrices."""
    monkeypatch.setattr(level, "WIDE", 100)


def run_together(*tasks):
    """Start all tasks at one moment; results in order, or the first error."""
    together = threading.Barrier(len(tasks))

    def started(task):
        together.wait(30)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(120) for future in [pool.submit(started, task) for task in tasks]]


def digest(*arrays):
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


# ---- one object, many threads --------------------------------------------------------------------


@every_algorithm
def test_threads_that_apply_one_object_get_the_answers_of_one_thread(wide, name, device):
    A = permuted_grid(40)
    M = gpuilu.ilu0(A, **forced(name, device))
    rhs = [random_values(np.random.default_rng(s), 1600, "float64") for s in range(4)]
    forms = "NTH"
    expected = {(s, t): M.solve(rhs[s], t) for s in range(4) for t in forms}
    fresh = gpuilu.ilu0(A, **forced(name, device))  # forms not built: threads meet at first use

    def applies(s):
        return lambda: [(t, fresh.solve(rhs[s], t)) for _ in range(20) for t in forms]

    for s, found in enumerate(run_together(*map(applies, range(4)))):
        for t, x in found:
            assert_same_answer(name, device, x, expected[s, t])


@every_algorithm
def test_many_objects_in_many_threads_at_once(wide, name, device):
    matrices = [permuted_grid(30 + k) for k in range(6)]
    rhs = [np.ones(A.shape[0]) for A in matrices]
    keywords = forced(name, device)
    expected = [gpuilu.ilu0(A, **keywords) @ b for A, b in zip(matrices, rhs, strict=True)]

    def makes(A, b):
        def task():
            M = gpuilu.ilu0(A, **forced(name, device))
            return [M @ b for _ in range(10)]

        return task

    for found, x in zip(run_together(*map(makes, matrices, rhs)), expected, strict=True):
        for y in found:
            assert_same_answer(name, device, x, y)


MANY_THREADS = """
import threading
import numpy as np, scipy.sparse as sp
import gpuilu
from gpuilu.trsv import level
level.WIDE = 16
S = gpuilu.TriangularSolver(sp.eye_array(4000, format="csr"), algorithm="level")
b = np.ones(4000)
S @ b
def applies():
    for _ in range(300):
        S @ b
threads = [threading.Thread(target=applies) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""


def test_threads_in_the_shared_loops_do_not_end_the_process():
    # numba's own layer of threads aborts when two threads of Python enter it at once.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NUMBA_THREADING_LAYER": "workqueue",
        "NUMBA_NUM_THREADS": "2",
    }
    ran = subprocess.run(
        [sys.executable, "-c", MANY_THREADS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr


@pytest.mark.parametrize("trans", ["N", "T"])
@every_deterministic_algorithm
def test_an_apply_beside_updates_sees_the_old_or_the_new_values_never_a_mix(
    wide, name, device, trans
):
    A, B = (suited(name, device, permuted_grid(60)) for _ in range(2))
    B.data = B.data * 3
    M, b = gpuilu.ilu0(A, **forced(name, device)), np.ones(3600)
    answers = {}
    for matrix in (B, A):
        M.update(matrix)
        answers[digest(M.solve(b, trans))] = matrix
    done = threading.Event()

    def applies():
        found = []
        while not done.is_set():
            found.append(digest(M.solve(b, trans)))
        return found

    def updates():
        try:
            for k in range(60):
                M.update((B, A)[k % 2])
        finally:
            done.set()
        return []

    found = [x for seen in run_together(applies, applies, updates) for x in seen]
    assert len(found) > 10
    assert set(found) <= set(answers)


@pytest.mark.parametrize(
    "take",
    [lambda M: M.U, lambda M: M.copy().U, lambda M: pickle.loads(pickle.dumps(M)).U],
    ids=["factor", "copy", "pickle"],
)
def test_what_is_taken_beside_updates_is_old_or_new_never_a_mix(take):
    A, B = poisson(300, 300), 3 * poisson(300, 300)
    M = gpuilu.ilu0(A)

    def pivots(U):
        return U.data[U.indptr[:-1]]

    low = pivots(M.U)
    done = threading.Event()

    def updates():
        try:
            for k in range(40):
                M.update((B, A)[k % 2])
        finally:
            done.set()

    def takes():
        mixed = 0
        while not done.is_set():
            ratio = pivots(take(M)) / low
            mixed += not (np.allclose(ratio, 1) or np.allclose(ratio, 3))
        return mixed

    assert run_together(takes, updates)[0] == 0


def test_a_form_prepared_beside_an_update_holds_the_new_values(monkeypatch):
    M, b, new = gpuilu.ilu0(unsymmetric()), np.ones(60), unsymmetric()
    new.data = random_values(np.random.default_rng(7), new.nnz, "float64")
    new.setdiag(9)
    building, go_on = threading.Event(), threading.Event()
    refill = Transposed.refill

    def slow(self):
        refill(self)
        if not building.is_set():
            building.set()
            go_on.wait(30)

    monkeypatch.setattr(Transposed, "refill", slow)
    prepares = threading.Thread(target=M.prepare, args=("T",))
    prepares.start()
    assert building.wait(30)
    updates = threading.Thread(target=M.update, args=(new,))
    updates.start()
    updates.join(0.3)  # either it has finished, or it waits for the form
    go_on.set()
    for thread in (prepares, updates):
        thread.join(30)
        assert not thread.is_alive()
    np.testing.assert_array_equal(M.solve(b, "T"), gpuilu.ilu0(new).solve(b, "T"))


# ---- the same bits again -------------------------------------------------------------------------


@every_deterministic_algorithm
def test_two_hundred_applies_give_the_same_bits(wide, name, device):
    M = gpuilu.ilu0(suited(name, device, permuted_grid(64)), **forced(name, device))
    b = random_values(np.random.default_rng(0), 4096, "float64")
    assert len({digest(M @ b) for _ in range(200)}) == 1


@every_deterministic_algorithm
def test_a_hundred_set_ups_give_the_same_factors_and_results(wide, name, device):
    A, b = permuted_grid(30), random_values(np.random.default_rng(0), 900, "float64")
    seen = set()
    for _ in range(100):
        M = gpuilu.ilu0(A, **forced(name, device))
        L, U = M.L, M.U
        seen.add(digest(L.data, L.indices, U.data, U.indices, M @ b, M.solve(b, "T")))
    assert len(seen) == 1
