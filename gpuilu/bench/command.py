"""`gpuilu bench`: measure, and compare, merge and show what was measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from gpuilu.backend import cuda
from gpuilu.bench import cases, compare, figures, papers, prepare, runs, tables
from gpuilu.bench.record import Record, environment, load, merge
from gpuilu.bench.systems import OPS
from gpuilu.errors import OptionError
from gpuilu.options import resolve_device
from gpuilu.text import aligned

__all__ = ["add_parser", "with_run"]

COMMANDS = ("run", "cases", "compare", "merge", "tables", "figures")

EPILOG = """\
`gpuilu bench --group fast13` is `gpuilu bench run --group fast13`; `gpuilu bench run --help` lists
what can be measured. A run goes on where the record of --output ends.

  gpuilu bench --group fast13 --dtypes float64,float32 --output new.json
  gpuilu bench compare old.json new.json
  gpuilu bench tables new.json
  gpuilu bench figures new.json --folder figures
"""


def with_run(arguments: Sequence[str]) -> list[str]:
    """Put in the word "run" where `bench` is followed by no command of its own."""
    arguments = list(arguments)
    if arguments[:1] == ["bench"] and not (
        len(arguments) > 1 and arguments[1] in (*COMMANDS, "-h", "--help")
    ):
        arguments.insert(1, "run")
    return arguments


def add_parser(commands: Any) -> None:
    """Add `bench` and its commands to the parser of `gpuilu`."""
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    bench = commands.add_parser(
        "bench", help="time the triangular solves on fixed matrices", epilog=EPILOG, **style
    )
    inner = bench.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(inner.add_parser("run", help="measure", epilog=EPILOG, **style))
    listing = inner.add_parser("cases", help="list the cases")
    listing.set_defaults(run=_cases)
    comparing = inner.add_parser("compare", help="two records: what became faster or slower")
    comparing.add_argument("old", metavar="OLD")
    comparing.add_argument("new", metavar="NEW")
    comparing.set_defaults(run=_compare)
    merging = inner.add_parser("merge", help="one record out of several of one card; newest wins")
    merging.add_argument("output", metavar="OUTPUT")
    merging.add_argument("records", metavar="RECORD", nargs="+")
    merging.set_defaults(run=_merge)
    _add_tables(inner.add_parser("tables", help="a record as Markdown tables"))
    drawing = inner.add_parser("figures", help="a record as PNG files (needs matplotlib)")
    drawing.add_argument("records", metavar="RECORD", nargs="+")
    drawing.add_argument("--folder", default=".", help="where they are put; default: here")
    drawing.add_argument("--figures", type=_names, default=[], help=_among(figures.FIGURES))
    drawing.set_defaults(run=_figures)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("records", metavar="RECORD", nargs="+", help="of several of one card the newest row wins")
    add("--tables", type=_names, default=[], help=_among(tables.NAMES))
    add("--papers", action="store_true", help="the papers' claims beside the record's numbers")
    add("--into", metavar="FILE", help="with --papers: replace the table in that file")
    parser.set_defaults(run=_tables)


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", metavar="MATRIX", nargs="*", help="Matrix Market files (.mtx, .mtx.gz) to add")
    add("--cases", type=_names, default=[], help="by name; `gpuilu bench cases` lists them")
    add(
        "--group",
        type=_names,
        default=[],
        help=f"{_among(cases.GROUPS)}; default: fast13, if neither cases nor files are given",
    )
    add("--algorithms", type=_names, default=[], help="default: auto and all of the device")
    add("--dtypes", type=_names, default=["float64"], help="default: float64")
    add("--op", type=_names, default=["lower"], help=f"{_among(OPS)}; default: lower")
    add("--trans", default="N", help="N, T or H; default: N")
    add("--nrhs", type=int, default=1, help="right-hand sides; default: 1")
    add("--products", action="store_true", help="also T v, T^T and T T by CuPy (or SciPy)")
    add("--setup", action="store_true", help="also the steps of set-ups: transpose, levels")
    add(
        "--shares",
        type=_numbers,
        default=[1.0],
        help="shares of the card's multiprocessors, such as 0.25,0.5,1; default: 1; "
        "below 1 without cuSPARSE's solver, which does not come back there",
    )
    add(
        "--budget",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="for a case, dtype, op and share; slow algorithms get fewer rounds; default: 5",
    )
    add("--output", metavar="FILE", help="the record, written after each case; default: none kept")
    add("--retry", action="store_true", help="measure again what failed before")
    add("--device", default="auto", help="auto, cpu or cuda:N; auto: a GPU if there is one")
    add("--scale", type=float, default=1.0, help="smaller cases, about that share of the entries")
    add("--cache", metavar="FOLDER", help="keep the built matrices there for the next run")
    add("--jobs", type=int, help="processes that build matrices; default: one for each core")
    add("--commit", help="what the record says the commit is; default: what git says")
    parser.set_defaults(run=_run)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(text: str) -> list[float]:
    return [float(name) for name in _names(text)]


def _among(names: Any) -> str:
    return f"among {', '.join(names)}, separated by commas"


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- the commands -------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    chosen = _chosen_cases(options)
    device = _settled_device(options.device)
    request = runs.Request(
        device=device,
        algorithms=runs.names_on(device, options.algorithms),
        dtypes=tuple(options.dtypes),
        ops=tuple(options.op),
        shares=tuple(options.shares),
        nrhs=options.nrhs,
        trans=options.trans,
        products=options.products,
        analyses=options.setup,
        budget_s=options.budget,
        scale=options.scale,
    )
    record = Record.resumed(options.output, environment(device, options.commit))
    if options.retry:
        record.drop_failures()
    _progress(f"{record.header['card']}: {len(chosen)} cases, {', '.join(request.algorithms)}")
    keep: Any = {"folder": options.cache, "jobs": options.jobs, "progress": _progress}
    wanted = [case for case in chosen if runs.lacks(request, case, record)]
    with cuda.on(device), prepare.prepared(wanted, options.scale, **keep) as store:
        n_failed = runs.run(request, wanted, store, record, _progress)
    print(tables.document(record, ["cases", "solve", "ratio"]), end="")
    return 1 if n_failed else 0


def _chosen_cases(options: argparse.Namespace) -> list[cases.Case]:
    if not 0 < options.scale <= 1:
        raise OptionError(f"scale is above 0 and at most 1, found {options.scale}")
    named = [*options.cases, *options.files]
    groups = options.group or ([] if named else ["fast13"])
    return cases.chosen(named, groups)


def _settled_device(asked: str) -> str:
    """A GPU if there is one, or what was asked for; says so where there is none."""
    device = resolve_device(asked)
    if device != "auto":
        return device
    if cuda.available():
        return resolve_device("cuda")
    _progress("no GPU that CuPy can use was found: measuring on the CPU")
    return "cpu"


def _cases(options: argparse.Namespace) -> int:
    rows = [[c.name, ",".join(c.groups), c.title, c.like] for c in cases.CASES.values()]
    print(aligned([["case", "groups", "what", "stands for"], *rows], left=4))
    return 0


def _compare(options: argparse.Namespace) -> int:
    print(compare.report(load(options.old), load(options.new)))
    return 0


def _merge(options: argparse.Namespace) -> int:
    merged = merge([load(path) for path in options.records], options.output)
    merged.save()
    print(f"{options.output}: {len(merged.rows)} rows")
    return 0


def _loaded(paths: Sequence[str]) -> Record:
    """One record, or several as one."""
    records = [load(path) for path in paths]
    return records[0] if len(records) == 1 else merge(records)


def _tables(options: argparse.Namespace) -> int:
    record = _loaded(options.records)
    if not options.papers:
        print(tables.document(record, options.tables), end="")
        return 0
    table = papers.claims_table(record)
    if options.into:
        papers.written_into(options.into, table)
    else:
        print(table)
    return 0


def _figures(options: argparse.Namespace) -> int:
    for path in figures.draw(_loaded(options.records), options.folder, options.figures):
        print(path)
    return 0
