"""Records that look measured: times by a simple law, so that what follows from them is known."""

from __future__ import annotations

from gpuilu.bench.record import Record
from gpuilu.bench.results import REFERENCE

# case: (n, nnz, levels) of the full sizes.
SIZES = {
    "g2d5_1024x1024": (1048576, 3143680, 2047),
    "g2d5_256x4096": (1048576, 3141376, 4351),
    "g2d5_64x16384": (1048576, 3129280, 16447),
    "g2d9_1024x1024": (1048576, 5236738, 3070),
    "g3d7_128": (2097152, 8339456, 382),
    "g3d7_64x64x512": (2097152, 8318976, 638),
    "g3d7_32x32x2048": (2097152, 8256512, 2110),
    "g3d27_128": (2097152, 28920060, 890),
    "elast3d_64_dof3": (786432, 31258716, 1326),
    "fem2d_rcm": (1000000, 3999959, 1612),
    "fem2d_random": (1000000, 3999959, 20),
    "powerlaw_1M": (1000000, 3223322, 4300),
    "road_1M": (1000000, 2288840, 67),
    "band64_60k": (60000, 3897920, 60000),
    "dense_2000": (2000, 2001000, 2000),
    "blocks_60k": (60000, 359990, 11),
    "arrow_466k": (466000, 1304796, 3),
    "kkt_100": (2000000, 28463592, 2),
}
# algorithm: (microseconds a level, microseconds for a million entries, set-up over solve).
COSTS = {
    "auto": (0.15, 12, 4),
    "blocked": (0.15, 12, 4),
    "level_col": (4.5, 30, 2),
    "level_row": (4.0, 25, 2),
    "row": (0.5, 18, 3),
    "selfsched_col": (0.9, 60, 3),
    "selfsched_row": (1.0, 40, 3),
    "syncfree": (1.2, 900, 0.1),
    "tile_level": (5.0, 20, 30),
    "tile_syncfree": (2.0, 80, 30),
    "cusparse": (1.8, 30, 2.5),
}
PRODUCTS = {"spmv": 9, "transpose": 60, "spgemm": 300}


def header(**changes):
    plain = {
        "schema": 1,
        "commit": "0123456789ab",
        "date": "2026-01-02T03:04:05+00:00",
        "card": "NVIDIA H100 80GB HBM3",
        "driver": "580.65.06, CUDA 13.0",
        "cupy": "14.2.0",
    }
    return plain | changes


def row(case="g3d7_128", algorithm="row", phase="solve", ms=1.0, dtype="float64", **changes):
    n, nnz, n_levels = SIZES[case]
    counts = {"case": case, "n": n, "nnz": nnz, "n_levels": n_levels}
    words = {"dtype": dtype, "nrhs": 1, "op": "lower", "trans": "N"}
    factors = {"ms": 1.0, "q1_ms": 0.98, "q3_ms": 1.02}
    times = {name: None if ms is None else f * ms for name, f in factors.items()}
    memory = 3 * nnz * (12 if dtype == "float64" else 8)
    rest = {"nbytes": memory, "backward_error": 1e-16}
    return {**counts, **words, "algorithm": algorithm, "phase": phase, **times, **rest, **changes}


def solve_ms(case, algorithm, dtype="float64"):
    _, nnz, n_levels = SIZES[case]
    a_level, a_million, _ = COSTS[algorithm]
    narrow = 0.6 if dtype == "float32" else 1.0
    return 1e-3 * (a_level * n_levels + narrow * a_million * nnz / 1e6)


def record(cases=SIZES, algorithms=COSTS, dtypes=("float64", "float32"), shares=(), products=False):
    rows = []
    for case in cases:
        for dtype in dtypes:
            for share in (None, *shares):
                marks = (
                    {} if share is None else {"share": share, "multiprocessors": int(132 * share)}
                )
                slower = 1 if share is None else share**-0.5
                for algorithm in algorithms:
                    if share is not None and algorithm == REFERENCE:
                        continue  # the vendor's does not come back there
                    ms = slower * solve_ms(case, algorithm, dtype)
                    setup = ms * COSTS[algorithm][2]
                    rows.append(row(case, algorithm, "setup", setup, dtype, **marks))
                    rows.append(row(case, algorithm, "solve", ms, dtype, **marks))
                for op, cost in PRODUCTS.items() if products else ():
                    ms = 1e-9 * cost * SIZES[case][1] / (share or 1)
                    rows.append(row(case, "cupyx", "run", ms, dtype, op=op, **marks))
    return Record(None, header(), rows)
