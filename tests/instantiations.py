"""Every kernel instantiation that the package can launch, by family."""

from __future__ import annotations

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv.blocked import WIDTHS
from gpuilu.trsv.dense_block import PANELS
from gpuilu.trsv.row import IN_FLIGHT, LANES, columns_at_once

VALUES = tuple(VALUE_TYPES)
# (factors, vectors): a vector is as wide as the factors or wider, and complex vectors on real
# factors are solved as twice as many real ones.
PAIRS = ("ff", "fd", "dd", "FF", "FD", "DD")


def _row() -> list[str]:
    return [
        f"row_solve<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{lanes},{IN_FLIGHT},{columns},{unit}>"
        for f, v in PAIRS
        for lanes in LANES
        for columns in (1, columns_at_once(v))
        for unit in ("true", "false")
    ] + [f"reciprocals<{VALUE_TYPES[v]}>" for v in VALUES]


def _blocked() -> list[str]:
    return [
        f"strips_solve<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{K},{columns},{unit}>"
        for f, v in PAIRS
        for K in WIDTHS
        for columns in (1, columns_at_once(v))
        for unit in ("true", "false")
    ]


def _dense_block() -> list[str]:
    return [
        f"solve_panels<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{rows},{columns}>"
        for f, v in PAIRS
        for rows in PANELS
        for columns in (1, columns_at_once(v))
    ] + [f"fill_dense_tiles<{VALUE_TYPES[v]}>" for v in VALUES]


def _pattern() -> list[str]:
    by_value = ("gather_rows", "gather_short_rows", "first_not_finite", "differs_from_adjoint")
    return [
        *(f"{kernel}<{VALUE_TYPES[v]}>" for kernel in by_value for v in VALUES),
        *(f"{kernel}<int>" for kernel in by_value[:2]),
        *(f"scan_rows<{index}>" for index in ("int", "long long")),
    ]


def _tiles(kernel: str) -> list[str]:
    return [
        f"{kernel}<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{columns}>"
        for f, v in PAIRS
        for columns in (1, columns_at_once(v))
    ]


def _tile_level() -> list[str]:
    return [
        *_tiles("solve_levels"),
        *(f"solve_diagonals<{VALUE_TYPES[f]},{VALUE_TYPES[v]}>" for f, v in PAIRS),
        *(f"fill_tiles<{VALUE_TYPES[v]}>" for v in VALUES),
    ]


INSTANTIATIONS = {
    "blocked": _blocked(),
    "dense_block": _dense_block(),
    "ilu0": [f"ilu0_factor<{VALUE_TYPES[v]}>" for v in VALUES],
    "levels": [f"row_depths<{lower}>" for lower in ("true", "false")],
    "pattern": _pattern(),
    "row": _row(),
    "tile_level": _tile_level(),
    "tile_syncfree": _tiles("solve_tile_rows"),
}
