"""t_theirs / t_ours and its like from a record, in words: what the claims of papers are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

__all__ = [
    "NOTHING",
    "Speed",
    "both_sweeps",
    "break_evens",
    "falls_with_aspect",
    "memory",
    "most_gflops",
    "precisions",
    "scaling",
    "setup_in_solves",
]

NOTHING = "not measured"
FLOAT64, FLOAT32, BOTH = Setting("float64"), Setting("float32"), Setting("float64", "apply")
WIDE, NARROW = 20_000, 2_000  # rows a level: a card of 100,000 threads is full, or nearly empty


def in_words(ratios: dict[str, float], unit: str = "x") -> str:
    if not ratios:
        return NOTHING
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    mean = geometric_mean(ratios.values()) or 0.0
    if len(ratios) == 1:
        return f"{mean:.3g}{unit} ({low})"
    return (
        f"geometric mean {mean:.3g}{unit} over {len(ratios)} cases, "
        f"from {ratios[low]:.3g}{unit} ({low}) to {ratios[high]:.3g}{unit} ({high})"
    )


@dataclass(frozen=True)
class Speed:
    """t(against) / t(algorithm): in words when called, and its mean.

    Parameters
    ----------
    algorithm, against : str
    setting : Setting
    phase : str
    cases : sequence of str, optional
        By default all.
    both : bool
        (U + D)^-1 (L + D)^-1 as paper 004 has it, or where a record has none the lower solve.
    """

    algorithm: str
    against: str = REFERENCE
    setting: Setting = FLOAT64
    phase: str = "solve"
    cases: Sequence[str] | None = None
    both: bool = False

    def __call__(self, results: Results) -> str:
        told = both_sweeps(lambda r, s: in_words(self.ratios(r, s)))
        return told(results) if self.both else in_words(self.ratios(results, self.setting))

    def mean(self, results: Results) -> float | None:
        """The geometric mean over the cases; None of none."""
        settings = (BOTH, FLOAT64) if self.both else (self.setting,)
        means = (geometric_mean(self.ratios(results, s).values()) for s in settings)
        return next((mean for mean in means if mean is not None), None)

    def ratios(self, results: Results, setting: Setting) -> dict[str, float]:
        """By case."""
        return results.ratios(setting, self.algorithm, self.against, self.phase, self.cases)


def both_sweeps(ours: Callable[[Results, Setting], str]) -> Callable[[Results], str]:
    """Of (U + D)^-1 (L + D)^-1 as paper 004 has it; where a record has none, of the lower solve."""

    def told(results: Results) -> str:
        text = ours(results, BOTH)
        if text != NOTHING:
            return text
        text = ours(results, FLOAT64)
        return text if text == NOTHING else f"{text} (lower solve only)"

    return told


def precisions(algorithms: Sequence[str]) -> Callable[[Results], str]:
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


def memory(results: Results) -> str:
    ratios = {}
    for case in results.cases(FLOAT64):
        rows = [results.good(FLOAT64, case, a) for a in ("tile_level", "syncfree")]
        sizes = [row["nbytes"] for row in rows if row is not None and row["nbytes"]]
        if len(sizes) == 2:
            ratios[case] = sizes[0] / sizes[1]
    less = sum(ratio < 1 for ratio in ratios.values())
    text = f"less on {less} of {len(ratios)}; bytes over those of syncfree: {in_words(ratios, '')}"
    return text if ratios else NOTHING


def setup_in_solves(algorithm: str, few: int | None = None) -> Callable[[Results], str]:
    """Set-up over solve; `few`: on how many cases it is below that."""

    def ours(results: Results) -> str:
        found = {}
        for case in results.cases(FLOAT64):
            pair = results.pairs(FLOAT64, case, algorithm)
            if pair is not None and pair[1] > 0:
                found[case] = pair[0] / pair[1]
        if not found:
            return NOTHING
        text = in_words(found, "")
        if few is None:
            return text
        return f"below {few} on {sum(v < few for v in found.values())} of {len(found)}; {text}"

    return ours


def falls_with_aspect(results: Results, setting: Setting) -> str:
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


def break_evens(results: Results, setting: Setting) -> str:
    counts = {}
    for case in results.cases(setting):
        ours, theirs = (results.pairs(setting, case, a) for a in ("selfsched_col", REFERENCE))
        if ours is not None and theirs is not None:
            counts[case] = break_even(ours, theirs)
    if not counts:
        return NOTHING
    never = [case for case, count in counts.items() if count is None]
    known = [count for count in counts.values() if count is not None]
    text = f"{span(known, '{:d}')} where it does; 0 for {known.count(0)} of {len(counts)}"
    return f"{text}; never for {len(never)} ({', '.join(never)})" if never else text


def most_gflops(algorithm: str, cases: Sequence[str]) -> Callable[[Results], str]:
    def found(results: Results, setting: Setting) -> str:
        rows = {case: results.good(setting, case, algorithm) for case in cases}
        texts = [f"{gflops(row):.1f} GFLOPS ({case})" for case, row in rows.items() if row]
        return "; ".join(texts) or NOTHING

    return both_sweeps(found)


def scaling(algorithm: str) -> Callable[[Results], str]:
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
