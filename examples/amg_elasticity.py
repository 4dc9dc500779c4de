"""Plane linear elasticity, two unknowns a node: smoothed aggregation with smoothers on blocks.

python examples/amg_elasticity.py --grid 200 200

The matrix is BSR: "gauss_seidel" relaxes one unknown after the other, "block_gauss_seidel" one
node after the other. pyamg solves on the CPU, the moved hierarchy on the GPU if there is one.
"""

import argparse
import sys

import numpy as np

import gpuilu
from gpuilu.amg import compare

try:
    import pyamg
except ImportError:
    sys.exit("error: this example needs pyamg: pip install 'gpuilu[amg]'")

SMOOTHERS = {
    "block_jacobi": ("block_jacobi", {"omega": 4 / 3}),
    "gauss_seidel": ("gauss_seidel", {"sweep": "symmetric"}),
    "block_gauss_seidel": ("block_gauss_seidel", {"sweep": "symmetric"}),
}


def main():
    options = parse_options()
    A, B = pyamg.gallery.linear_elasticity(tuple(options.grid), format="bsr")
    b = np.random.default_rng(0).standard_normal(A.shape[0])

    def hierarchy(smoother):
        spec = SMOOTHERS[smoother]
        return pyamg.smoothed_aggregation_solver(A, B=B, presmoother=spec, postsmoother=spec)

    print(hierarchy("block_jacobi"))
    pairs = [
        compare.compare(
            lambda name=name: hierarchy(name),
            b,
            name=name,
            device=options.device,
            tol=options.tol,
            repeats=options.repeats,
        )
        for name in SMOOTHERS
    ]
    print(compare.table(pairs))
    if options.plot:
        compare.plot(pairs, options.plot)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, nargs=2, default=(100, 100), metavar=("NX", "NY"))
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", metavar="FILE", help="save the residuals by iteration")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except gpuilu.GpuiluError as error:
        sys.exit(f"error: {error}")
