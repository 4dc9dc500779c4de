"""-Δu = 1 in two or three dimensions: pyamg's hierarchy on the CPU, and moved to the GPU.

python examples/amg_poisson.py --grid 1024 1024 --hierarchy sa --plot residuals.png
python examples/amg_poisson.py --grid 128 128 128 --json record.json

pyamg builds the hierarchy; both solve by CG with one cycle as preconditioner. Without a GPU the
moved hierarchy runs on the CPU too.
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

SYMMETRIC = ("gauss_seidel", {"sweep": "symmetric"})
SMOOTHERS = {
    "jacobi": ("jacobi", {"omega": 4 / 3}),
    "chebyshev": ("chebyshev", {"degree": 3}),
    "gauss_seidel": SYMMETRIC,
}
HIERARCHIES = {"sa": pyamg.smoothed_aggregation_solver, "rs": pyamg.ruge_stuben_solver}


def main():
    options = parse_options()
    A = pyamg.gallery.poisson(tuple(options.grid), format="csr")
    b = np.ones(A.shape[0])
    moving = {} if options.dense_rows is None else {"dense_rows": options.dense_rows}

    def hierarchy(smoother):
        spec = SMOOTHERS[smoother]
        make = HIERARCHIES[options.hierarchy]
        return make(A, presmoother=spec, postsmoother=spec)

    ml = hierarchy("jacobi")
    print(ml)
    pairs = [
        compare.compare(
            lambda name=name: hierarchy(name),
            b,
            name=name,
            device=options.device,
            tol=options.tol,
            cycle=options.cycle,
            repeats=options.repeats,
            algorithm=options.algorithm,
            **moving,
        )
        for name in options.smoother or SMOOTHERS
    ]
    print(compare.table(pairs))
    if options.plot:
        compare.plot(pairs, options.plot)
    if options.json:
        grid = "x".join(map(str, options.grid))
        case = f"poisson {grid} {options.hierarchy} {options.cycle}"
        compare.write_record(options.json, case, ml, pairs)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, nargs="+", default=(256, 256), metavar="N")
    parser.add_argument("--hierarchy", choices=HIERARCHIES, default="sa")
    parser.add_argument("--smoother", choices=SMOOTHERS, action="append", help="default: all")
    parser.add_argument("--cycle", choices="VWF", default="V")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N")
    parser.add_argument("--algorithm", default="auto", help="of Gauss-Seidel's triangular solves")
    parser.add_argument("--dense-rows", type=int, help="see gpuilu.amg.to_gpu")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", metavar="FILE", help="save the residuals by iteration")
    parser.add_argument("--json", metavar="FILE", help="write the measurements as a record")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except gpuilu.GpuiluError as error:
        sys.exit(f"error: {error}")
