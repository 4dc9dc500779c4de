"""T x = b on a device, ready to be timed: triangles, right-hand side, counts and a yardstick."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.csr import canonical
from gpuilu.dag import count_levels
from gpuilu.errors import OptionError
from gpuilu.factor.split import Split
from gpuilu.triangle import Transposed, Triangle

__all__ = ["OPS", "Problem", "System", "flop"]

OPS = ("lower", "upper", "apply")
# An H100: seconds a dependent step takes inside one multiprocessor, and bytes a second from memory.
STEP_S, BYTES_A_SECOND, YARDSTICK_CARDS = 0.03e-6, 2.9e12, re.compile("H[12]00")


@dataclass(frozen=True)
class Problem:
    """What is solved: the words of a record's row.

    Parameters
    ----------
    case : str
    dtype : str
        A numpy name.
    op : {"lower", "upper", "apply"}
        "apply" is U^-1 (L^-1 b), both with the diagonal of the matrix, as in Li (2017).
    nrhs : int
    trans : {"N", "T", "H"}
    """

    case: str
    dtype: str = "float64"
    op: str = "lower"
    nrhs: int = 1
    trans: str = "N"


class System:
    """The triangles of one matrix in the order of their solves, with b, on "cpu" or "cuda:N".

    A matrix without entries above its diagonal stands for the symmetric one: its upper triangle is
    the transpose of the lower.
    """

    def __init__(self, problem: Problem, A: sp.csr_array, device: str) -> None:
        if problem.op not in OPS or problem.trans not in ("N", "T", "H"):
            raise OptionError(f"op is one of {OPS} and trans of N, T, H; found {problem}")
        self.problem = problem
        self.device = device
        self.triangles = _triangles(A.astype(problem.dtype), problem.op, device)
        if problem.trans != "N":
            conjugate = problem.trans == "H"
            self.triangles = [Transposed(T, conjugate).triangle for T in self.triangles[::-1]]
        shape = (self.n,) if problem.nrhs == 1 else (self.n, problem.nrhs)
        b = np.random.default_rng(0).standard_normal(shape).astype(problem.dtype)
        self.b = cuda.placed(b, device)

    @property
    def n(self) -> int:
        """Order of the matrix."""
        return self.triangles[0].n

    @property
    def nnz(self) -> int:
        """Entries of the triangle, or of the matrix of which both are applied."""
        return sum(T.nnz for T in self.triangles) - self.n * (len(self.triangles) - 1)

    @cached_property
    def n_levels(self) -> int:
        """Levels, of both triangles together for "apply"."""
        return sum(count_levels(T) for T in self.triangles)

    def floor_ms(self, card: str) -> float | None:
        """The larger of the time of the levels and of the bytes, on an H100 or H200."""
        if not YARDSTICK_CARDS.search(card):
            return None
        itemsize = self.b.itemsize
        traffic = (4 + itemsize) * sum(T.nnz for T in self.triangles)
        traffic += (2 * itemsize * self.problem.nrhs + 4) * self.n * len(self.triangles)
        return 1e3 * max(self.n_levels * STEP_S, traffic / BYTES_A_SECOND)

    def row(self) -> dict[str, Any]:
        """What a record says of the system itself."""
        P = self.problem
        counts = {"n": self.n, "nnz": self.nnz, "n_levels": self.n_levels}
        words = {"dtype": P.dtype, "nrhs": P.nrhs, "op": P.op, "trans": P.trans}
        return {"case": P.case, **counts, **words}

    def backward_error(self, vectors: list[Any]) -> float:
        """max |b - T x| / (|T||x| + |b|) over components and triangles, in double precision.

        `vectors` are b and then the solution with each triangle, which is the next one's b.
        """
        errors = [
            _componentwise(T, absolute, x, b)
            for (T, absolute), b, x in zip(self._checks, vectors[:-1], vectors[1:], strict=True)
        ]
        return float(np.max(errors))  # which passes a NaN on, as max() does not

    def bound(self) -> float:
        """What substitution keeps the backward error below: a few eps for each entry of a row."""
        longest = max(int((T.indptr[1:] - T.indptr[:-1]).max()) + 1 for T in self.triangles)
        return 4 * longest * float(np.finfo(self.b.dtype).eps)

    @cached_property
    def _checks(self) -> list[tuple[Any, Any]]:
        wide = [T.astype(np.result_type(T.dtype, np.float64)).to_csr() for T in self.triangles]
        return [(T, abs(T)) for T in wide]


def _componentwise(T: Any, absolute: Any, x: Any, b: Any) -> float:
    xp = namespace(x)
    wide = x.astype(T.dtype)
    residual = abs(b - T @ wide)
    scale = absolute @ abs(wide) + abs(b)
    error = xp.where(residual == 0, 0.0, residual / xp.where(scale == 0, 1.0, scale))
    return float(error.max())


def _triangles(A: sp.csr_array, op: str, device: str) -> list[Triangle]:
    C = canonical(A).to(device)
    S = Split(C.indptr, C.indices, C.diagonal, "LU")
    diag = C.data[C.diagonal]
    lower, upper = S.lower(C.data, diag), S.upper(C.data, diag)
    if op != "lower" and not len(upper.indices):
        upper = Transposed(lower, conjugate=False).triangle
    return {"lower": [lower], "upper": [upper], "apply": [lower, upper]}[op]


def flop(T: Triangle) -> int:
    """Operations of T T: twice the products t_ik t_kj."""
    xp = namespace(T.indptr)
    length = (T.indptr[1:] - T.indptr[:-1] + 1).astype(np.int64)
    in_column = xp.bincount(T.indices, minlength=T.n) + 1
    return 2 * int((length * in_column).sum())


def wait(device: str) -> None:
    """Wait for what is enqueued."""
    if device != "cpu":
        cuda.synchronize()


def is_gpu(system: System) -> bool:
    """Whether the system is on a GPU."""
    return on_gpu(system.b)
