"""What was measured, as JSON: {schema, commit, date, card, driver, cupy, rows: [...]}.

A row has case, n, nnz, n_levels, dtype, nrhs, op, trans, algorithm, phase, ms, q1_ms, q3_ms, nbytes
and backward_error; floor_ms where there is a yardstick, predicted_ms where there is a model;
`share` and `multiprocessors` where only a part of the card was used; `chosen`, `reason` and
`expected_solves` for "auto"; `error` and `message` where it failed. Phases: "setup", for "auto"
also "setup_once" (told that one solve is expected), "solve", and "run" for what is no solve.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpuilu.backend import cuda
from gpuilu.errors import OptionError

__all__ = ["SCHEMA", "Record", "environment", "key", "load", "merge"]

SCHEMA = 1
KEY = ("case", "n", "nnz", "dtype", "nrhs", "op", "trans", "algorithm", "phase", "share")
HEADER = ("schema", "commit", "date", "card", "driver", "cupy")

Row = dict[str, Any]


def key(row: Row) -> tuple[Any, ...]:
    """What tells a row from the others of a record."""
    return tuple(row.get(name) for name in KEY)


class Record:
    """Rows and what they were measured on; one file, written whole after each addition.

    Parameters
    ----------
    path : str or Path or None
        None keeps the record in memory.
    header : dict
        See `environment`.
    rows : list of dict
    """

    def __init__(
        self, path: str | Path | None, header: dict[str, Any], rows: Iterable[Row] = ()
    ) -> None:
        self.path = None if path is None else Path(path)
        self.header = header
        self.rows = list(rows)

    @classmethod
    def resumed(cls, path: str | Path | None, header: dict[str, Any]) -> Record:
        """The record at `path` if there is one, to go on with; else a new one.

        Raises
        ------
        OptionError
            If the record there is of another card or another commit.
        """
        if path is None or not Path(path).exists():
            return cls(path, header)
        found = load(path)
        for name in ("card", "commit"):
            if found.header[name] != header[name]:
                raise OptionError(
                    f"{path} is a record of {name} {found.header[name]!r}, not {header[name]!r}; "
                    "write to another file (`gpuilu bench merge` joins records)"
                )
        return cls(path, header, found.rows)

    def __contains__(self, wanted: Row) -> bool:
        return key(wanted) in {key(row) for row in self.rows}

    def add(self, rows: Iterable[Row]) -> None:
        """Put rows in, in place of those of the same key, and write the file."""
        new = {key(row): row for row in rows}
        self.rows = [row for row in self.rows if key(row) not in new] + list(new.values())
        self.save()

    def drop_failures(self) -> None:
        """Forget the rows with an error, so that they are measured again."""
        self.rows = [row for row in self.rows if "error" not in row]

    def save(self) -> None:
        """Write the file in one step: who reads it never sees half of it."""
        if self.path is None:
            return
        head = json.dumps({name: self.header[name] for name in HEADER}, indent=1)[:-2]
        lines = ",\n".join("  " + json.dumps(_finite(row)) for row in self.rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')
        os.replace(partial, self.path)


def _finite(row: Row) -> Row:
    """JSON has no NaN and no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def load(path: str | Path) -> Record:
    """Read a record.

    Raises
    ------
    FileNotFoundError
    OptionError
        If the file is no record, or one of another schema.
    """
    try:
        content = json.loads(Path(path).read_text())
        header = {name: content[name] for name in HEADER}
        rows = content["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is no record of `gpuilu bench`: {error!r}") from error
    if header["schema"] != SCHEMA:
        raise OptionError(f"{path} has schema {header['schema']}, expected {SCHEMA}")
    return Record(path, header, rows)


def merge(records: Iterable[Record], path: str | Path | None = None) -> Record:
    """Rows of all; the newest wins. A row from an older record keeps that record's commit and date.

    Raises
    ------
    OptionError
        If the records are of different cards, whose times cannot be compared.
    """
    by_age = sorted(records, key=lambda record: record.header["date"])
    cards = {record.header["card"] for record in by_age}
    if len(cards) != 1:
        raise OptionError(f"expected records of one card, found {sorted(cards)}")
    newest = by_age[-1]
    rows: dict[tuple[Any, ...], Row] = {}
    for record in by_age:
        origin = {name: record.header[name] for name in ("commit", "date")}
        own = {} if record is newest else origin
        rows |= {key(row): {**own, **row} for row in record.rows}
    return Record(path, newest.header, rows.values())


# ---- where and when -----------------------------------------------------------------------------


def environment(device: str, commit: str | None = None) -> dict[str, Any]:
    """The header of a record made here and now on `device`."""
    on_gpu = device != "cpu"
    return {
        "schema": SCHEMA,
        "commit": commit or _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "card": _card(device) if on_gpu else _processor(),
        "driver": _driver() if on_gpu else None,
        "cupy": cuda.cupy().__version__ if on_gpu else None,
    }


def _card(device: str) -> str:
    properties = cuda.cupy().cuda.runtime.getDeviceProperties(cuda.number_of(device))
    return str(properties["name"].decode())


def _driver() -> str:
    """The driver's version, and the CUDA version it is of."""
    number = int(cuda.cupy().cuda.runtime.driverGetVersion())
    of_cuda = f"CUDA {number // 1000}.{number % 1000 // 10}"
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return of_cuda
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return f"{found[0]}, {of_cuda}" if found else of_cuda


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"model name\s*: (.*)", text)
    return f"{found[1] if found else platform.machine()}, {os.cpu_count()} threads"


def _commit() -> str:
    """The commit of the checkout, with "+" if it was changed since; "unknown" outside of one."""
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", "..") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout.strip()
