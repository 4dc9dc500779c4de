"""What comes before the first solve, as Markdown tables: auto's set-up, and the papers' steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuilu.bench.results import Results, Setting, geometric_mean
from gpuilu.text import markdown

__all__ = ["auto_table", "mean_cell", "steps_table"]

HOSTS = ("cupyx", "scipy")  # whose transposition stands beside ours


def auto_table(results: Results, setting: Setting) -> str | None:
    """What "auto" chooses for 100 solves and for one; its set-ups over the vendor's analysis."""
    reference = results.reference(setting)
    rows, ratios = [], []
    for case in results.cases(setting):
        found = [results.good(setting, case, "auto", phase) for phase in ("setup", "setup_once")]
        theirs = results.ms(setting, case, reference, "setup")
        if None in found:
            continue
        times = [float((row or {})["ms"]) for row in found]
        ratios.append([ms / theirs if theirs else None for ms in times])
        cells = [case, _number(theirs, ".4g")]
        for row, ms, ratio in zip(found, times, ratios[-1], strict=True):
            cells += [(row or {})["chosen"], f"{ms:.4g}", _number(ratio, ".3g")]
        rows.append(cells)
    if not rows:
        return None
    means = [mean_cell([r[k] for r in ratios], len(rows)) for k in range(2)]
    rows.append([f"geometric mean, {len(rows)} cases", *[""] * 3, means[0], "", "", means[1]])
    head = ["case", reference, "for 100 solves", "[ms]", "ratio", "for one", "[ms]", "ratio"]
    return markdown([head, *rows])


def steps_table(results: Results, setting: Setting) -> str | None:
    """Transposition over the library's; levels over one of the vendor's solves; Kahn's over those.

    The steps are those of the first triangle, so they stand beside the first `op` alone.
    """
    alike = (s for s in results.settings() if replace(s, op=setting.op) == setting)
    if next(alike, setting) != setting:
        return None
    cases = [c for c in results.cases() if _step(results, setting, c, "levels", "kahn") is not None]
    if not cases:
        return None
    host = next((h for h in HOSTS if _step(results, setting, cases[0], "transpose", h)), HOSTS[0])
    reference = results.reference(setting)
    parts: dict[str, Callable[[str], float | None]] = {
        "in-degree": lambda c: _step(results, setting, c, "in_degree", "gpuilu"),
        "transpose": lambda c: _step(results, setting, c, "transpose", "gpuilu"),
        f"by {host}": lambda c: _step(results, setting, c, "transpose", host),
        "levels": lambda c: _step(results, setting, c, "count_levels", "self_scheduled"),
        "and sort": lambda c: _step(results, setting, c, "levels", "self_scheduled"),
        "Kahn": lambda c: _step(results, setting, c, "levels", "kahn"),
        f"{reference} solve": lambda c: results.ms(setting, c, reference),
    }
    ratios = {
        f"transpose / {host}": ("transpose", f"by {host}"),
        "levels / solve": ("levels", f"{reference} solve"),
        "and sort / solve": ("and sort", f"{reference} solve"),
        "Kahn / levels and sort": ("Kahn", "and sort"),
    }
    rows, found = [], []
    for case in cases:
        times = {name: part(case) for name, part in parts.items()}
        found.append([_over(times[a], times[b]) for a, b in ratios.values()])
        rows.append([case, *(_number(t, ".4g") for t in times.values())])
        rows[-1] += [_number(r, ".3g") for r in found[-1]]
    means = [mean_cell([r[k] for r in found], len(cases)) for k in range(len(ratios))]
    rows.append([f"geometric mean, {len(cases)} cases", *[""] * len(parts), *means])
    return markdown([["case", *parts, *ratios], *rows])


def mean_cell(values: list[float | None], n_cases: int, form: str = ".3g") -> str:
    """A geometric mean; it tells over how many cases where they are not all."""
    known = [v for v in values if v is not None]
    mean = geometric_mean(known)
    if mean is None:
        return "-"
    return f"{mean:{form}}" + ("" if len(known) == n_cases else f" ({len(known)} cases)")


def _step(results: Results, setting: Setting, case: str, op: str, algorithm: str) -> float | None:
    return results.ms(replace(setting, op=op), case, algorithm, "run")


def _over(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"
