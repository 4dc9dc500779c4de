"""Every kernel instantiation that the package can launch, by family."""

from __future__ import annotations

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.products import LANES as PRODUCT_LANES
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


def _pattern() -> list[str]:
    by_value = ("gather_rows", "gather_short_rows", "first_not_finite", "differs_from_adjoint")
    return [
        *(f"{kernel}<{VALUE_TYPES[v]}>" for kernel in by_value for v in VALUES),
        *(f"{kernel}<int>" for kernel in by_value[:2]),
        *(f"scan_rows<{index}>" for index in ("int", "long long")),
    ]


INSTANTIATIONS = {
    "ilu0": [f"ilu0_factor<{VALUE_TYPES[v]}>" for v in VALUES],
    "levels": [f"row_depths<{lower}>" for lower in ("true", "false")],
    "pattern": _pattern(),
    "row": _row(),
    "spmv": [
        *(f"row_products<{VALUE_TYPES[v]},{lanes}>" for v in VALUES for lanes in PRODUCT_LANES),
        *(f"dense_products<{VALUE_TYPES[v]}>" for v in VALUES),
    ],
}
