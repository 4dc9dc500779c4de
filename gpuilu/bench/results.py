"""2 nnz / t, n / levels, t_reference / t: the papers' quantities out of a record's rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpuilu.bench.cases import CASES
from gpuilu.bench.record import Record, Row

__all__ = [
    "REFERENCE",
    "Results",
    "Setting",
    "break_even",
    "geometric_mean",
    "gflops",
    "parallelism",
]

REFERENCE = "cusparse"


@dataclass(frozen=True)
class Setting:
    """What rows must share to be compared: everything but case, algorithm and phase."""

    dtype: str = "float64"
    op: str = "lower"
    nrhs: int = 1
    trans: str = "N"
    share: float | None = None

    @classmethod
    def of(cls, row: Row) -> Setting:
        """The setting of a row."""
        return cls(row["dtype"], row["op"], row["nrhs"], row["trans"], row.get("share"))

    def __str__(self) -> str:
        words = [self.dtype, self.op]
        words += [] if self.nrhs == 1 else [f"{self.nrhs} right-hand sides"]
        words += [] if self.trans == "N" else [f"trans {self.trans}"]
        words += [] if self.share is None else [f"{self.share:.0%} of the card"]
        return ", ".join(words)


class Results:
    """The rows of a record by setting, case, algorithm and phase."""

    def __init__(self, record: Record) -> None:
        self.header = record.header
        self.rows = record.rows
        self._index = {
            (Setting.of(row), row["case"], row["algorithm"], row["phase"]): row
            for row in record.rows
        }

    def settings(self, phase: str = "solve") -> list[Setting]:
        """Settings with rows of a phase, in the order of the record."""
        return list(dict.fromkeys(Setting.of(r) for r in self.rows if r["phase"] == phase))

    def cases(self, setting: Setting | None = None) -> list[str]:
        """Names of cases, in the order of the table of cases, others after them."""
        found = dict.fromkeys(
            row["case"] for row in self.rows if setting in (None, Setting.of(row))
        )
        order = {name: k for k, name in enumerate(CASES)}
        return sorted(found, key=lambda c: order.get(c.partition("@")[0], len(order)))

    def algorithms(self, setting: Setting) -> list[str]:
        """Names: "auto" first, the reference last."""
        found = {r["algorithm"] for r in self.rows if Setting.of(r) == setting}
        return sorted(found, key=lambda name: (name != "auto", name == REFERENCE, name))

    def reference(self, setting: Setting) -> str:
        """What the others are compared with: the vendor's solver, on a CPU plain substitution.

        It may have no rows of the setting, as the vendor's solver on a share of a card.
        """
        names = self.algorithms(setting)
        return "serial" if "serial" in names and REFERENCE not in names else REFERENCE

    def row(self, setting: Setting, case: str, algorithm: str, phase: str = "solve") -> Row | None:
        """A row, failed or not; None if there is none."""
        return self._index.get((setting, case, algorithm, phase))

    def good(self, setting: Setting, case: str, algorithm: str, phase: str = "solve") -> Row | None:
        """A row that was measured without an error."""
        row = self.row(setting, case, algorithm, phase)
        return None if row is None or "error" in row or row["ms"] is None else row

    def ms(self, setting: Setting, case: str, algorithm: str, phase: str = "solve") -> float | None:
        """Median milliseconds."""
        row = self.good(setting, case, algorithm, phase)
        return None if row is None else float(row["ms"])

    def ratios(
        self,
        setting: Setting,
        algorithm: str,
        against: str,
        phase: str = "solve",
        cases: Iterable[str] | None = None,
    ) -> dict[str, float]:
        """{case: t(against) / t(algorithm)} where both were measured."""
        found = {}
        for case in self.cases(setting) if cases is None else cases:
            ours, theirs = (self.ms(setting, case, a, phase) for a in (algorithm, against))
            if ours and theirs is not None:
                found[case] = theirs / ours
        return found

    def pairs(self, setting: Setting, case: str, algorithm: str) -> tuple[float, float] | None:
        """(set-up, solve) in milliseconds."""
        found = [self.ms(setting, case, algorithm, phase) for phase in ("setup", "solve")]
        return None if None in found else (float(found[0] or 0), float(found[1] or 0))


def parallelism(row: Row) -> float:
    """n / levels: rows a level on average (two triangles solve 2 n rows)."""
    triangles = 2 if row["op"] == "apply" else 1
    return float(triangles * row["n"] / max(row["n_levels"], 1))


def gflops(row: Row) -> float:
    """2 nnz / t in 10^9 a second, for each right-hand side; of a product T T what it takes."""
    work = row.get("flop", 2 * row["nnz"] * row["nrhs"])
    return float(work / row["ms"] / 1e6) if row["ms"] else math.inf


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None of none."""
    values = [v for v in values if v > 0]
    return statistics.geometric_mean(values) if values else None


def break_even(ours: tuple[float, float], theirs: tuple[float, float]) -> int | None:
    """Smallest k >= 0 with S + k t < S' + k t', and so for all larger k; None if there is none.

    S is a set-up and t a solve; 0 says that ours is ahead at once (table 5.6 of Li, 2017).
    """
    later, saved = ours[0] - theirs[0], theirs[1] - ours[1]
    if saved <= 0:
        return None
    return 0 if later < 0 else math.floor(later / saved) + 1


def best(values: dict[str, float], better: Callable[..., str] = min) -> str | None:
    """The key of the best value."""
    return better(values, key=values.__getitem__) if values else None


def span(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Words: smallest to largest, or "-" for nothing."""
    if not values:
        return "-"
    low, high = (form.format(v) for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
