"""Every kernel instantiation that the package can launch, by family."""

from __future__ import annotations

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.dag import POLLS
from gpuilu.products import LANES as PRODUCT_LANES
from gpuilu.trsv.blocked import WIDTHS
from gpuilu.trsv.dense_block import PANELS
from gpuilu.trsv.row import LANES
from gpuilu.trsv.strips import MOST_OF_LANE
from gpuilu.trsv.waiting import columns_at_once

VALUES = tuple(VALUE_TYPES)
# (factors, vectors): a vector is as wide as the factors or wider, and complex vectors on real
# factors are solved as twice as many real ones.
PAIRS = ("ff", "fd", "dd", "FF", "FD", "DD")
SUMS = (1, 2, 4, 8)  # of a lane of `row_columns`


def _row() -> list[str]:
    return [
        f"{kernel}<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{how},{unit}>"
        for f, v in PAIRS
        for kernel, ways in (
            ("row_solve", [f"{lanes},{in_flight}" for lanes in LANES for in_flight in (2, 4)]),
            ("row_columns", SUMS),
        )
        for how in ways
        for unit in ("true", "false")
    ] + [f"reciprocals<{VALUE_TYPES[v]}>" for v in VALUES]


def _blocked() -> list[str]:
    return (
        [
            f"strips_solve<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{K},{far},{columns},{unit}>"
            for f, v in PAIRS
            for K in WIDTHS[f]
            for far, columns in _strips(f, v, K)
            for unit in ("true", "false")
        ]
        + [
            f"{kernel}<{VALUE_TYPES[v]}>"
            for kernel in ("strips_enter", "strips_refresh", "strips_entries")
            for v in VALUES
        ]
        + [
            f"strips_scatter<{VALUE_TYPES[v]},{columns}>"
            for v in VALUES
            for columns in (1, columns_at_once(v))
        ]
        + [
            f"strips_records<{VALUE_TYPES[f]},{K}>"
            for f in WIDTHS
            for K in WIDTHS[f]
            if K <= MOST_OF_LANE
        ]
    )


def _strips(factors: str, vector: str, K: int) -> list[tuple[int, int]]:
    """(how gatherers wait for far entries, columns)."""
    copied = [(3, 1)] if factors == vector != "D" and K <= MOST_OF_LANE else []
    one = [(2, 1)] if vector == "D" else [(1, 1), (5, 1)]
    return [*one, (2, columns_at_once(vector)), *copied]


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


def _order() -> list[str]:
    return [
        *("level_bounds", "place_rows", "place_entries", "begin_tasks"),
        *(f"take_rows<{value}>" for value in ("int", *VALUE_TYPES.values())),
        *(f"take_entries<{value}>" for value in VALUE_TYPES.values()),
    ]


def _strips_pack() -> list[str]:
    widths = sorted({K for widths in WIDTHS.values() for K in widths})
    return [
        *(
            "begin_runs",
            "note_most_near",
            "share_runs",
            "note_shares",
            "count_strip_rows",
            "widest_strips",
            "place_in_strips",
            "note_runs",
            "cut_runs",
            "note_steps",
        ),
        *("count_near", "count_far"),
        *(f"split_rows<{K}>" for K in widths),
        *(
            f"{kernel}<{lower}>"
            for kernel in ("range_of_rows", "check_axis", "cut_axis", "count_range_rows")
            for lower in ("true", "false")
        ),
    ]


def _by_pair(kernel: str) -> list[str]:
    """One right-hand side, and several at once."""
    return [
        f"{kernel}<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{columns}>"
        for f, v in PAIRS
        for columns in (1, columns_at_once(v))
    ]


def _tile_level() -> list[str]:
    return [
        *_by_pair("solve_levels"),
        *(f"solve_diagonals<{VALUE_TYPES[f]},{VALUE_TYPES[v]}>" for f, v in PAIRS),
        *(f"fill_tiles<{VALUE_TYPES[v]}>" for v in VALUES),
    ]


def _by_pair_and_one(kernel: str) -> list[str]:
    """Exactly one right-hand side, or any number."""
    return [
        f"{kernel}<{VALUE_TYPES[f]},{VALUE_TYPES[v]},{one}>"
        for f, v in PAIRS
        for one in ("true", "false")
    ]


INSTANTIATIONS = {
    "blocked": _blocked(),
    "dense_block": _dense_block(),
    "ilu0": [f"ilu0_factor<{VALUE_TYPES[v]}>" for v in VALUES],
    "kahn": ["first_roots", "remove_roots"],
    "level_col": _by_pair_and_one("level_columns"),
    "level_row": _by_pair("level_rows"),
    "levels": [f"row_depths<{lower},{k}>" for lower in ("true", "false") for k in POLLS],
    "levels_chunk": [f"row_depths_by_chunk<{lower}>" for lower in ("true", "false")],
    "order": _order(),
    "pattern": _pattern(),
    "row": _row(),
    "selfsched_col": _by_pair_and_one("selfsched_columns"),
    "selfsched_row": _by_pair("selfsched_rows"),
    "shape": [f"row_shapes<{lower}>" for lower in ("true", "false")],
    "spmv": [
        *(f"row_products<{VALUE_TYPES[v]},{lanes}>" for v in VALUES for lanes in PRODUCT_LANES),
        *(f"dense_products<{VALUE_TYPES[v]}>" for v in VALUES),
    ],
    "strips_grow": [
        *("begin_words", "begin_patches", "begin_strips", "note_strips"),
        *(f"grow_patches<{lower}>" for lower in ("true", "false")),
    ],
    "strips_pack": _strips_pack(),
    "syncfree": _by_pair_and_one("syncfree_solve"),
    "tile_level": _tile_level(),
    "tile_syncfree": _by_pair("solve_tile_rows"),
    "transpose": [
        *("count_columns", "scatter_entries", "rank_entries"),
        *(f"column_values<{VALUE_TYPES[v]}>" for v in VALUES),
    ],
}
