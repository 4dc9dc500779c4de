"""The papers' claims beside our numbers, as a table for a page."""

from __future__ import annotations

from pathlib import Path

from gpuilu.bench.claims import CLAIMS
from gpuilu.bench.record import Record
from gpuilu.bench.results import Results
from gpuilu.errors import OptionError
from gpuilu.text import markdown

__all__ = ["claims_table", "written_into"]


def claims_table(record: Record | None) -> str:
    """Every claim as a row of a Markdown table; without a record the last two columns are empty."""
    results = None if record is None else Results(record)
    card = "measured" if results is None else f"measured on {results.header['card']}"
    head = ["paper", "claim", "on", "theirs", card, "same winner"]
    rows = []
    for c in CLAIMS:
        ours = ["", ""] if results is None else [c.ours(results), c.verdict(results)]
        rows.append([c.paper, c.text, c.card, c.theirs, *ours])
    return markdown([head, *rows], left=len(head))


BEGIN, END = "<!-- papers: begin -->", "<!-- papers: end -->"


def written_into(path: str | Path, table: str) -> None:
    """Put the table into a file, between the two comments that mark its place.

    Raises
    ------
    OptionError
        If the file does not have them.
    """
    text = Path(path).read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise OptionError(f"{path} has no place for the table: lines {BEGIN} and {END}")
    Path(path).write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
