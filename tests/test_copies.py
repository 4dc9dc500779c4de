"""Pickles, copies and other processes: the same answers, and nothing mutable shared."""

from __future__ import annotations

import copy
import multiprocessing
import operator
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import DTYPES, arrays, layered, random_values, triangle, unsymmetric

import gpuilu
from gpuilu.trsv import level

N = 30
A = unsymmetric(N)
OBJECTS = {
    "ilu0": lambda: gpuilu.ilu0(A),
    "level": lambda: gpuilu.ilu0(A, algorithm="level"),
    "narrow": lambda: gpuilu.ilu0(A, factor_dtype=np.float32),
    "forward": lambda: gpuilu.gauss_seidel(A, sweep="forward"),
    "three sweeps": lambda: gpuilu.ssor(A, omega=1.2, iterations=3),
    "boosted": lambda: gpuilu.ilu0(A, pivot="boost"),
    "superlu": lambda: gpuilu.from_factors(spla.splu(sp.csc_array(A))),
    "triangle": lambda: gpuilu.TriangularSolver(sp.triu(A), lower=False, unit_diagonal=True),
    "transposed view": lambda: gpuilu.ilu0(A).T,
    "conjugate view": lambda: gpuilu.ilu0(unsymmetric(N, "complex128")).H.T,
    **{dtype: lambda dtype=dtype: gpuilu.ilu0(unsymmetric(N, dtype)) for dtype in DTYPES},
    "0x0": lambda: gpuilu.ilu0(sp.csr_array((0, 0))),
}
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "method": lambda M: M.copy(),
    **{
        f"pickle protocol {p}": lambda M, p=p: pickle.loads(pickle.dumps(M, protocol=p))
        for p in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}

every_object = pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
every_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def answers(M):
    b = random_values(np.random.default_rng(1), (M.shape[0], 2), M.dtype)
    return [M.solve(b, trans) for trans in "NTH"]


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@every_copy
@every_object
def test_a_copy_gives_the_same_bits_in_every_form(make, copied):
    M = make()
    twin = copied(M)
    assert type(twin) is type(M)
    assert (twin.shape, twin.dtype, repr(twin)) == (M.shape, M.dtype, repr(M))
    assert_same(answers(twin), answers(M))
    assert_same(answers(twin.T), answers(M.T))
    for mine, theirs in ((M.L, twin.L), (M.U, twin.U)):
        assert (mine is None) == (theirs is None)
        assert mine is None or (mine != theirs).nnz == 0


@every_copy
@every_object
def test_a_copy_knows_the_same_facts(make, copied):
    M = make()
    info, theirs = M.info, copied(M).info
    for name in vars(info):
        if name not in ("apply_ms", "nbytes"):
            assert getattr(info, name) == getattr(theirs, name), name


@every_copy
@pytest.mark.parametrize("name", ["ilu0", "level", "three sweeps"])
def test_an_update_of_either_leaves_the_other(name, copied):
    M = OBJECTS[name]()
    before, new = answers(M), unsymmetric(N)
    new.data = new.data * 2
    twin = copied(M)
    twin.update(new)
    after = answers(twin)
    assert_same(answers(M), before)
    M.update(new)
    assert_same(answers(M), after)
    twin.update(A)
    assert_same(answers(twin), before)
    assert_same(answers(M), after)


@every_copy
@every_object
def test_no_array_that_an_update_writes_is_shared(make, copied):
    M = make()
    answers(M)
    twin = copied(M)
    answers(twin)
    written = [a for a in arrays(M) if a.dtype.kind in "fc" and a.size]
    theirs = [a for a in arrays(twin) if a.dtype.kind in "fc" and a.size]
    assert len(written) == len(theirs)
    assert not any(np.shares_memory(a, b) for a in written for b in theirs)


def test_an_operator_and_its_view_in_one_pickle_stay_together():
    M = gpuilu.ilu0(A)
    twin, view = pickle.loads(pickle.dumps((M, M.T)))
    twin.update(2 * A)
    b = np.ones(N)
    np.testing.assert_array_equal(view @ b, (M.T @ b) / 2)


def test_an_object_inside_others_is_copied_with_them():
    M = gpuilu.ilu0(A)
    inside = copy.deepcopy({"M": [M, M]})["M"]
    assert inside[0] is inside[1]
    assert inside[0] is not M
    composed = pickle.loads(pickle.dumps(2 * M))
    np.testing.assert_array_equal(composed @ np.ones(N), 2 * (M @ np.ones(N)))


def test_a_pickle_holds_the_factors_once():
    M = gpuilu.ilu0(unsymmetric(2000), algorithm="level")
    answers(M)  # with all forms and plans built
    arrays_kept = sum(a.nbytes for a in arrays(gpuilu.ilu0(unsymmetric(2000))))
    assert len(pickle.dumps(M)) <= 1.1 * arrays_kept


# ---- processes -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("algorithm", ["serial", "level"])
def test_a_worker_process_gets_the_same_bits(monkeypatch, start, algorithm):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this platform")
    monkeypatch.setattr(level, "WIDE", 16)
    T = triangle(layered(4, 50))
    b = random_values(np.random.default_rng(0), (200, 2), "float64")
    objects = [gpuilu.TriangularSolver(T, algorithm=algorithm), gpuilu.ilu0(T, algorithm=algorithm)]
    objects.append(objects[1].H)
    expected = [M @ b for M in objects]
    with multiprocessing.get_context(start).Pool(1) as pool:
        found = [pool.apply_async(operator.matmul, (M, b)) for M in objects]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x.get(timeout=120), y)
    for M, y in zip(objects, expected, strict=True):
        np.testing.assert_array_equal(M @ b, y)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_an_operator_made_in_a_forked_worker_comes_back_whole():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this platform")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        M = pool.apply_async(gpuilu.ilu0, (A,)).get(timeout=60)
    assert_same(answers(M), answers(gpuilu.ilu0(A)))
