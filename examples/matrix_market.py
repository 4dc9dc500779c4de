"""A x = b with a matrix from a Matrix Market file (.mtx or .mtx.gz), by the solver that fits it.

python examples/matrix_market.py FILE --missing-diagonal insert
"""

import argparse
import sys

import numpy as np

import gpuilu
from gpuilu import krylov, sources


def main():
    options = parse_options()
    A = sources.load(options.file)  # scipy.io.mmread, once the file's counts are checked
    b = np.random.default_rng(0).standard_normal(A.shape[0])

    def make(A):
        return gpuilu.ilu0(A, pivot=options.pivot, missing_diagonal=options.missing_diagonal)

    krylov.warm_up(make, A)  # compile now, so that no time below includes it
    M = make(A)
    print(M, end="\n\n")

    solver, reason = krylov.choose_solver(A, M)
    print(f"{solver}: {reason}")
    others = [None, krylov.Jacobi(A)] if A.diagonal().all() else [None]
    outcomes = [krylov.solve(A, b, solver=solver, M=m)[1] for m in (*others, M)]
    print(krylov.table(outcomes))
    if options.plot:
        krylov.plot(outcomes, options.plot)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--pivot", choices=("raise", "boost", "shift"), default="raise")
    parser.add_argument("--missing-diagonal", choices=("raise", "insert"), default="raise")
    parser.add_argument("--plot", metavar="FILE", help="save the convergence curves")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (gpuilu.GpuiluError, OSError) as error:
        sys.exit(f"error: {error}")
