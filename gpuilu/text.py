"""Tables as text: aligned columns, and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned", "markdown"]


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns padded to their width, the first `left` ones to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table that reads well as text too; the first row is its head."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * w if k < left else "-" * (w - 1) + ":" for k, w in enumerate(widths)]
    head, *body = rows
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in [head, rule, *body]
    )
