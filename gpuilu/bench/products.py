"""T v, T^T and T T beside the solves: the talk's other three kernels, on the same matrices.

CuPy's (cuSPARSE's) on a GPU, SciPy's on the CPU; the transpose also as this package makes it.
Source: Liu, "Scalability analysis of sparse matrix computations on many-core processors" (2017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuilu.bench.race import Contender, failure, race, summary
from gpuilu.bench.systems import System, flop, is_gpu
from gpuilu.triangle import Transposed

__all__ = ["PRODUCTS", "measure_products", "product_row", "transposes"]


class Product(Contender):
    """A function of the triangle in the host library's CSR format."""

    timed = frozenset({"solve"})

    def __init__(self, name: str, system: System, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name, system)
        self.function = function
        self.T: Any = None

    def build(self) -> None:
        self.T = self.system.triangles[0].to_csr()

    def run(self) -> None:
        self.function(self.T, self.system.b)

    def finish(self) -> None:
        pass  # the libraries' own

    def release(self) -> None:
        self.T = None


class OwnTranspose(Contender):
    """The transpose as a triangle of this package."""

    timed = frozenset({"solve"})

    def build(self) -> None:
        pass

    def run(self) -> None:
        Transposed(self.system.triangles[0], conjugate=False)

    def finish(self) -> None:
        pass  # tested


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "spmv": lambda T, b: T @ b,
    "transpose": lambda T, b: T.T.tocsr(),
    "spgemm": lambda T, b: T @ T,
}


def measure_products(system: System, *, budget_s: float) -> list[dict[str, Any]]:
    """Rows of a record with the products in the place of `op` and phase "run"."""
    library = _library(system)
    contenders: dict[tuple[str, str], Contender] = {
        (op, library): Product(library, system, PRODUCTS[op]) for op in ("spmv", "spgemm")
    }
    contenders |= transposes(system)
    race(list(contenders.values()), budget_s)
    rows = [product_row(system, op, contender) for (op, _), contender in contenders.items()]
    return [r | {"flop": flop(system.triangles[0])} if r["op"] == "spgemm" else r for r in rows]


def transposes(system: System) -> dict[tuple[str, str], Contender]:
    """The transpose by the host library (csr2csc of cuSPARSE on a GPU) and by this package."""
    library = _library(system)
    return {
        ("transpose", library): Product(library, system, PRODUCTS["transpose"]),
        ("transpose", "gpuilu"): OwnTranspose("gpuilu", system),
    }


def product_row(system: System, op: str, contender: Contender) -> dict[str, Any]:
    """A row of a record for what is no solve."""
    facts = {"op": op, "algorithm": contender.name, "phase": "run"}
    times = summary(contender.solves_ms)
    rest = {"nbytes": None, "backward_error": None}
    return {**system.row(), **facts, **times, **rest, **failure(contender)}


def _library(system: System) -> str:
    return "cupyx" if is_gpu(system) else "scipy"
