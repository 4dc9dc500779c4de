"""Break-even after ceil(S a / T) applies: runs side by side, in text and as curves."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from gpuilu.errors import BackendUnavailableError, OptionError
from gpuilu.krylov.run import Outcome
from gpuilu.text import aligned

__all__ = ["break_even", "plot", "table"]

COLUMNS = {
    "iterations": lambda o: str(o.iterations),
    "set-up [ms]": lambda o: f"{o.setup_ms:.2f}" if o.setup_ms else "-",
    "apply [ms]": lambda o: "-" if o.apply_ms is None else f"{o.apply_ms:.3f}",
    "solution [ms]": lambda o: f"{o.solve_ms:.1f}",
    "true residual": lambda o: f"{o.true_residual:.1e}",
    "": lambda o: "" if o.converged else "not converged",
}


def break_even(with_: Outcome, without: Outcome) -> int | None:
    """ceil(S a / T): applies after which the set-up of M has paid against another run.

    S is what M's set-up costs more than the other's, T what M saves in time to solution, and a the
    applies over which it saves that.

    Returns
    -------
    int or None
        0 if the set-up costs nothing more, or the other run did not converge, so that nothing was
        to be had without M. None, which means never, if M saves nothing or did not converge itself.
    """
    if not with_.converged:
        return None
    if not without.converged:
        return 0
    saved = without.solve_ms - with_.solve_ms
    if saved <= 0:
        return None
    return math.ceil(max(with_.setup_ms - without.setup_ms, 0.0) * with_.n_applies / saved)


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each run, and when the set-up of the last one has paid against the others."""
    rows = [[f"{outcomes[-1].solver} on {outcomes[-1].device}", *COLUMNS]]
    rows += [[o.preconditioner, *(show(o) for show in COLUMNS.values())] for o in outcomes]
    *others, last = outcomes
    return "\n".join([aligned(rows), *(_verdict(last, o) for o in others)])


def _verdict(with_: Outcome, without: Outcome) -> str:
    start = f"The set-up of {with_.preconditioner}"
    other = without.preconditioner
    count = break_even(with_, without)
    if count is None:
        why = "it saves no time" if with_.converged else "it did not converge"
        return f"{start} never pays against {other}: {why}."
    if count == 0:
        why = "" if without.converged else ", which did not converge"
        return f"{start} has paid at once against {other}{why}."
    unit = "apply" if count == 1 else "applies"
    return (
        f"{start} has paid against {other} after {count} {unit}; this run made {with_.n_applies}."
    )


def plot(outcomes: Sequence[Outcome], path: str | os.PathLike[str]) -> None:
    """Save the curves of ||b - A x|| / ||b|| over the iterations; needs matplotlib.

    Raises
    ------
    BackendUnavailableError
        If matplotlib is not installed.
    OptionError
        If the ending of `path` is no image format.
    """
    Figure = _figure_class()
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for outcome in outcomes:
        history = (1.0, *outcome.residuals)
        label = f"{outcome.preconditioner} ({outcome.iterations} iterations)"
        axes.semilogy(range(len(history)), history, label=label)
    axes.set_xlabel(f"iterations of {outcomes[0].solver} on {outcomes[0].device}")
    axes.set_ylabel("||b - A x|| / ||b||")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path)
    except ValueError as error:
        raise OptionError(f"{path}: {error}") from error


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BackendUnavailableError(
            "plotting needs matplotlib; install it with: pip install 'gpuilu[plot]'"
        ) from error
    return Figure
