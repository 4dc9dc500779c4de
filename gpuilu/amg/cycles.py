"""x <- x + M (b - A x): one V-, W- or F-cycle over levels that have their vectors already.

Written once for both devices. On a GPU a cycle is recorded once as a CUDA graph and replayed: the
many small launches of the coarse levels then cost what the card needs for them, not what Python
needs to enqueue them.
Source: U. Trottenberg, C. Oosterlee, A. Schueller, Multigrid, Academic Press 2001, section 2.4; the
order of the visits is pyamg's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuilu.amg.levels import Level
from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.products import Dense

__all__ = ["COARSE", "KINDS", "Cycles", "run"]

KINDS = ("V", "W", "F")
COARSE = "coarse"


def run(levels: list[Level], kind: str, per_level: int, *, from_zero: bool) -> None:
    """One cycle on the vectors of the finest level, its x staying the array that it is."""
    v = levels[0].vectors
    x = v.x
    _visit(levels, 0, kind, per_level, from_zero)
    if v.x is not x:
        x[...] = v.x
        v.swap()


def _visit(levels: list[Level], k: int, kind: str, per_level: int, from_zero: bool) -> None:
    level, v = levels[k], levels[k].vectors
    key = COARSE if k == len(levels) - 1 else cycle_key(kind, per_level)
    if key in level.dense:
        _apply_dense(level, key, from_zero)
        return
    level.pre(v, from_zero=from_zero)
    level.A.residual(v.r, v.x, v.b)
    assert level.P is not None
    assert level.R is not None
    below = levels[k + 1].vectors
    level.R.combine(below.b, v.r)
    _correct(levels, k + 1, kind, per_level)
    level.P.combine(v.x, below.x, z=v.x)
    level.post(v)


def _correct(levels: list[Level], k: int, kind: str, per_level: int) -> None:
    """The visits of level k, from x = 0, that a cycle of this kind makes."""
    _visit(levels, k, kind, per_level, from_zero=True)
    if k == len(levels) - 1:
        return
    if kind == "W":
        _visit(levels, k, "W", per_level, from_zero=False)
    elif kind == "F":
        for _ in range(per_level):
            _visit(levels, k, "V", 1, from_zero=False)


def _apply_dense(level: Level, key: object, from_zero: bool) -> None:
    v, K = level.vectors, level.dense[key]
    if from_zero or key == COARSE:  # the coarse solve has no start vector
        K.combine(v.x, v.b)
    else:
        level.A.residual(v.r, v.x, v.b)
        K.combine(v.x, v.r, z=v.x)


def cycle_key(kind: str, per_level: int) -> tuple[str, int]:
    """What tells cycles apart; only an F-cycle asks how many V-cycles follow on each level."""
    return kind, per_level if kind == "F" else 1


class Cycles:
    """The cycles of a hierarchy, each recorded at its first use.

    Parameters
    ----------
    levels : list of Level
        Read again at each recording; call `clear` when levels or their numbers have changed.
    dense_rows : int
        From the first level with at most so many rows down, a cycle is one dense matrix.
    """

    def __init__(self, levels: list[Level], dense_rows: int) -> None:
        self.levels, self.dense_rows = levels, dense_rows
        self._recorded: dict[Any, Callable[[], None]] = {}

    def clear(self) -> None:
        """Forget what was recorded."""
        self._recorded.clear()

    def __call__(self, kind: str, per_level: int, *, from_zero: bool) -> None:
        """One cycle on the finest level's vectors."""
        key = (*cycle_key(kind, per_level), from_zero)
        if key not in self._recorded:
            v = self.levels[0].vectors
            b, x = v.b.copy(), v.x.copy()
            self._gather(kind)
            self._recorded[key] = _recorded(
                lambda: run(self.levels, kind, per_level, from_zero=from_zero), on_gpu(b)
            )
            v.b[...], v.x[...] = b, x
        self._recorded[key]()

    def _gather(self, kind: str) -> None:
        """The cycle from the first small level down as a dense matrix."""
        small = [k for k, level in enumerate(self.levels[:-1]) if level.n <= self.dense_rows]
        if not small or not all(level.is_linear_step for level in self.levels[small[0] :]):
            return
        top = self.levels[small[0] :]
        for needed in {"F": "VF"}.get(kind, kind):
            if (key := cycle_key(needed, 1)) not in top[0].dense:
                top[0].dense[key] = _as_matrix(top, needed)


def _as_matrix(levels: list[Level], kind: str) -> Dense:
    """K e_j = the cycle from x = 0 for b = e_j, column by column."""
    v, n = levels[0].vectors, levels[0].n
    K = namespace(v.x).empty((n, n), v.x.dtype)
    step = _recorded(lambda: run(levels, kind, 1, from_zero=True), on_gpu(K))
    v.b[...] = 0
    for j in range(n):
        v.b[j] = 1
        step()
        K[:, j] = v.x
        v.b[j] = 0
    return Dense(K)


def _recorded(work: Callable[[], None], on_device: bool) -> Callable[[], None]:
    """The same work: on a GPU done once, for a capture must not compile, then recorded."""
    if not on_device:
        return work
    work()
    graph = cuda.captured(work)
    return lambda: cuda.launch_graph(graph)
