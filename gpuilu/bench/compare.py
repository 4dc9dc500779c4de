"""t_old / t_new by case, algorithm and phase, and which changes are larger than the noise."""

from __future__ import annotations

from dataclasses import dataclass

from gpuilu.bench.record import Record, Row, key
from gpuilu.bench.results import Setting, geometric_mean
from gpuilu.text import aligned

__all__ = ["Change", "changes", "report"]


@dataclass(frozen=True)
class Change:
    """One row in two records.

    Attributes
    ----------
    old, new : dict
        The rows.
    """

    old: Row
    new: Row

    @property
    def speedup(self) -> float | None:
        """t_old / t_new; None where one of them failed."""
        if "error" in self.old or "error" in self.new or not self.new["ms"]:
            return None
        return float(self.old["ms"] / self.new["ms"])

    @property
    def verdict(self) -> str:
        """What changed: faster and slower only where the quartiles do not overlap."""
        was_bad, is_bad = "error" in self.old, "error" in self.new
        if was_bad or is_bad:
            same = "still fails" if was_bad else f"fails: {self.new.get('error')}"
            return same if is_bad else "no longer fails"
        if self.speedup is None:
            return ""
        if self.new["q3_ms"] < self.old["q1_ms"]:
            return "faster"
        return "slower" if self.new["q1_ms"] > self.old["q3_ms"] else ""


def changes(old: Record, new: Record) -> list[Change]:
    """The rows that both records have, in the order of the new one."""
    before = {key(row): row for row in old.rows}
    return [Change(before[key(row)], row) for row in new.rows if key(row) in before]


def report(old: Record, new: Record) -> str:
    """The changes as a table, geometric means by algorithm and phase, and what only one has."""
    found = changes(old, new)
    lines = [_heading("old", old), _heading("new", new)]
    if old.header["card"] != new.header["card"]:
        lines.append("NOTE: not the same card; the ratios compare cards as well")
    head = ["case", "setting", "algorithm", "phase", "old [ms]", "new [ms]", "old/new", ""]
    table = [[*_words(c.new), *_times(c), c.verdict] for c in found]
    lines += ["", aligned([head, *table], left=4), "", "geometric mean of old/new:"]
    lines += [aligned([["algorithm", "phase", "old/new", "rows"], *_means(found)], left=2)]
    before, after = ({key(row) for row in record.rows} for record in (old, new))
    for name, count in (("old", len(before - after)), ("new", len(after - before))):
        if count:
            lines.append(f"{count} rows are in the {name} record only")
    return "\n".join(lines)


def _heading(name: str, record: Record) -> str:
    header = record.header
    return f"{name}: {header['commit']}, {header['date']}, {header['card']}"


def _words(row: Row) -> list[str]:
    return [row["case"], str(Setting.of(row)), row["algorithm"], row["phase"]]


def _times(change: Change) -> list[str]:
    times = ["-" if "error" in row else f"{row['ms']:.4g}" for row in (change.old, change.new)]
    return [*times, "-" if change.speedup is None else f"{change.speedup:.2f}"]


def _means(found: list[Change]) -> list[list[str]]:
    groups: dict[tuple[str, str], list[float]] = {}
    for change in found:
        if change.speedup is not None:
            name = change.new["algorithm"], change.new["phase"]
            groups.setdefault(name, []).append(change.speedup)
    return [
        [*name, f"{geometric_mean(values) or 0:.3f}", str(len(values))]
        for name, values in groups.items()
    ]
