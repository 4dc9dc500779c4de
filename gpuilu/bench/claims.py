"""The papers' main comparisons, with their numbers, and how the same comes out of our records.

000: Liu, Li, Hogg, Duff, Vinter, Euro-Par 2016. 001: Liu, a talk, Toulouse 2017. 003: Lu, Liu,
TileSpTRSV, 2023. 004: Li, arXiv:1710.04985, 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuilu.bench.cases import CASES
from gpuilu.bench.results import (
    REFERENCE,
    Results,
    Setting,
    break_even,
    geometric_mean,
    gflops,
    parallelism,
    span,
)
from gpuilu.bench.tables import precision

__all__ = ["CLAIMS", "NOTHING", "Claim"]

NOTHING = "not measured"
FLOAT64, FLOAT32 = Setting("float64"), Setting("float32")
WIDE, NARROW = 20_000, 2_000  # rows a level: a card of 100,000 threads is full, or nearly empty


@dataclass(frozen=True)
class Claim:
    """A comparison of a paper.

    Parameters
    ----------
    paper : str
    text : str
    card : str
        What the paper measured on.
    theirs : str
        The paper's numbers.
    ours : callable
        ours(results) is the same from a record, in words.
    """

    paper: str
    text: str
    card: str
    theirs: str
    ours: Callable[[Results], str]


# ---- words for numbers --------------------------------------------------------------------------


def _in_words(ratios: dict[str, float]) -> str:
    if not ratios:
        return NOTHING
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    mean = geometric_mean(ratios.values()) or 0.0
    if len(ratios) == 1:
        return f"{mean:.2f}x ({low})"
    return (
        f"geometric mean {mean:.2f}x over {len(ratios)} cases, "
        f"from {ratios[low]:.2f}x ({low}) to {ratios[high]:.2f}x ({high})"
    )


def _speed(
    algorithm: str,
    against: str = REFERENCE,
    *,
    setting: Setting = FLOAT64,
    phase: str = "solve",
    cases: Iterable[str] | None = None,
) -> Callable[[Results], str]:
    """t(against) / t(algorithm) in words."""

    def ours(results: Results) -> str:
        return _in_words(results.ratios(setting, algorithm, against, phase, cases))

    return ours


def _both_sweeps(ours: Callable[[Results, Setting], str]) -> Callable[[Results], str]:
    """(U + D)^-1 (L + D)^-1 as paper 004 has it, or where a record has none the lower solve."""

    def told(results: Results) -> str:
        both = replace(FLOAT64, op="apply")
        setting = both if both in results.settings() else FLOAT64
        text = ours(results, setting)
        return text if setting == both or text == NOTHING else f"{text} (lower solve only)"

    return told


def _sweeps_speed(
    algorithm: str, against: str, cases: Sequence[str] | None = None
) -> Callable[[Results], str]:
    return _both_sweeps(
        lambda results, setting: _in_words(results.ratios(setting, algorithm, against, cases=cases))
    )


def _grids(points: int) -> list[str]:
    dimensions = {5: 2, 9: 2, 7: 3, 27: 3}[points]
    return [name for name in CASES if name.startswith(f"g{dimensions}d{points}_")]


STENCILS = [name for points in (5, 9, 7, 27) for name in _grids(points)]


# ---- what the claims compute --------------------------------------------------------------------


def _precision(algorithms: Sequence[str]) -> Callable[[Results], str]:
    """Speed in double over speed in single, by algorithm."""

    def ours(results: Results) -> str:
        texts = []
        for a in algorithms:
            found = [precision(results, FLOAT64, c, a) for c in results.cases(FLOAT64)]
            values = [v for v in found if v is not None]
            if values:
                mean = geometric_mean(values) or 0.0
                texts.append(f"{a} {mean:.2f} ({span(values)})")
        return "; ".join(texts) or NOTHING

    return ours


def _memory(results: Results) -> str:
    ratios = {}
    for case in results.cases(FLOAT64):
        rows = [results.good(FLOAT64, case, a) for a in ("tile_level", "syncfree")]
        sizes = [row["nbytes"] for row in rows if row is not None and row["nbytes"]]
        if len(sizes) == 2:
            ratios[case] = sizes[0] / sizes[1]
    return NOTHING if not ratios else f"bytes over those of syncfree: {_in_words(ratios)}"


def _setup_in_solves(algorithm: str) -> Callable[[Results], str]:
    def ours(results: Results) -> str:
        found = {}
        for case in results.cases(FLOAT64):
            pair = results.pairs(FLOAT64, case, algorithm)
            if pair is not None and pair[1] > 0:
                found[case] = pair[0] / pair[1]
        return NOTHING if not found else f"set-up in solves, on the GPU: {_in_words(found)}"

    return ours


def _falls_with_aspect(results: Results, setting: Setting) -> str:
    """Throughput on the longest grid over that on the squarest, by stencil."""
    texts = []
    for points, first, last in (
        (5, "g2d5_1024x1024", "g2d5_64x16384"),
        (7, "g3d7_128", "g3d7_32x32x2048"),
    ):
        for algorithm in ("selfsched_col", "level_row", "syncfree", REFERENCE):
            rows = [results.good(setting, case, algorithm) for case in (last, first)]
            if None not in rows:
                ratio = gflops(rows[0] or {}) / gflops(rows[1] or {})
                texts.append(f"{algorithm}, {points}-point: {ratio:.2f}")
    return "; ".join(texts) or NOTHING


def _break_even(results: Results, setting: Setting) -> str:
    counts = {}
    for case in results.cases(setting):
        ours, theirs = (results.pairs(setting, case, a) for a in ("selfsched_col", REFERENCE))
        if ours is not None and theirs is not None:
            counts[case] = break_even(ours, theirs)
    if not counts:
        return NOTHING
    never = [case for case, count in counts.items() if count is None]
    known = [count for count in counts.values() if count is not None]
    text = f"{span(known, '{:d}')} solves; 0 for {known.count(0)} of {len(counts)}"
    return f"{text}; never for {len(never)} ({', '.join(never)})" if never else text


def _most_gflops(algorithm: str, cases: Sequence[str]) -> Callable[[Results], str]:
    def found(results: Results, setting: Setting) -> str:
        rows = {case: results.good(setting, case, algorithm) for case in cases}
        texts = [f"{gflops(row):.1f} GFLOPS ({case})" for case, row in rows.items() if row]
        return "; ".join(texts) or NOTHING

    return _both_sweeps(found)


def _scaling(algorithm: str) -> Callable[[Results], str]:
    """Speed on the whole card over that on the smallest share, for wide and for narrow cases."""

    def ours(results: Results) -> str:
        shares = [s.share for s in results.settings() if s.share is not None]
        if not shares:
            return NOTHING
        part = replace(FLOAT64, share=min(shares))
        groups: dict[str, list[float]] = {"many": [], "few": []}
        for case in results.cases(part):
            rows = [results.good(s, case, algorithm) for s in (part, FLOAT64)]
            if rows[0] is None or rows[1] is None:
                continue
            width = parallelism(rows[1])
            name = "many" if width >= WIDE else "few" if width < NARROW else ""
            if name:
                groups[name].append(rows[0]["ms"] / rows[1]["ms"])
        texts = [
            f"{geometric_mean(values) or 0:.2f}x with {name} rows a level ({len(values)} cases)"
            for name, values in groups.items()
            if values
        ]
        whole = f"whole card over {part.share:.0%} of it: "
        return whole + ", ".join(texts) if texts else NOTHING

    return ours


# ---- the claims ---------------------------------------------------------------------------------

TITAN, RTX, P100 = "Titan X (Maxwell)", "RTX 4090", "Tesla P100"
THREE_CARDS = "GTX 1060, GTX 1080, Titan X (Pascal)"

CLAIMS = (
    Claim(
        "000",
        "sync-free over csrsv2, double",
        TITAN,
        "average 2.14x, at most 3.65x (11 matrices)",
        _speed("syncfree"),
    ),
    Claim(
        "000",
        "sync-free over csrsv2, single",
        TITAN,
        "average 2.3x, at most 5.95x",
        _speed("syncfree", setting=FLOAT32),
    ),
    Claim(
        "000",
        "set-up of sync-free over csrsv2's analysis",
        f"{TITAN}; K40c",
        "average 43.7x, at most 70.5x; K40c 58.2x, 89.2x",
        _speed("syncfree", phase="setup"),
    ),
    Claim(
        "003",
        "TileSpTRSV, level sets, over cuSPARSE SpSV",
        RTX,
        "average 5.29x, at most 38.10x (16 matrices)",
        _speed("tile_level"),
    ),
    Claim(
        "003",
        "TileSpTRSV, level sets, over sync-free",
        RTX,
        "average 5.33x, at most 21.32x",
        _speed("tile_level", "syncfree"),
    ),
    Claim(
        "003",
        "TileSpTRSV, level sets over sync-free tiles",
        RTX,
        "at most 4.31x (boyd2)",
        _speed("tile_level", "tile_syncfree"),
    ),
    Claim(
        "003",
        "boyd2: over cuSPARSE (the arrow stands for it)",
        RTX,
        "3.75x, 35.19 GFLOPS",
        _speed("tile_level", cases=["arrow_466k"]),
    ),
    Claim(
        "003",
        "blockqp1: the best case over RecBlock; here over cuSPARSE (dense blocks)",
        RTX,
        "12.87x over RecBlock",
        _speed("tile_level", cases=["blocks_60k"]),
    ),
    Claim(
        "003",
        "speed in double over speed in single (figure 10)",
        RTX,
        "sync-free 0.9 to 1.0; tiles 0.8 to 0.9; cuSPARSE 0.5 to 0.6",
        _precision(["syncfree", "tile_level", REFERENCE]),
    ),
    Claim("003", "tiles hold less than sync-free", RTX, "on most of 16 matrices", _memory),
    Claim(
        "003",
        "set-up of tiles, in solves",
        "CPU",
        "below 10 on most matrices",
        _setup_in_solves("tile_level"),
    ),
    Claim(
        "004",
        "SLFC over csrsv2, 2-D 5-point grids",
        P100,
        "very close to 1x",
        _sweeps_speed("selfsched_col", REFERENCE, _grids(5)),
    ),
    Claim(
        "004",
        "SLFC over csrsv2, 3-D 7-point grids",
        P100,
        "1.18x to 1.47x, 0.95x on 32x32x2048",
        _sweeps_speed("selfsched_col", REFERENCE, _grids(7)),
    ),
    Claim(
        "004",
        "SLFC over csrsv2, 3-D 27-point grids",
        P100,
        "1.09x to 1.82x",
        _sweeps_speed("selfsched_col", REFERENCE, _grids(27)),
    ),
    Claim(
        "004",
        "SLFC over csrsv2, general matrices",
        P100,
        "at most 2.64x",
        _sweeps_speed("selfsched_col", REFERENCE, [c for c in CASES if c not in STENCILS]),
    ),
    Claim(
        "004",
        "columns over rows, self-scheduled (SLFC over SLFR)",
        P100,
        "above 1x on all grids",
        _sweeps_speed("selfsched_col", "selfsched_row"),
    ),
    Claim(
        "004",
        "self-scheduling over level scheduling, 2-D (SLFR over LEVR)",
        P100,
        "2.3x to 2.6x (from tables 5.3 a, b)",
        _sweeps_speed("selfsched_row", "level_row", [*_grids(5), *_grids(9)]),
    ),
    Claim(
        "004",
        "self-scheduling over level scheduling, 3-D 7-point (SLFR over LEVR)",
        P100,
        "0.72x to 1.97x: levels win on the squarest (from table 5.3 c)",
        _sweeps_speed("selfsched_row", "level_row", _grids(7)),
    ),
    Claim(
        "004",
        "throughput falls with the aspect ratio: longest grid over squarest",
        P100,
        "SLFC, 5-point 0.17; 7-point 0.84 (from table 5.3)",
        _both_sweeps(_falls_with_aspect),
    ),
    Claim(
        "004",
        "matrices with about 79 entries a row",
        P100,
        "above 10 GFLOPS",
        _most_gflops("selfsched_col", ["elast3d_64_dof3", "shell_318_dof5"]),
    ),
    Claim(
        "004",
        "set-up of SLFC on the GPU, in solves",
        P100,
        "2-D 5-point 1.8 to 3.2; 3-D 7-point 2.1 to 6.3 (table 5.4)",
        _setup_in_solves("selfsched_col"),
    ),
    Claim(
        "004",
        "solves from which SLFC beats csrsv2 in total (table 5.6)",
        P100,
        "0 to 61; 0 for 6 of 12",
        _both_sweeps(_break_even),
    ),
    Claim(
        "001",
        "level sets do not scale with the card, whatever the matrix",
        THREE_CARDS,
        "inversely with many levels, not at all with few",
        _scaling("level_row"),
    ),
    Claim(
        "001",
        "sync-free scales with the card only where a level has many rows",
        THREE_CARDS,
        "inversely with many levels, with the card with few",
        _scaling("syncfree"),
    ),
    Claim("001", "the same of the solver chosen by default", "", "", _scaling("auto")),
)
