"""-ε Δu + w·∇u = 1 on the unit square, w a vortex: GMRES, where a preconditioner matters most.

Upwind differences: each point looks at the neighbour that the wind comes from. The smaller ε, the
less symmetric the matrix.

python examples/convection_diffusion.py --grid 64 --diffusion 0.01
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import gpuilu
from gpuilu import krylov


def convection_diffusion(m, diffusion):
    """The 5-point matrix on m x m inner points, scaled by h^2, x varying fastest."""
    h = 1 / (m + 1)
    x, y = np.meshgrid(h * np.arange(1, m + 1), h * np.arange(1, m + 1))
    wind_x = np.sin(np.pi * x) * np.cos(np.pi * y)
    wind_y = -np.cos(np.pi * x) * np.sin(np.pi * y)

    second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    backward = sp.diags_array([-1.0, 1.0], offsets=[-1, 0], shape=(m, m))
    one = sp.eye_array(m)
    A = diffusion * sp.kronsum(second, second)
    A += h * upwind(wind_x, sp.kron(one, backward))
    A += h * upwind(wind_y, sp.kron(backward, one))
    return A.tocsr()


def upwind(wind, backward):
    """w ∂u by the backward difference where w > 0 and the forward one, -backward^T, where w < 0."""
    w = wind.ravel()
    return (
        sp.diags_array(np.maximum(w, 0)) @ backward - sp.diags_array(np.minimum(w, 0)) @ backward.T
    )


def main():
    options = parse_options()
    A = convection_diffusion(options.grid, options.diffusion)
    b = np.full(A.shape[0], 1 / (options.grid + 1) ** 2)

    krylov.warm_up(gpuilu.ilu0, A)  # compile now, so that no time below includes it
    M = gpuilu.ilu0(A)
    print(M, end="\n\n")

    outcomes = []
    for m in (None, krylov.Jacobi(A), M):
        _, outcome = krylov.solve(A, b, solver=options.solver, M=m, restart=options.restart)
        outcomes.append(outcome)
    print(krylov.table(outcomes))
    if options.plot:
        krylov.plot(outcomes, options.plot)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, default=64, metavar="M", help="M x M inner points")
    parser.add_argument("--diffusion", type=float, default=0.01, metavar="ε")
    parser.add_argument("--solver", choices=("gmres", "bicgstab"), default="gmres")
    parser.add_argument("--restart", type=int, default=50)
    parser.add_argument("--plot", metavar="FILE", help="save the convergence curves")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except gpuilu.GpuiluError as error:
        sys.exit(f"error: {error}")
