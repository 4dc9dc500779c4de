"""Every case x dtype x op x share: what a run measures, in order, and what it need not again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from gpuilu.backend import cuda, partition
from gpuilu.bench.analyses import ANALYSES, measure_analyses
from gpuilu.bench.cases import Case, label
from gpuilu.bench.measure import measure
from gpuilu.bench.prepare import Store
from gpuilu.bench.products import PRODUCTS, measure_products
from gpuilu.bench.record import Record
from gpuilu.bench.systems import OPS, Problem, System
from gpuilu.errors import OptionError, UnknownAlgorithmError, UnsupportedAlgorithmError
from gpuilu.trsv.base import algorithms

__all__ = ["Request", "lacks", "names_on", "run"]


@dataclass(frozen=True)
class Request:
    """What to measure of each case.

    Parameters
    ----------
    device : str
        "cpu" or "cuda:N".
    algorithms : tuple of str
    dtypes, ops, shares : tuple
        On a share below 1 the vendor's algorithms are left out.
    nrhs : int
    trans : str
    products, analyses : bool
        Products and transposes too; the steps of set-ups too, on the whole card.
    budget_s : float
        Seconds for the algorithms of a case, dtype, op and share together.
    scale : float
        That of the cases.
    """

    device: str
    algorithms: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float64",)
    ops: tuple[str, ...] = ("lower",)
    shares: tuple[float, ...] = (1.0,)
    nrhs: int = 1
    trans: str = "N"
    products: bool = False
    analyses: bool = False
    budget_s: float = 5.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, found, choices in (
            ("dtype", self.dtypes, ("float32", "float64", "complex64", "complex128")),
            ("op", self.ops, OPS),
            ("trans", (self.trans,), ("N", "T", "H")),
        ):
            if wrong := set(found) - set(choices):
                raise OptionError(f"{name} is one of {choices}, found {sorted(wrong)}")
        if self.device == "cpu" and set(self.shares) != {1.0}:
            raise OptionError(f"a share of a card needs a GPU, found shares {self.shares}")
        if self.nrhs < 1 or self.budget_s <= 0:
            raise OptionError(
                f"nrhs is at least 1 and a budget positive, found {self.nrhs}, {self.budget_s}"
            )

    def problems(self, case: Case) -> Iterator[Problem]:
        """The systems of a case."""
        for dtype in self.dtypes:
            for op in self.ops:
                yield Problem(label(case, self.scale), dtype, op, self.nrhs, self.trans)


def names_on(device: str, asked: Iterable[str] = ()) -> tuple[str, ...]:
    """The algorithms asked for, or "auto" and all of a device.

    Raises
    ------
    UnknownAlgorithmError
        If there is none of a name asked for.
    """
    kind = device.partition(":")[0]
    there = ["auto", *sorted(name for name, where in algorithms() if where == kind)]
    asked = tuple(asked)
    for name in asked:
        if name not in there:
            raise UnknownAlgorithmError(
                f"no algorithm on {kind!r} is named {name!r}; there are {', '.join(there)}"
            )
    return asked or tuple(there)


def run(
    request: Request,
    cases: Sequence[Case],
    store: Store,
    record: Record,
    progress: Callable[[str], None] = lambda text: None,
) -> int:
    """Measure what the record lacks; it is written after each system.

    Returns
    -------
    int
        Systems that could not be set up at all; the record says nothing of them.
    """
    n_failed = 0
    if left_out := sorted({*request.algorithms} - {*_solvers(request, min(request.shares))}):
        progress(f"not on a part of the card: {', '.join(left_out)}, which may not come back there")
    for k, case in enumerate(cases):
        systems = [(p, s) for p in request.problems(case) for s in request.shares]
        wanted = [
            (p, s, found) for p, s in systems if any(found := _missing(request, p, s, record))
        ]
        A: sp.csr_array | None = None
        for problem, share, lacking in wanted:
            start = time.perf_counter()
            try:
                A = store.load(case) if A is None else A
                rows = _measured(request, problem, A, share, lacking, record.header["card"])
            except Exception as error:  # the other cases may well do
                n_failed += 1
                told = f"{type(error).__name__}: {error}"
            else:
                record.add(rows)
                told = _brief(rows)
            elapsed = f"{time.perf_counter() - start:.1f} s"
            progress(f"[{k + 1}/{len(cases)}] {_told(problem, share)}: {told} ({elapsed})")
            _release(request.device)
    return n_failed


def _release(device: str) -> None:
    """Give the memory of one system back, so that the next finds it in one piece."""
    if device != "cpu":
        cuda.cupy().get_default_memory_pool().free_all_blocks()


def lacks(request: Request, case: Case, record: Record) -> bool:
    """Whether the request would measure anything of a case."""
    return any(
        any(_missing(request, problem, share, record))
        for problem in request.problems(case)
        for share in request.shares
    )


def _missing(
    request: Request, problem: Problem, share: float, record: Record
) -> tuple[list[str], bool, bool]:
    """The algorithms that the record lacks for a problem; if it lacks products, and analyses."""
    wanted = _words(problem) | ({} if share == 1 else {"share": share})
    known = {
        (row["algorithm"], row["op"])
        for row in record.rows
        if _words_of(row) == wanted | {"op": row["op"]}
    }
    names = [name for name in _solvers(request, share) if (name, problem.op) not in known]
    ops = {op for _, op in known}
    first = problem.op == request.ops[0]
    products = request.products and first and not ops >= set(PRODUCTS)
    analyses = request.analyses and first and share == 1 and not ops >= set(ANALYSES)
    return names, products, analyses


def _solvers(request: Request, share: float) -> list[str]:
    """The algorithms asked for; on a part of a card without the vendor's."""
    # There cusparseSpSV did not come back (n = 1024^2 on a quarter of an H100), and nothing inside
    # a process can end a kernel that waits for ever.
    table, kind = algorithms(), request.device.partition(":")[0]
    return [
        name
        for name in request.algorithms
        if share == 1 or name == "auto" or not table[name, kind].vendor
    ]


def _words(problem: Problem) -> dict[str, Any]:
    return dict(vars(problem))


def _words_of(row: dict[str, Any]) -> dict[str, Any]:
    names = ("case", "dtype", "op", "nrhs", "trans", "share")
    return {name: row[name] for name in names if name in row}


def _measured(
    request: Request,
    problem: Problem,
    A: sp.csr_array,
    share: float,
    lacking: tuple[list[str], bool, bool],
    card: str,
) -> list[dict[str, Any]]:
    """Rows for one problem on a share of the card."""
    system = System(problem, A, request.device)
    marks: dict[str, Any] = {}
    names, products, analyses = lacking
    with contextlib.ExitStack() as stack:
        if share != 1:
            used = stack.enter_context(partition.limited_to(share))
            marks = {"share": share, "multiprocessors": used}
        rows = measure(system, names, budget_s=request.budget_s, card=card) if names else []
        if products:
            rows += measure_products(system, budget_s=request.budget_s)
        if analyses:
            rows += measure_analyses(system, budget_s=request.budget_s)
    return [row | marks for row in rows]


def _told(problem: Problem, share: float) -> str:
    words = [problem.case, problem.dtype, problem.op]
    words += [f"{problem.nrhs} right-hand sides"] if problem.nrhs > 1 else []
    words += [] if problem.trans == "N" else [problem.trans]
    words += [] if share == 1 else [f"{share:.0%} of the card"]
    return " ".join(words)


def _brief(rows: Sequence[dict[str, Any]]) -> str:
    """The fastest solve, and what failed; what is not supported is no failure."""
    solves = {row["algorithm"]: row for row in rows if row["phase"] == "solve"}
    good = {name: row["ms"] for name, row in solves.items() if "error" not in row}
    unsupported = UnsupportedAlgorithmError.__name__
    failed = [
        f"{row['algorithm']} {row['error']}"
        for row in rows
        if row.get("error", unsupported) != unsupported
    ]
    text = []
    if good:
        name = min(good, key=lambda name: (good[name], name == "auto"))
        text.append(f"{name} {good[name]:.4g} ms")
        if "cusparse" in good and name != "cusparse":
            text.append(f"cusparse {good['cusparse']:.4g} ms")
    return ", ".join(text + sorted(set(failed))) or "nothing to solve"
