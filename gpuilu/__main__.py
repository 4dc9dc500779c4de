"""A x = b from the command line: `gpuilu info`, `solve`, `compare` and `bench`."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import scipy
import scipy.sparse as sp

import gpuilu
from gpuilu import krylov, sources
from gpuilu.backend.cpu import n_threads
from gpuilu.bench import command as bench
from gpuilu.errors import GpuiluError
from gpuilu.trsv.base import algorithms

EPILOG = f"""\
SOURCE is {sources.SOURCES}.

exit codes:
  0  done; the solution was found
  1  the solver did not converge
  2  wrong arguments, an unreadable file, or a matrix that cannot be used
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code, as `gpuilu --help` explains it."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(bench.with_run(given))
    try:
        return int(options.run(options))
    except (GpuiluError, OSError) as error:
        print(f"gpuilu: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    style: Any = {"epilog": EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(
        prog="gpuilu", description=gpuilu.__doc__.splitlines()[0], **style
    )
    parser.add_argument("--version", action="version", version=f"gpuilu {gpuilu.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info", help="the installation, or what a matrix looks like", **style
    )
    info.add_argument("source", nargs="?", metavar="SOURCE")
    info.set_defaults(run=_info)
    solve = commands.add_parser("solve", help="solve A x = b with and without M", **style)
    _add_solve_options(solve)
    solve.set_defaults(run=_solve)
    comparing = commands.add_parser(
        "compare", help="solve A x = b under several preconditioners and algorithms", **style
    )
    _add_compare_options(comparing)
    comparing.set_defaults(run=_compare)
    bench.add_parser(commands)
    return parser


def _add_solve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE")
    add("--rhs", metavar="FILE", help="b, in a Matrix Market file; default: normal numbers, seed 0")
    add(
        "--solver",
        choices=krylov.SOLVERS,
        help="default: cg if A is Hermitian with a positive diagonal, else gmres",
    )
    add("--rtol", type=float, default=1e-6, help="stop at ||b - A x|| <= rtol ||b||; default 1e-6")
    add("--maxiter", type=int, help="default: 10 n + 1, at most 10000 (gmres: 2000)")
    add("--restart", type=int, default=50, help="gmres: iterations between restarts; default 50")
    add("--plot", metavar="FILE", help="save the convergence curves (needs matplotlib)")
    group = parser.add_argument_group("preconditioner")
    add = group.add_argument
    add("--preconditioner", choices=krylov.PRECONDITIONERS, default="ilu0", help="default: ilu0")
    add("--omega", type=float, help="sor, ssor: relaxation between 0 and 2")
    add("--pivot", metavar="RULE", help="ilu0: what a zero pivot does: raise, boost or shift")
    add(
        "--missing-diagonal",
        metavar="RULE",
        help="what a missing diagonal entry does: raise or insert",
    )
    add(
        "--algorithm",
        metavar="NAME",
        help="triangular solves; `gpuilu info` lists the names; default: auto",
    )
    add("--device", help="auto, cpu or cuda:N; default: auto")


def _add_compare_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE")
    add("--rhs", metavar="FILE", help="b, in a Matrix Market file; default: normal numbers, seed 0")
    some: Any = {"type": lambda text: text.split(","), "metavar": "NAME,..."}
    names = ", ".join(krylov.PRECONDITIONERS)
    add("--preconditioners", default=["none", "jacobi", "gauss_seidel", "ilu0"], help=names, **some)
    add("--algorithms", default=["auto"], help="triangular solves; default: auto", **some)
    add("--solver", choices=krylov.SOLVERS, help="for all; default: cg where A allows it")
    add("--rtol", type=float, default=1e-6, help="as for solve; default 1e-6")
    add("--maxiter", type=int)
    add("--restart", type=int, default=50)
    add("--omega", type=float, default=1.0, help="sor, ssor: relaxation between 0 and 2; default 1")
    add("--device", default="auto", help="auto, cpu or cuda:N; default: auto")


# ---- info ---------------------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> int:
    if options.source is None:
        print(_installation())
    else:
        print(_matrix_facts(options.source, sources.load(options.source)))
    return 0


def _installation() -> str:
    by_device: dict[str, list[str]] = {}
    for name, device in sorted(algorithms()):
        by_device.setdefault(device, []).append(name)
    facts = {
        "gpuilu": gpuilu.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "threads": str(n_threads()),
    }
    facts |= {f"algorithms on {d}": ", ".join(["auto", *names]) for d, names in by_device.items()}
    return _listed(facts)


def _matrix_facts(source: str, A: sp.csr_array) -> str:
    n = A.shape[0]
    facts = {
        "order": f"{n}",
        "entries": f"{A.nnz} ({A.nnz / max(n, 1):.1f} a row), {A.dtype}",
        "symmetry": _symmetry(A),
        "diagonal": _diagonal(A),
        "levels": f"{_n_levels(A, True)} lower, {_n_levels(A, False)} upper",
        "ilu0": _what_ilu0_does(A),
    }
    return f"{source}\n{_listed(facts)}"


def _symmetry(A: sp.csr_array) -> str:
    pattern = sp.csr_array((np.ones(A.nnz, np.int8), A.indices, A.indptr), shape=A.shape)
    if krylov.is_hermitian(A):
        return "Hermitian" if A.dtype.kind == "c" else "symmetric"
    if A.dtype.kind == "c" and (A != A.T).nnz == 0:
        return "complex symmetric, not Hermitian"
    if (pattern != pattern.T).nnz == 0:
        return "symmetric pattern, other values"
    return "none"


def _diagonal(A: sp.csr_array) -> str:
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    stored = np.zeros(A.shape[0], bool)
    stored[rows[rows == A.indices]] = True
    missing, zero = np.flatnonzero(~stored), np.flatnonzero(stored & (A.diagonal() == 0))
    found = [
        f"{len(at)} {what}, the first in row {at[0]}"
        for at, what in ((missing, "missing"), (zero, "stored but zero"))
        if len(at)
    ]
    return "; ".join(found) or "complete, without zeros"


def _n_levels(A: sp.csr_array, lower: bool) -> int | None:
    triangle = sp.tril(A) if lower else sp.triu(A)
    info = gpuilu.TriangularSolver(triangle, lower=lower, unit_diagonal=True).info
    return info.n_levels_lower if lower else info.n_levels_upper


def _what_ilu0_does(A: sp.csr_array) -> str:
    try:
        krylov.warm_up(gpuilu.ilu0, A)
        info = gpuilu.ilu0(A).info
    except GpuiluError as error:
        return f"fails: {error}"
    return f"completes in {info.setup_ms:.2f} ms; solves by {info.algorithm!r}: {info.reason}"


def _listed(facts: dict[str, str]) -> str:
    width = max(map(len, facts))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in facts.items())


# ---- solve --------------------------------------------------------------------------------------


def _solve(options: argparse.Namespace) -> int:
    A = sources.load(options.source)
    n = A.shape[0]
    print(f"{options.source}: n = {n}, {A.nnz} entries, {A.dtype}")
    b = _right_hand_side(options.rhs, n)
    M = _made_preconditioner(options, A)
    keywords = {
        "solver": _chosen_solver(options.solver, A, M),
        "rtol": options.rtol,
        "maxiter": options.maxiter,
        "restart": options.restart,
    }
    print(_device(M), end="\n\n", flush=True)
    runs = [None] if M is None else [None, M]
    outcomes = [krylov.solve(A, b, M=m, **keywords)[1] for m in runs]
    print(krylov.table(outcomes))
    if options.plot:
        krylov.plot(outcomes, options.plot)
        print(f"Convergence curves: {options.plot}")
    return 0 if outcomes[-1].converged else 1


def _right_hand_side(path: str | None, n: int) -> np.ndarray:
    return sources.load_rhs(path) if path else np.random.default_rng(0).standard_normal(n)


def _made_preconditioner(options: argparse.Namespace, A: sp.csr_array) -> Any:
    names = ("omega", "pivot", "missing_diagonal", "algorithm", "device")
    keywords = {k: v for k in names if (v := getattr(options, k)) is not None}

    def make(A: sp.csr_array) -> Any:
        return krylov.preconditioner(options.preconditioner, A, **keywords)

    krylov.warm_up(make, A)
    return make(A)


def _chosen_solver(asked: str | None, A: sp.csr_array, M: Any) -> str:
    """The solver asked for, or the one that fits; says which and why."""
    fitting, reason = krylov.choose_solver(A, M)
    if asked is None:
        print(f"solver {fitting}: {reason}")
        return fitting
    if asked == "cg" and fitting != "cg":
        print(f"solver cg, as asked for; it may fail: {reason}")
    else:
        print(f"solver {asked}, as asked for")
    return asked


def _device(M: Any) -> str:
    info = getattr(M, "info", None)
    if info is None:
        return "device cpu"
    return (
        f"device {info.device}: {info.device_reason}\n"
        f"triangular solves by {info.algorithm!r}: {info.reason}"
    )


# ---- compare ------------------------------------------------------------------------------------


def _compare(options: argparse.Namespace) -> int:
    A = sources.load(options.source)
    n = A.shape[0]
    print(f"{options.source}: n = {n}, {A.nnz} entries, {A.dtype}", flush=True)
    names = ("preconditioners", "algorithms", "solver", "rtol", "maxiter", "restart", "omega")
    keywords: Any = {name: getattr(options, name) for name in (*names, "device")}
    found = krylov.compare(A, _right_hand_side(options.rhs, n), **keywords)
    print(f"solver {found.solver}: {found.reason}", end="\n\n")
    print(found)
    return 0 if found.fastest else 1


if __name__ == "__main__":
    sys.exit(main())
