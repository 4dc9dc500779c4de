"""A record as figures (PNG): throughput, ratios, precision, aspect ratios, shares of the card."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuilu.bench.cases import CASES
from gpuilu.bench.products import PRODUCTS
from gpuilu.bench.record import Record
from gpuilu.bench.results import (
    REFERENCE,
    Results,
    Setting,
    geometric_mean,
    gflops,
    parallelism,
)
from gpuilu.bench.tables import precision
from gpuilu.errors import BackendUnavailableError, require_choice

__all__ = ["FIGURES", "draw"]

MARKERS = "osD^v<>PX*hp"
LINES = ("-", "--", "-.", ":")


def draw(record: Record, folder: str | Path, names: Sequence[str] = ()) -> list[Path]:
    """Save the figures for which a record has numbers; the files made.

    Raises
    ------
    BackendUnavailableError
        If matplotlib is not installed.
    OptionError
        If there is no figure of a name.
    """
    for name in names:
        require_choice("figure", name, tuple(FIGURES))
    figure_class = _figure_class()
    results = Results(record)
    made = []
    for name in names or FIGURES:
        for suffix, figure in FIGURES[name](results, figure_class):
            path = Path(folder) / f"{name}{suffix}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=150)
            made.append(path)
    return made


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BackendUnavailableError(
            "figures need matplotlib; install it with: pip install 'gpuilu[bench]'"
        ) from error
    return Figure


Drawn = list[tuple[str, Any]]  # (end of the file's name, figure)


def _style(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each name; the reference is black, "auto" red."""
    from matplotlib import colormaps

    table = colormaps["tab20"]
    palette = [table(k) for k in range(20) if k not in (6, 7)]  # no reds
    others = [name for name in names if name not in ("auto", REFERENCE)]
    colours: dict[str, Any]
    colours = {name: palette[2 * k % 18 + k // 9 % 2] for k, name in enumerate(others)}
    colours |= {"auto": "tab:red", REFERENCE: "black"}
    style = {
        name: {"color": colours[name], "marker": MARKERS[k % len(MARKERS)], "markersize": 7}
        | {"markeredgecolor": "white", "markeredgewidth": 0.5}
        for k, name in enumerate(names)
    }
    if REFERENCE in style:  # below the others, which crowd around it
        style[REFERENCE] |= {"markersize": 8, "zorder": 1.5}
    if "auto" in style:  # a ring around what it chose
        ring = {"markerfacecolor": "none", "markeredgecolor": "tab:red", "markeredgewidth": 1.2}
        style["auto"] |= {"markersize": 12, "zorder": 3} | ring
    return style


def _ending(setting: Setting, first: Setting) -> str:
    """A suffix for what differs from the first setting."""
    words = [str(getattr(setting, f)) for f in ("dtype", "op", "nrhs", "trans")]
    plain = [str(getattr(first, f)) for f in ("dtype", "op", "nrhs", "trans")]
    return "".join(f"_{w}" for w, p in zip(words, plain, strict=True) if w != p)


def _whole(results: Results) -> list[Setting]:
    """Settings that used the whole card."""
    return [s for s in results.settings() if s.share is None]


def _title(results: Results, setting: Setting | None = None) -> str:
    card = str(results.header["card"])
    return card if setting is None else f"{card}, {setting}"


def _legend(figure: Any) -> None:
    """Beside the axes, so that it covers nothing; a name once, whichever panels have it."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside right upper")


def _log_grid(axes: Any) -> None:
    axes.grid(alpha=0.4)
    axes.grid(alpha=0.12, which="minor")


# ---- throughput against parallelism -------------------------------------------------------------


def _throughput(results: Results, figure_class: Any) -> Drawn:
    drawn = []
    for setting in _whole(results):
        figure = figure_class(figsize=(10, 6), layout="constrained")
        axes = figure.add_subplot()
        names = results.algorithms(setting)
        for name, style in _style(names).items():
            rows = [results.good(setting, case, name) for case in results.cases(setting)]
            points = sorted((parallelism(row), gflops(row)) for row in rows if row)
            if points:
                axes.plot(*zip(*points, strict=True), linestyle="none", label=name, **style)
        axes.set(xscale="log", yscale="log", title=_title(results, setting))
        axes.set_xlabel("parallelism: rows a level, n / levels")
        axes.set_ylabel("throughput, 2 nnz / t [GFLOPS]")
        _log_grid(axes)
        _legend(figure)
        drawn.append((_ending(setting, _whole(results)[0]), figure))
    return drawn


# ---- ratio to the vendor ------------------------------------------------------------------------


def _ratio(results: Results, figure_class: Any) -> Drawn:
    """A map with a row for each case, a column for each algorithm, and the means below."""
    drawn = []
    for setting in _whole(results):
        reference = results.reference(setting)
        names = [a for a in results.algorithms(setting) if a != reference]
        ratios = {a: found for a in names if (found := results.ratios(setting, a, reference))}
        if ratios:
            figure = _map(ratios, results.cases(setting), figure_class)
            title = f"{_title(results, setting)}: speed of the solve, {reference} = 1"
            figure.suptitle(f"{title} (more is better)", fontsize=11)
            drawn.append((_ending(setting, _whole(results)[0]), figure))
    return drawn


def _map(ratios: dict[str, dict[str, float]], cases: Sequence[str], figure_class: Any) -> Any:
    """Blue where faster, red where slower than 1, by the logarithm; a dash where there is none."""
    from matplotlib.colors import SymLogNorm

    rows = [[found.get(case) for found in ratios.values()] for case in cases]
    rows.append([geometric_mean(found.values()) for found in ratios.values()])
    values = [[math.log10(v) if v else math.nan for v in row] for row in rows]
    size = 2.2 + 0.72 * len(ratios), 1.5 + 0.3 * len(rows)
    figure = figure_class(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    norm = SymLogNorm(0.3, vmin=-2.0, vmax=2.0)  # pale only near 1
    axes.imshow(values, cmap="RdBu", norm=norm, aspect="auto", alpha=0.75)
    for k, row in enumerate(rows):
        for j, v in enumerate(row):
            pale = v is None or abs(math.log10(v)) < 0.9
            look = {"color": "black" if pale else "white", "fontsize": 10}
            look["fontweight"] = "bold" if k == len(cases) else "normal"
            axes.text(j, k, _short(v), ha="center", va="center", **look)
    axes.axhline(len(cases) - 0.5, color="black", linewidth=1.5)
    counts = [
        "" if len(found) == len(cases) else f" ({len(found)} cases)" for found in ratios.values()
    ]
    labels = [f"{a}{count}" for a, count in zip(ratios, counts, strict=True)]
    axes.set_xticks(range(len(ratios)), labels, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), [*cases, "geometric mean"])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    return figure


def _short(value: float | None) -> str:
    """Two or three digits; a dash for nothing."""
    if value is None:
        return "-"
    digits = 0 if value >= 9.95 else 1 if value >= 0.995 else 2 if value >= 0.0995 else 3
    return f"{value:.{digits}f}"


# ---- single against double ----------------------------------------------------------------------


def _precision(results: Results, figure_class: Any) -> Drawn:
    drawn = []
    for double in _whole(results):
        if double.dtype != "float64" or replace(double, dtype="float32") not in results.settings():
            continue
        cases = results.cases(double)
        found = {
            a: [v for c in cases if (v := precision(results, double, c, a)) is not None]
            for a in results.algorithms(double)
        }
        found = {a: values for a, values in found.items() if values}
        figure = figure_class(figsize=(2.5 + 0.65 * len(found), 5.5), layout="constrained")
        axes = figure.add_subplot()
        counts = {a: "" if len(v) == len(cases) else f" ({len(v)})" for a, v in found.items()}
        labels = [f"{a}{count}" for a, count in counts.items()]
        axes.boxplot(list(found.values()), tick_labels=labels)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.axhline(0.5, color="gray", linewidth=0.8, linestyle=":")
        every = [v for values in found.values() for v in values]
        axes.set_ylim(min(0.4, 0.95 * min(every)), max(1.2, 1.05 * max(every)))
        axes.set_ylabel("speed in double precision, single = 1")
        axes.set_title(f"{_title(results)}, {double.op}, {len(cases)} cases", fontsize=11)
        axes.set_xticks(axes.get_xticks(), labels, rotation=35, ha="right", rotation_mode="anchor")
        axes.grid(axis="y", alpha=0.3)
        drawn.append((_ending(double, _whole(results)[0]), figure))
    return drawn


# ---- grids of one size and several shapes (figures 5.1 and 5.2 of paper 004) --------------------


def _aspect(results: Results, figure_class: Any) -> Drawn:
    drawn = []
    for setting in _whole(results):
        stencils: dict[str, list[str]] = {}
        for case in results.cases(setting):
            if case in CASES and "grids" in CASES[case].groups:
                stencils.setdefault(case.split("_")[0], []).append(case)
        stencils = {name: cases for name, cases in stencils.items() if len(cases) > 2}
        if not stencils:
            continue
        figure = figure_class(figsize=(13, 9 if len(stencils) > 2 else 5), layout="constrained")
        panels = figure.subplots(-(-len(stencils) // 2), 2, squeeze=False).flat
        styles = _style(results.algorithms(setting))
        for axes, (stencil, cases) in zip(panels, stencils.items(), strict=False):
            for name, style in styles.items():
                rows = [results.good(setting, case, name) for case in cases]
                values = [gflops(row) if row else math.nan for row in rows]
                if any(rows):
                    axes.plot(range(len(cases)), values, label=name, **style)
            labels = [case.split("_")[1] for case in cases]
            axes.set_xticks(range(len(cases)), labels, fontsize=9)
            axes.set(yscale="log", title=f"{stencil[1]}-D, {stencil[3:]} points", xlabel="grid")
            axes.set_ylabel("2 nnz / t [GFLOPS]")
            _log_grid(axes)
        _legend(figure)
        figure.suptitle(_title(results, setting))
        drawn.append((_ending(setting, _whole(results)[0]), figure))
    return drawn


# ---- shares of the card -------------------------------------------------------------------------


def _shares(results: Results, figure_class: Any) -> Drawn:
    """Geometric means over cases with few, some and many rows a level."""
    whole = Setting()
    limited = [
        s for s in results.settings() if s.share is not None and replace(s, share=None) == whole
    ]
    if not limited:
        return []
    settings = [*sorted(limited, key=lambda s: s.share or 0), whole]
    counts = [_multiprocessors(results, setting) for setting in settings[:-1]]
    positions = [
        *counts,
        max(round(c / (s.share or 1)) for c, s in zip(counts, settings, strict=False)),
    ]
    groups = _by_width(results, settings)
    figure = figure_class(figsize=(5.0 * len(groups) + 2, 6), layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False).flat
    there = {
        *results.algorithms(limited[0]),
        results.reference(whole),
    }  # which has the whole card only
    names = [a for a in results.algorithms(whole) if a in there]
    styles = _style([*names, *PRODUCTS])
    for axes, (title, cases) in zip(panels, groups.items(), strict=True):
        for name, style in styles.items():
            line = "--" if name in PRODUCTS else "-"
            values = [_mean_gflops(results, s, cases, name) for s in settings]
            if any(v is not None for v in values):
                numbers = [math.nan if v is None else v for v in values]
                axes.plot(positions, numbers, linestyle=line, label=name, **style)
        axes.set(xscale="log", yscale="log", title=f"{title}: {len(cases)} cases")
        axes.set_xticks(positions, [*map(str, counts), "all"])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("multiprocessors")
        axes.set_ylabel("geometric mean of 2 nnz / t [GFLOPS]")
        _log_grid(axes)
    _legend(figure)
    figure.suptitle(
        f"{_title(results, whole)}; dashed: CuPy (spgemm by its own operations, not 2 nnz)"
    )
    return [("", figure)]


def _multiprocessors(results: Results, setting: Setting) -> int:
    rows = (r for r in results.rows if Setting.of(r) == setting and "multiprocessors" in r)
    return int(next(rows)["multiprocessors"])


WIDTHS = {
    "few rows a level (< 2,000)": (0, 2_000),
    "some (to 20,000)": (2_000, 20_000),
    "many rows a level (from 20,000)": (20_000, float("inf")),
}


def _by_width(results: Results, settings: Sequence[Setting]) -> dict[str, list[str]]:
    """Cases that all settings have, by rows a level."""
    common = [c for c in results.cases(settings[0]) if all(c in results.cases(s) for s in settings)]
    width = {
        row["case"]: parallelism(row) for row in results.rows if Setting.of(row) == settings[0]
    }
    groups = {
        title: [c for c in common if low <= width[c] < high]
        for title, (low, high) in WIDTHS.items()
    }
    return {title: cases for title, cases in groups.items() if cases}


def _mean_gflops(
    results: Results, setting: Setting, cases: Sequence[str], name: str
) -> float | None:
    """Over the cases; of a solver, or of the host library's product of that name."""
    if name in PRODUCTS:
        host, at = "cupyx", replace(setting, op=name)
        rows = [results.good(at, case, host, "run") for case in cases]
    else:
        rows = [results.good(setting, case, name) for case in cases]
    if not all(rows):
        return None
    return geometric_mean(gflops(row) for row in rows if row)


FIGURES: dict[str, Callable[[Results, Any], Drawn]] = {
    "throughput": _throughput,
    "ratio": _ratio,
    "precision": _precision,
    "aspect": _aspect,
    "shares": _shares,
}
