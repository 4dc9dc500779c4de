"""Which algorithm for this triangle: a rule from cheap features, made once, with its reason."""

from __future__ import annotations

from gpuilu.backend.cpu import n_threads
from gpuilu.dag import count_levels
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import find

__all__ = ["choose"]

# Measured on two cores, float64: `level` took 5.9 ms against 10.8 of `serial` on a randomly
# numbered 2-D grid (n = 1.05e6, 18 levels) and lost on naturally numbered grids (up to 3500 rows a
# level).
SMALLEST = 100_000  # rows below which waking threads cannot pay
ROWS_A_LEVEL = 16_384
FEWEST_SOLVES = 10  # the level order costs about as much as five solves


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
    if algorithm != "auto":
        return find(algorithm, device, deterministic=deterministic).name, "asked for"
    if device == "cuda":
        return "row", "the fastest exact algorithm on a GPU so far"
    return _on_cpu(triangles, expected_solves)


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
