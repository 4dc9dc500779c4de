"""What an operator says of itself: every field, the words, and the bytes it holds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import (
    DTYPES,
    bytes_held,
    convection_diffusion,
    every_algorithm,
    forced,
    poisson,
    tridiagonal,
    unsymmetric,
)

import gpuilu
from gpuilu.trsv.base import algorithms


def csr_bytes(*factors):
    return sum(T.data.nbytes + T.indices.nbytes + T.indptr.nbytes for T in factors if T is not None)


# ---- fields --------------------------------------------------------------------------------------


def test_every_field_of_a_small_preconditioner():
    info = gpuilu.ilu0(tridiagonal()).info
    facts = dataclasses.asdict(info)
    times = {name: facts.pop(name) for name in ("setup_ms", "analysis_ms", "factorization_ms")}
    assert facts == {
        "kind": "ilu0",
        "n": 3,
        "nnz": 7,
        "dtype": np.float64,
        "factor_dtype": np.float64,
        "device": "cpu",
        "device_reason": info.device_reason,
        "algorithm": "serial",
        "reason": info.reason,
        "n_levels_lower": 3,
        "n_levels_upper": 3,
        "apply_ms": None,
        # L: indptr 16, indices 8, data 16; U: the same and its diagonal 24; kept for `update`:
        # indptr 16, indices 28.
        "nbytes": 40 + 64 + 44,
        "n_boosted": 0,
        "shift": 0.0,
        "first_zero_pivot": None,
        "is_symmetric": True,
        "deterministic": True,
    }
    assert info.reason
    assert "too small to pay for a GPU" in info.device_reason
    assert min(times.values()) > 0
    assert times["setup_ms"] == pytest.approx(times["analysis_ms"] + times["factorization_ms"])


def test_the_facts_cannot_be_changed():
    info = gpuilu.ilu0(tridiagonal()).info
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.n = 4


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (gpuilu.ilu0, "ilu0"),
        (gpuilu.gauss_seidel, "gauss_seidel"),
        (lambda A: gpuilu.sor(A, omega=1.1), "sor"),
        (gpuilu.ssor, "ssor"),
        (lambda A: gpuilu.from_factors(sp.tril(A), sp.triu(A)), "from_factors"),
        (lambda A: gpuilu.TriangularSolver(sp.tril(A)), "triangular"),
    ],
)
def test_each_factory_names_its_kind(make, kind):
    M = make(tridiagonal())
    assert M.kind == M.info.kind == kind


def test_entries_are_counted_with_duplicates_summed():
    A = sp.coo_array(([1.0, 3, 4, 0], ([0, 0, 1, 1], [0, 0, 1, 0])), shape=(2, 2))
    assert gpuilu.ilu0(A).info.nnz == 3


@pytest.mark.parametrize(
    ("A", "lower", "upper"),
    [
        (sp.eye_array(7), 1, 1),
        (tridiagonal(7), 7, 7),
        (poisson(9, 7), 15, 15),
        (poisson(4, 5, 6), 13, 13),
        (sp.csr_array(sp.tril(tridiagonal(7))), 7, 1),
        (sp.csr_array((0, 0)), 0, 0),
    ],
)
def test_levels_are_the_longest_chain_of_each_triangle(A, lower, upper):
    info = gpuilu.ilu0(A).info
    assert (info.n_levels_lower, info.n_levels_upper) == (lower, upper)


def test_a_triangle_that_is_not_there_has_no_levels():
    T = gpuilu.TriangularSolver(sp.triu(tridiagonal(5)), lower=False)
    assert (T.info.n_levels_lower, T.info.n_levels_upper) == (None, 5)
    forward = gpuilu.gauss_seidel(tridiagonal(5), sweep="forward")
    assert (forward.info.n_levels_lower, forward.info.n_levels_upper) == (5, None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_the_operator_and_of_its_factors(dtype):
    M = gpuilu.ilu0(tridiagonal().astype(dtype))
    assert (M.dtype, M.info.dtype, M.info.factor_dtype) == (dtype, dtype, dtype)
    narrow = np.complex64 if np.dtype(dtype).kind == "c" else np.float32
    info = gpuilu.ilu0(tridiagonal().astype(dtype), factor_dtype=narrow).info
    assert (info.dtype, info.factor_dtype) == (dtype, narrow)
    assert gpuilu.ilu0(tridiagonal().astype(np.int32)).dtype == np.float64


@pytest.mark.parametrize("factory", ["ilu0", "gauss_seidel", "ssor"])
def test_symmetric_means_fit_for_cg(factory):
    make = getattr(gpuilu, factory)
    assert make(poisson(5, 4)).info.is_symmetric
    hermitian = poisson(5, 4) + 0.5j * sp.diags_array([1.0, -1.0], offsets=[1, -1], shape=(20, 20))
    assert make(hermitian).info.is_symmetric
    for A in (
        unsymmetric(),
        convection_diffusion(5),
        poisson(5, 4) * 1j,
        hermitian.real + 0.5j * poisson(5, 4),
    ):
        assert not make(A).info.is_symmetric
    for M in (make(poisson(5, 4)), make(hermitian)):
        inverse = M @ np.eye(20)
        assert np.max(abs(inverse - inverse.conj().T)) <= 1e-13 * np.max(abs(inverse))


def test_a_one_sided_sweep_is_not_symmetric():
    A = tridiagonal()
    for M in (
        gpuilu.gauss_seidel(A, sweep="forward"),
        gpuilu.gauss_seidel(A, sweep="backward"),
        gpuilu.sor(A, omega=1.0),
    ):
        assert not M.info.is_symmetric


def test_the_fastest_apply_of_a_vector_is_remembered():
    M = gpuilu.ilu0(poisson(50, 50))
    M @ np.ones((2500, 2))
    assert M.info.apply_ms is None
    M @ np.ones(2500)
    first = M.info.apply_ms
    assert first > 0
    for _ in range(20):
        M @ np.ones(2500)
    assert 0 < M.info.apply_ms <= first
    assert M.T.info.apply_ms == M.info.apply_ms


# ---- words ---------------------------------------------------------------------------------------


def test_repr_is_one_line_that_names_what_matters():
    M = gpuilu.ilu0(tridiagonal())
    assert repr(M) == (
        "<3x3 Preconditioner kind='ilu0', dtype=float64, algorithm='serial', device='cpu'>"
    )
    assert repr(M.T).endswith("device='cpu', trans='T'>")
    assert repr(gpuilu.TriangularSolver(sp.eye_array(2))).startswith("<2x2 TriangularSolver ")


def test_str_tells_what_it_is_what_was_chosen_and_what_it_cost():
    M = gpuilu.ilu0(tridiagonal())
    lines = str(M).splitlines()
    assert str(M) == str(M.info)
    assert lines[0] == "ilu0 preconditioner, 3 x 3, float64"
    shown = {line.split(None, 1)[0]: line.split(None, 1)[1] for line in lines[1:]}
    assert shown["entries"] == "7 (2.3 a row)"
    assert shown["factors"].startswith("float64, on cpu: ")
    assert shown["levels"] == "3 lower, 3 upper"
    assert shown["algorithm"] == f"serial: {M.info.reason}"
    assert shown["set-up"].startswith(f"{M.info.setup_ms:.2f} ms")
    assert shown["apply"] == "not yet"
    assert shown["pivots"] == "none changed"
    assert shown["symmetric"] == "yes"
    M @ np.ones(3)
    applies = M.info.setup_ms / M.info.apply_ms
    assert f"the set-up cost as much as {applies:.1f} applies" in str(M)


def test_str_tells_of_every_change_of_a_pivot():
    Z = sp.csr_array((np.array([0.0, 1, 1, 1]), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    boosted, shifted = gpuilu.ilu0(Z, pivot="boost"), gpuilu.ilu0(Z, pivot="shift")
    assert "1 boosted, first zero in row 0" in str(boosted)
    assert f"shifted by {shifted.info.shift:g}, first zero in row 0" in str(shifted)
    assert "no (not for CG)" in str(gpuilu.gauss_seidel(tridiagonal(), sweep="forward"))
    one_sided = gpuilu.TriangularSolver(sp.eye_array(2))
    assert "levels     1 lower\n" in str(one_sided)
    assert str(gpuilu.ilu0(sp.csr_array((0, 0)))).startswith("ilu0 preconditioner, 0 x 0")


# ---- bytes ---------------------------------------------------------------------------------------

GRIDS = {
    "2-D": lambda: poisson(50, 100),
    "3-D": lambda: poisson(10, 20, 25),
    "diagonal": lambda: sp.eye_array(5000, format="csr"),
    "convection": lambda: convection_diffusion(71),
}


MADE = {
    "ilu0": gpuilu.ilu0,
    "ssor": gpuilu.ssor,
    "forward": lambda A, **k: gpuilu.gauss_seidel(A, sweep="forward", **k),
    "triangle": lambda A, **k: gpuilu.TriangularSolver(sp.tril(A), **k),
    "unit triangle": lambda A, **k: gpuilu.TriangularSolver(
        sp.triu(A, 1), lower=False, unit_diagonal=True, **k
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@every_algorithm
def test_memory_is_at_most_three_times_the_factors(name, device, make, grid, dtype):
    if algorithms()[name, device].vendor:
        pytest.skip("the vendor's memory is not ours to bound")
    if algorithms()[name, device].special:
        pytest.skip("made for other triangles than these")
    A = GRIDS[grid]().astype(dtype)
    M = make(A, **forced(name, device))
    M @ np.ones(A.shape[0], dtype)
    factors = csr_bytes(M.L, M.U)
    assert factors / 3 < M.nbytes <= 3 * factors
    assert M.info.nbytes == M.nbytes


@every_algorithm
def test_transposed_forms_count_once_they_are_built(name, device):
    M = gpuilu.ilu0(unsymmetric(500, "complex128"), **forced(name, device))
    sizes = [M.nbytes]
    for trans in "TH":
        M.prepare(trans)
        M.solve(np.ones(500), trans)  # on a GPU the first solve takes scratch memory
        sizes.append(M.nbytes)
        M.solve(np.ones(500), trans)
        assert M.nbytes == sizes[-1]
    assert sizes[0] < sizes[1] < sizes[2]
    assert M.T.nbytes == M.nbytes


@pytest.mark.parametrize(
    "make",
    [
        gpuilu.ilu0,
        gpuilu.ssor,
        lambda A: gpuilu.gauss_seidel(A, sweep="forward"),
        lambda A: gpuilu.gauss_seidel(A, iterations=3),
        lambda A: gpuilu.ilu0(A, algorithm="level"),
        lambda A: gpuilu.ilu0(A).copy(),
        lambda A: gpuilu.TriangularSolver(sp.tril(A)),
        lambda A: gpuilu.TriangularSolver(sp.triu(A, 1), lower=False, unit_diagonal=True),
    ],
    ids=["ilu0", "ssor", "forward", "three sweeps", "level", "copy", "triangle", "unit triangle"],
)
def test_the_bytes_told_are_those_of_all_arrays_held(make):
    M = make(poisson(40, 50))
    assert M.nbytes == pytest.approx(bytes_held(M), rel=0.01)
    M.prepare()
    assert M.nbytes == pytest.approx(bytes_held(M), rel=0.01)


def test_what_update_and_repeated_sweeps_need_is_counted():
    A = poisson(30, 30)
    once, thrice = (gpuilu.gauss_seidel(A, iterations=k) for k in (1, 3))
    assert thrice.nbytes - once.nbytes == csr_bytes(A)
    given = gpuilu.from_factors(spla.splu(sp.csc_array(A)))
    assert given.nbytes > csr_bytes(given.L, given.U) / 2


def test_preparing_takes_any_of_the_three_letters_and_no_other():
    M = gpuilu.ilu0(tridiagonal())
    M.prepare("N")
    before = M.nbytes
    M.prepare()
    assert M.nbytes > before
    M.T.prepare("T")
    with pytest.raises(gpuilu.OptionError, match="'X'"):
        M.prepare("TX")
    assert M.check() is None


def test_an_operator_is_on_the_cpu_and_stays_there():
    M = gpuilu.ilu0(tridiagonal())
    assert M.to("cpu") is M
    assert M.info.device == "cpu"
    with pytest.raises(gpuilu.OptionError):
        M.to("abacus")
