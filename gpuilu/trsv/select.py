"""Which algorithm for this triangle, decided once, with its reason.

"auto" is a rule from cheap features; "measure" times them all (measured.py).
"""

from __future__ import annotations

from gpuilu.backend.cpu import n_threads
from gpuilu.dag import count_levels, levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import find
from gpuilu.trsv.blocked import predicted
from gpuilu.trsv.dense_block import most_tile_fill, tile_fill
from gpuilu.trsv.long_rows import cut_long_rows
from gpuilu.trsv.measured import fastest
from gpuilu.trsv.row import predicted_us

__all__ = ["choose"]

# Measured on two cores, float64: `level` took 5.9 ms against 10.8 of `serial` on a randomly
# numbered 2-D grid (n = 1.05e6, 18 levels) and lost on naturally numbered grids (up to 3500 rows a
# level).
SMALLEST = 100_000  # rows below which waking threads cannot pay
ROWS_A_LEVEL = 16_384
FEWEST_SOLVES = 10  # the level order costs about as much as five solves

# Chosen by what an H100 and an H200 took: see docs/notes/strips.rst.
FEW_ROWS = 1024
DENSE = 0.5  # of the places of 32x32 tiles
FEWEST_SOLVES_CUDA = 5
FAST_US = 50.0
BLOCKED_SETUP_US = 1_500.0  # beyond that of `row`


def choose(
    triangles: tuple[Triangle, ...],
    algorithm: str,
    device: str,
    *,
    expected_solves: int,
    deterministic: bool,
) -> tuple[str, str]:
    """The name of the algorithm for a set of triangles that are applied together, and why.

    `device` is "cpu" or "cuda".

    Raises
    ------
    UnknownAlgorithmError, UnsupportedAlgorithmError
        If the algorithm asked for does not exist or cannot be used here.
    """
    if algorithm == "measure" and any(T.n for T in triangles):
        return fastest(triangles, device, deterministic=deterministic)
    if algorithm not in ("auto", "measure"):
        return find(algorithm, device, deterministic=deterministic).name, "asked for"
    if device == "cuda":
        return _on_cuda(triangles, expected_solves)
    return _on_cpu(triangles, expected_solves)


def _on_cuda(triangles: tuple[Triangle, ...], expected_solves: int) -> tuple[str, str]:
    n = max((T.n for T in triangles), default=0)
    if n < FEW_ROWS:
        return "row", f"n = {n} is below {FEW_ROWS}: any algorithm will do"
    if all(most_tile_fill(T) >= DENSE and tile_fill(T) >= DENSE for T in triangles):
        return "dense_block", f"32x32 tiles are at least {DENSE:.0%} full"
    if expected_solves < FEWEST_SOLVES_CUDA:
        return "row", f"{expected_solves} expected solves repay no larger set-up"
    # As the plans have them: to analyse the uncut triangle as well would take many times as long.
    shapes = [(cut_long_rows(T).pattern, T.dtype) for T in triangles]
    row = sum(predicted_us(P, levels(P), dtype.itemsize) for P, dtype in shapes)
    if row < FAST_US * len(triangles):
        return "row", f"{row:.0f} us predicted for a solve, too little to save on"
    blocked = sum(predicted(P, dtype)[0] for P, dtype in shapes)
    costs = BLOCKED_SETUP_US * len(triangles) / expected_solves
    told = f"predicted {row:.0f} us a solve by rows, {blocked:.0f} in strips"
    return ("blocked" if blocked + costs < row else "row"), told


def _on_cpu(triangles: tuple[Triangle, ...], expected_solves: int) -> tuple[str, str]:
    n = max((T.n for T in triangles), default=0)
    threads = n_threads()
    if threads == 1:
        return "serial", "one thread"
    if n < SMALLEST:
        return "serial", f"n = {n} is below {SMALLEST}, too few rows to share"
    if expected_solves < FEWEST_SOLVES:
        return "serial", f"{expected_solves} expected solves do not repay a level order"
    n_levels = max(count_levels(T) for T in triangles)
    rows = n // max(n_levels, 1)
    if rows < ROWS_A_LEVEL:
        return "serial", f"{rows} rows a level on average, too few for {threads} threads"
    return "level", f"{rows} rows a level on average, shared by {threads} threads"
