"""Break-even worked on paper, the table letter by letter, the plot as a file."""

from __future__ import annotations

import sys

import pytest

import gpuilu
from gpuilu import krylov


def outcome_of(name="ilu0", *, converged=True, setup_ms=10.0, solve_ms=60.0, n_applies=20):
    return krylov.Outcome(
        solver="cg",
        preconditioner=name,
        device="cpu",
        converged=converged,
        iterations=20,
        residuals=(0.1, 1e-7),
        true_residual=1e-7,
        n_applies=n_applies,
        setup_ms=setup_ms,
        solve_ms=solve_ms,
        apply_ms=1.5 if n_applies else None,
    )


NONE = outcome_of("none", setup_ms=0.0, solve_ms=100.0, n_applies=0)


@pytest.mark.parametrize(
    ("with_", "without", "applies"),
    [
        (outcome_of(), NONE, 5),  # 20 applies save 40 ms, 2 ms each: 10 / 2
        (outcome_of(setup_ms=3.0), NONE, 2),  # 3 / 2, rounded up
        (outcome_of(), outcome_of("jacobi", setup_ms=2.0, solve_ms=100.0), 4),  # (10 - 2) / 2
        (outcome_of(setup_ms=100.0), NONE, 50),  # more than one run makes
        (outcome_of(setup_ms=1.0), outcome_of("ssor", setup_ms=2.0, solve_ms=100.0), 0),
        (outcome_of(solve_ms=100.0), NONE, None),
        (outcome_of(solve_ms=101.0), NONE, None),
        (outcome_of(converged=False), NONE, None),
        (outcome_of(), outcome_of("none", converged=False, solve_ms=1.0), 0),
    ],
)
def test_break_even_is_the_set_up_over_what_an_apply_saves(with_, without, applies):
    assert krylov.break_even(with_, without) == applies


def test_the_table_is_this():
    failed = outcome_of("jacobi", converged=False, setup_ms=0.25, solve_ms=5.0)
    assert krylov.table([NONE, failed, outcome_of()]) == "\n".join(
        [
            "cg on cpu  iterations  set-up [ms]  apply [ms]  solution [ms]  true residual",
            "none               20            -           -          100.0        1.0e-07",
            "jacobi             20         0.25       1.500            5.0        1.0e-07"
            "  not converged",
            "ilu0               20        10.00       1.500           60.0        1.0e-07",
            "The set-up of ilu0 has paid against none after 5 applies; this run made 20.",
            "The set-up of ilu0 has paid at once against jacobi, which did not converge.",
        ]
    )


def test_the_table_says_why_a_set_up_never_pays():
    assert "never pays against none: it saves no time" in krylov.table(
        [NONE, outcome_of(solve_ms=200.0)]
    )
    assert "never pays against none: it did not converge" in krylov.table(
        [NONE, outcome_of(converged=False)]
    )


def test_the_table_of_one_run_makes_no_comparison():
    assert len(krylov.table([NONE]).splitlines()) == 2


def test_the_plot_is_an_image_file(tmp_path):
    pytest.importorskip("matplotlib")
    krylov.plot([NONE, outcome_of()], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_in_no_known_format_is_an_option_error(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(gpuilu.OptionError, match=r"curves\.what"):
        krylov.plot([NONE], tmp_path / "curves.what")


def test_without_matplotlib_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(gpuilu.BackendUnavailableError, match=r"gpuilu\[plot\]"):
        krylov.plot([NONE], tmp_path / "curves.png")
