"""One system under several preconditioners: every run is there, and what failed says why."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cases import convection_diffusion, poisson

import gpuilu
from gpuilu import krylov
from gpuilu.__main__ import main


def test_every_preconditioner_is_run_and_the_fastest_is_marked():
    A = poisson(20, 20)
    found = gpuilu.compare(A, np.ones(400))
    assert (found.solver, found.failures) == ("cg", {})
    assert list(found.outcomes) == ["none", "jacobi", "gauss_seidel", "ilu0"]
    counts = {name: o.iterations for name, o in found.outcomes.items()}
    assert counts["ilu0"] < counts["gauss_seidel"] < counts["none"]
    marked = [line for line in str(found).splitlines() if line.endswith("fastest")]
    assert [line.split()[0] for line in marked] == [found.fastest]
    total = {k: o.setup_ms + o.solve_ms for k, o in found.outcomes.items()}
    assert total[found.fastest] == min(total.values())


def test_the_runs_are_those_of_solve():
    A, b = convection_diffusion(12), np.arange(144.0)
    found = gpuilu.compare(A, b, preconditioners=["ilu0"], rtol=1e-9)
    _, alone = krylov.solve(A, b, M=gpuilu.ilu0(A), solver="gmres", rtol=1e-9)
    assert found.solver == "gmres"
    assert found.outcomes["ilu0"].residuals == alone.residuals


def test_algorithms_multiply_the_preconditioners_that_solve():
    found = gpuilu.compare(
        poisson(9, 9),
        preconditioners=["none", "ilu0", "ssor"],
        algorithms=["serial", "level"],
        device="cpu",
        omega=1.2,
    )
    names = ["none", "ilu0 by serial", "ilu0 by level", "ssor by serial", "ssor by level"]
    assert list(found.outcomes) == names
    one, other = (found.outcomes[f"ilu0 by {a}"] for a in ("serial", "level"))
    assert one.iterations == other.iterations


def test_a_preconditioner_that_fails_is_named_with_its_reason_and_the_others_run():
    A = sp.csr_array(np.array([[0.0, 1, 0], [1, 2, 1], [0, 1, 3]]))
    found = gpuilu.compare(A, np.ones(3), preconditioners=["none", "ilu0"])
    assert list(found.outcomes) == ["none"]
    assert "row 0" in found.failures["ilu0"]
    assert "ilu0: " in str(found)


def test_what_cg_cannot_take_is_no_run_of_cg():
    found = gpuilu.compare(poisson(5, 5), preconditioners=["sor", "none"], solver="cg", omega=1.5)
    assert list(found.outcomes) == ["none"]
    assert "not Hermitian" in found.failures["sor"]
    assert "sor" in gpuilu.compare(poisson(5, 5), preconditioners=["sor"], solver="gmres").outcomes


def test_without_a_run_that_converged_there_is_no_fastest():
    found = gpuilu.compare(poisson(30, 30), preconditioners=["none"], maxiter=1)
    assert found.fastest is None
    assert "not converged" in str(found)


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"preconditioners": ["what"]}, gpuilu.OptionError),
        ({"preconditioners": []}, gpuilu.OptionError),
        ({"algorithms": []}, gpuilu.OptionError),
        ({"algorithms": ["what"]}, gpuilu.UnknownAlgorithmError),
        ({"solver": "what"}, gpuilu.OptionError),
    ],
)
def test_names_that_do_not_exist_are_errors(keywords, error):
    with pytest.raises(error):
        gpuilu.compare(poisson(3, 3), **keywords)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'what'"):
        gpuilu.what  # noqa: B018


def test_the_command_prints_the_comparison(capsys):
    arguments = ["laplacian2d:12", "--preconditioners", "none,ilu0", "--algorithms", "serial,level"]
    assert main(["compare", *arguments, "--device", "cpu"]) == 0
    output = capsys.readouterr().out
    assert "solver cg: the matrix is Hermitian" in output
    assert [line.split("  ")[0] for line in output.splitlines()[3:]] == [
        "cg on cpu",
        "none",
        "ilu0 by serial",
        "ilu0 by level",
    ]
    assert main(["compare", "laplacian2d:40", "--preconditioners", "none", "--maxiter", "1"]) == 1
