"""Preconditioners by name, Jacobi, warming up, and the solver that fits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import DTYPES, convection_diffusion, poisson

import gpuilu
from gpuilu import krylov


@pytest.mark.parametrize("name", ["ilu0", "gauss_seidel", "sor", "ssor"])
def test_a_name_means_the_function_of_that_name(name):
    A, keywords = poisson(5, 5), {"omega": 1.3} if name in ("sor", "ssor") else {}
    M = krylov.preconditioner(name, A, **keywords)
    expected = getattr(gpuilu, name)(A, **keywords)
    np.testing.assert_array_equal(M @ np.arange(25.0), expected @ np.arange(25.0))


def test_none_is_no_preconditioner():
    assert krylov.preconditioner("none", poisson(3, 3)) is None


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        ("ilu", {}, "preconditioner must be one of"),
        ("sor", {}, "sor needs omega"),
        ("ilu0", {"omega": 1.0}, "ilu0 takes no omega, only pivot"),
        ("jacobi", {"algorithm": "serial"}, "jacobi takes no algorithm, only device"),
        ("none", {"pivot": "boost"}, "none takes no pivot"),
    ],
)
def test_a_wrong_name_or_keyword_is_an_option_error(name, keywords, message):
    with pytest.raises(gpuilu.OptionError, match=message):
        krylov.preconditioner(name, poisson(3, 3), **keywords)


def test_jacobi_divides_by_the_diagonal_and_its_adjoint_by_the_conjugate():
    M = krylov.Jacobi(sp.csr_array([[2.0 + 0j, 1.0], [0.0, 1j]]))
    np.testing.assert_array_equal(M @ np.array([2.0, 1.0]), [1.0, -1j])
    np.testing.assert_array_equal(M.H @ np.array([2.0, 1.0]), [1.0, 1j])
    np.testing.assert_array_equal(M @ np.eye(2), [[0.5, 0.0], [0.0, -1j]])
    assert M.dtype == complex
    assert not M.is_symmetric


def test_jacobi_of_an_integer_matrix_is_float64():
    M = krylov.Jacobi(sp.csr_array([[2, 1], [0, 4]]))
    assert M.dtype == float
    np.testing.assert_array_equal(M @ np.ones(2), [0.5, 0.25])


@pytest.mark.parametrize("entry", [0.0, None])
def test_jacobi_names_the_row_without_a_diagonal(entry):
    A = sp.lil_array((3, 3))
    A[0, 0] = A[1, 2] = 1.0
    if entry is not None:
        A[1, 1] = entry
    with pytest.raises(gpuilu.ZeroPivotError, match="row 1") as caught:
        krylov.Jacobi(A.tocsr())
    assert caught.value.row == 1


@pytest.mark.parametrize("dtype", ["int64", *DTYPES])
@pytest.mark.parametrize("name", ["none", "jacobi", "ilu0", "gauss_seidel"])
def test_warming_up_makes_one_and_leaves_the_matrix_alone(name, dtype):
    A, made = poisson(4, 4).astype(dtype), []

    def make(A):
        made.append(krylov.preconditioner(name, A))
        return made[-1]

    krylov.warm_up(make, A)
    assert len(made) == 1
    np.testing.assert_array_equal(A.toarray(), poisson(4, 4).toarray())


def test_nothing_is_left_to_compile_after_warming_up():
    from gpuilu.factor import ilu0

    A = poisson(9, 9).astype("complex64")
    krylov.warm_up(gpuilu.ilu0, A)
    compiled = len(ilu0._eliminate.signatures)
    gpuilu.ilu0(A)
    assert len(ilu0._eliminate.signatures) == compiled


@pytest.mark.parametrize(
    ("A", "solver", "reason"),
    [
        (poisson(4, 4), "cg", "Hermitian with a positive diagonal"),
        (sp.csr_array([[2.0, 1j], [-1j, 2.0]]), "cg", "Hermitian with a positive diagonal"),
        (sp.csr_array([[2.0, 1j], [1j, 2.0]]), "gmres", "not Hermitian"),
        (convection_diffusion(4), "gmres", "not Hermitian"),
        (sp.csr_array([[1.0, 2.0], [2.0, -1.0]]), "gmres", "diagonal is not positive"),
        (sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), "gmres", "diagonal is not positive"),
    ],
)
def test_cg_is_for_hermitian_matrices_with_a_positive_diagonal(A, solver, reason):
    chosen, why = krylov.choose_solver(A)
    assert chosen == solver
    assert reason in why


def test_cg_is_not_chosen_for_a_preconditioner_that_is_not_symmetric():
    A = poisson(4, 4)
    assert krylov.choose_solver(A, gpuilu.ilu0(A))[0] == "cg"
    assert krylov.choose_solver(A, krylov.Jacobi(A))[0] == "cg"
    solver, reason = krylov.choose_solver(A, gpuilu.sor(A, omega=1.0))
    assert (solver, reason) == ("gmres", "the preconditioner is not Hermitian")


def test_hermitian_means_to_rounding():
    A = poisson(4, 4)
    A.data[1] *= 1 + 1e-15
    assert krylov.is_hermitian(A)
    A.data[1] *= 1 + 1e-10
    assert not krylov.is_hermitian(A)
