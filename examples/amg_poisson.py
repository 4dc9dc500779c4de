"""-Δu = 1 in two or three dimensions: pyamg's hierarchy on the CPU, and moved to the GPU.

python examples/amg_poisson.py --grid 1024 1024 --hierarchy sa --plot residuals.png
python examples/amg_poisson.py --grid 128 128 128 --json record.json

pyamg builds the hierarchy; both solve by CG with one cycle as preconditioner. CG with ILU(0) is
beside them. Without a GPU all runs on the CPU.

The hierarchy is built once and gets one smoother after the other, by pyamg: building does not
depend on them, so its time is part of the set-up of each. Its coarse matrices, BSR with blocks of
one, are turned into CSR, on which pyamg sweeps up to four times faster.
"""

import argparse
import sys
import time

import numpy as np

import gpuilu
from gpuilu.amg import compare

try:
    import pyamg
    from pyamg.relaxation.smoothing import change_smoothers
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
    start = time.perf_counter()
    ml = compare.scalar_as_csr(HIERARCHIES[options.hierarchy](A))
    built_ms = (time.perf_counter() - start) * 1e3
    print(ml, flush=True)
    same = {"device": options.device, "tol": options.tol, "repeats": options.repeats}
    others = [] if options.no_ilu0 else [compare.without_multigrid(A, b, **same)]
    pairs = []
    for name in options.smoother or SMOOTHERS:
        pairs.append(compared(options, ml, b, name, built_ms, same))
        told = [f"{side.algorithm} {side.median_ms:.1f} ms" for side in pairs[-1]]
        print(f"{name}: {', '.join(told)}", flush=True)
        write(options, ml, pairs, others)  # at once: pyamg may take minutes for the next
    print(compare.table(pairs, others))


def compared(options, ml, b, name, built_ms, same):
    """The smoother's measurements."""
    spec = SMOOTHERS[name]
    moving = {} if options.dense_rows is None else {"dense_rows": options.dense_rows}

    def with_smoother():
        change_smoothers(ml, presmoother=spec, postsmoother=spec)
        return ml

    moving |= {"cycle": options.cycle, "algorithm": options.algorithm}
    return compare.compare(with_smoother, b, name=name, built_ms=built_ms, **same, **moving)


def write(options, ml, pairs, others):
    """The files asked for."""
    if options.json:
        grid = "x".join(map(str, options.grid))
        case = f"poisson {grid} {options.hierarchy} {options.cycle}"
        compare.write_record(options.json, case, ml, pairs, others)
    if options.plot:
        compare.plot(pairs, options.plot, others)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, nargs="+", default=(256, 256), metavar="N")
    parser.add_argument("--hierarchy", choices=HIERARCHIES, default="sa")
    parser.add_argument("--smoother", choices=SMOOTHERS, action="append", help="default: all")
    parser.add_argument("--no-ilu0", action="store_true", help="leave out CG with ILU(0)")
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
