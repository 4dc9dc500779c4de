"""-Δu = 1 on a rectangle, u = 0 on its boundary: the 5-point Laplacian with and without M.

python examples/laplacian_2d.py --grid 512 512 --solver cg --preconditioner ilu0
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import gpuilu
from gpuilu import krylov

PRECONDITIONERS = {
    "ilu0": gpuilu.ilu0,
    "gauss_seidel": gpuilu.gauss_seidel,
    "ssor": lambda A: gpuilu.ssor(A, omega=1.5),
}


def laplacian(nx, ny):
    """4 on the diagonal, -1 for each neighbour in the grid."""

    def line(m):
        return sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))

    return sp.kronsum(line(nx), line(ny), format="csr")


def main():
    options = parse_options()
    A = laplacian(*options.grid)
    b = np.ones(A.shape[0])

    make = PRECONDITIONERS[options.preconditioner]
    krylov.warm_up(make, A)  # compile now, so that no time below includes it
    M = make(A)
    print(M, end="\n\n")

    outcomes = []
    for m in (None, krylov.Jacobi(A), M):
        _, outcome = krylov.solve(A, b, solver=options.solver, M=m, rtol=options.rtol)
        outcomes.append(outcome)
    print(krylov.table(outcomes))
    if options.plot:
        krylov.plot(outcomes, options.plot)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, nargs=2, default=(256, 256), metavar=("NX", "NY"))
    parser.add_argument("--solver", choices=krylov.SOLVERS, default="cg")
    parser.add_argument("--preconditioner", choices=PRECONDITIONERS, default="ilu0")
    parser.add_argument("--rtol", type=float, default=1e-6)
    parser.add_argument("--plot", metavar="FILE", help="save the convergence curves")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except gpuilu.GpuiluError as error:
        sys.exit(f"error: {error}")
