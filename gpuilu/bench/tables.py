"""A record as Markdown tables: cases, times, GFLOPS, ratios, memory, errors, break-even, precision.

Failures stay in: a cell is then the name of the error. What an algorithm does not support is a
dash, and a line below the table says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuilu.bench.cases import known
from gpuilu.bench.record import Record, Row
from gpuilu.bench.results import (
    Results,
    Setting,
    break_even,
    gflops,
    parallelism,
)
from gpuilu.bench.setups import auto_table, mean_cell, steps_table
from gpuilu.errors import UnsupportedAlgorithmError, require_choice
from gpuilu.text import markdown

__all__ = ["TABLES", "document", "markdown"]

Cell = Callable[[Results, Setting, str, str], str]


def document(record: Record, names: Sequence[str] = ()) -> str:
    """All tables, or those of `names`, of every setting of a record.

    Raises
    ------
    OptionError
        If there is no table of a name.
    """
    for name in names:
        require_choice("table", name, NAMES)
    results = Results(record)
    header = record.header
    parts = [
        f"{header['card']}, driver {header['driver']}, CuPy {header['cupy']}; commit "
        f"{header['commit']}, {header['date']}."
    ]
    if not names or "cases" in names:
        parts += ["## Cases", cases_table(results)]
    for setting in results.settings():
        own = _of_setting(results, setting, [n for n in NAMES if not names or n in names])
        parts += [f"## {setting}", *own] if own else []
    if not names or "precision" in names:
        parts += [part for part in [precision_table(results)] if part]
    return "\n\n".join(parts) + "\n"


def _of_setting(results: Results, setting: Setting, names: Sequence[str]) -> list[str]:
    """Titles and tables in turn."""
    parts = []
    reference = results.reference(setting)
    compares = reference in results.algorithms(setting)
    for name in names:
        title, table = "", None
        if name in TABLES and (compares or name not in COMPARISONS):
            title, cell = TABLES[name]
            table = by_algorithm(results, setting, cell, name)
        elif name in SETUPS:
            title, make = SETUPS[name]
            table = make(results, setting)
        if table is not None:
            parts += [f"### {title.format(reference=reference)}", table]
    notes = _unsupported(results, setting)
    return [*parts, notes] if notes and set(names) & set(TABLES) else parts


def cases_table(results: Results) -> str:
    """n, nnz, levels and rows a level of each case, by its first row of a lower triangle."""
    head = ["case", "what", "stands for", "n", "nnz", "levels", "n / levels"]
    rows = []
    for case in results.cases():
        own = [r for r in results.rows if r["case"] == case]
        row = next((r for r in own if r["op"] == "lower"), own[0])
        listed = known(case)
        what = [listed.title, listed.like] if listed else ["a file", ""]
        counts = [f"{row[name]:,}" for name in ("n", "nnz", "n_levels")]
        rows.append([case, *what, *counts, f"{parallelism(row):,.0f}"])
    return markdown([head, *rows], left=3)


def by_algorithm(results: Results, setting: Setting, cell: Cell, name: str) -> str:
    """A row for each case, a column for each algorithm."""
    names = results.algorithms(setting)
    cases = results.cases(setting)
    rows = [[case, *(_shown(results, setting, case, a, cell) for a in names)] for case in cases]
    if name == "ratio":
        reference = results.reference(setting)
        found = [results.ratios(setting, a, reference) for a in names]
        means = [mean_cell([f.get(case) for case in cases], len(cases)) for f in found]
        rows.append([_mean_of(cases), *means])
    return markdown([["case", *names], *rows])


def _mean_of(cases: Sequence[str]) -> str:
    return f"geometric mean, {len(cases)} cases"


def _shown(results: Results, setting: Setting, case: str, algorithm: str, cell: Cell) -> str:
    row = results.row(setting, case, algorithm)
    if row is None:
        return ""
    if "error" in row:
        return "-" if row["error"] == UNSUPPORTED else str(row["error"])
    return cell(results, setting, case, algorithm)


UNSUPPORTED = UnsupportedAlgorithmError.__name__


def _unsupported(results: Results, setting: Setting) -> str:
    """A line for each algorithm that does not support some of the cases."""
    lines = []
    for algorithm in results.algorithms(setting):
        rows = [results.row(setting, case, algorithm) for case in results.cases(setting)]
        refused = [row for row in rows if row is not None and row.get("error") == UNSUPPORTED]
        if refused:
            message = str(refused[0].get("message", "")).removeprefix(f"algorithm {algorithm!r} ")
            lines.append(
                f"A dash of `{algorithm}`: {len(refused)} of {len(rows)} cases are not supported; "
                f"of {refused[0]['case']} it says: {message}."
            )
    return "\n\n".join(lines)


# ---- cells --------------------------------------------------------------------------------------


def _of_row(show: Callable[[Row], str], phase: str = "solve") -> Cell:
    def cell(results: Results, setting: Setting, case: str, algorithm: str) -> str:
        row = results.good(setting, case, algorithm, phase)
        return "-" if row is None else show(row)

    return cell


def _ratio(results: Results, setting: Setting, case: str, algorithm: str) -> str:
    found = results.ratios(setting, algorithm, results.reference(setting), cases=[case])
    return f"{found[case]:.3g}" if found else "-"


def _of_floor(row: Row) -> str:
    return f"{row['ms'] / row['floor_ms']:.1f}" if row.get("floor_ms") else "-"


def _of_prediction(row: Row) -> str:
    return f"{row['ms'] / row['predicted_ms']:.2f}" if row.get("predicted_ms") else "-"


def _memory(row: Row) -> str:
    return "-" if row["nbytes"] is None else f"{row['nbytes'] / 1e6:.1f}"


def _error(row: Row) -> str:
    return "-" if row["backward_error"] is None else f"{row['backward_error']:.1e}"


def _break_even(results: Results, setting: Setting, case: str, algorithm: str) -> str:
    reference = results.reference(setting)
    ours, theirs = (results.pairs(setting, case, a) for a in (algorithm, reference))
    if ours is None or theirs is None or algorithm == reference:
        return "-"
    count = break_even(ours, theirs)
    if count is not None:
        return str(count)
    # A cheaper set-up may still win for a few solves.
    last = break_even(theirs, ours)
    return "never" if not last else f"only below {last}"


TABLES: dict[str, tuple[str, Cell]] = {
    "solve": ("Solve [ms]", _of_row(lambda row: f"{row['ms']:.4g}")),
    "ratio": ("Speed, {reference} = 1", _ratio),
    "floor": ("Time over the yardstick", _of_row(_of_floor)),
    "model": ("Time over the prediction", _of_row(_of_prediction)),
    "gflops": ("GFLOPS, 2 nnz / t", _of_row(lambda row: f"{gflops(row):.2f}")),
    "setup": ("Set-up [ms]", _of_row(lambda row: f"{row['ms']:.4g}", "setup")),
    "break_even": ("Solves from which it beats {reference} in total", _break_even),
    "memory": ("Memory, the matrix included [MB]", _of_row(_memory)),
    "error": ("Backward error", _of_row(_error)),
}
COMPARISONS = ("ratio", "break_even")  # nothing but that


SETUPS: dict[str, tuple[str, Callable[[Results, Setting], str | None]]] = {
    "auto": ("Set-up of auto [ms], and over that of {reference}", auto_table),
    "steps": ("Steps of a set-up [ms]", steps_table),
}
NAMES = ("cases", *TABLES, *SETUPS, "precision")


def precision_table(results: Results) -> str:
    """t(float32) / t(float64), which is speed in double over speed in single (003, figure 10)."""
    parts = []
    for double in results.settings():
        single = Setting("float32", double.op, double.nrhs, double.trans, double.share)
        names = results.algorithms(double)
        cases = results.cases(double)
        if double.dtype != "float64" or single not in results.settings():
            continue
        found = {a: {c: precision(results, double, c, a) for c in cases} for a in names}
        rows = [[c, *(_number(found[a][c]) for a in names)] for c in cases]
        means = [mean_cell(list(found[a].values()), len(cases), ".2f") for a in names]
        rows.append([_mean_of(cases), *means])
        title = f"## Speed in double precision, single = 1: {double.op}"
        parts += [title, markdown([["case", *names], *rows])]
    return "\n\n".join(parts)


def precision(results: Results, double: Setting, case: str, algorithm: str) -> float | None:
    """t(float32) / t(float64) of one case."""
    single = Setting("float32", double.op, double.nrhs, double.trans, double.share)
    ours, theirs = results.ms(double, case, algorithm), results.ms(single, case, algorithm)
    return theirs / ours if ours and theirs is not None else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
