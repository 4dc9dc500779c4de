"""Strips grown along the dependencies: few of them lead from strip to strip on any path.

Of the rows that a row depends on, those of the last stage count: if they are of one patch, which is
not too deep and not too far away, it joins that; else it begins, together with its neighbours in
its level, a patch of the next stage. So a path leaves a patch once a stage, and patches of one
stage do not depend on each other: a strip is one of them or several. Ranges of an irregular mesh
wait for other ranges in almost every level instead; see docs/notes/strips.rst.

That parts be grown so that few barriers are needed is the idea of GrowLocal (Böhnlein, Papp,
Steiner, Matzoros, Yzelman 2025), which does it row after row for the cores of a CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import cuda, namespace, on_gpu
from gpuilu.backend.cpu import njit
from gpuilu.dag import CHUNK, Levels, is_regular
from gpuilu.triangle import Pattern
from gpuilu.trsv.strips import Strips

__all__ = ["grow", "grown"]

# By three meshes on an H200, REACH by a model of five: see docs/notes/strips.rst.
DEEPEST = 128  # rows of a chain inside a patch; below 1 << GROUP_BIT
TOGETHER = 32  # neighbours in a level that begin one patch
REACH = 10  # such groups between a row and where its patch began: it may spread with each level
MEAN_ROWS = 768  # a strip ends with the first patch past each multiple of it, and each stage
FEWEST_LEVELS = 256  # with fewer there is not much waiting to save
# As kernels/strips_grow.cu has them: the parts of a row's word.
STAGE_BIT, LEVEL_BIT, GROUP_BIT = 48, 32, 8
MOST_LEVELS, MOST_ROWS = 1 << 15, TOGETHER << 24


def grown(P: Pattern, found: Levels, most: int) -> list[Strips]:
    """Strips of patches; none where rows are alike, as on a grid, levels few, or strips many."""
    if not FEWEST_LEVELS <= found.n_levels <= MOST_LEVELS or P.n > MOST_ROWS or is_regular(P):
        return []
    strips = grow(P, found)
    return [strips] if strips.count <= most else []


def grow(P: Pattern, found: Levels) -> Strips:
    """The same for any triangle of 1 to MOST_LEVELS levels and at most MOST_ROWS rows."""
    return (_grow_cuda if on_gpu(P.indptr) else _grow_cpu)(P, found)


def _grow_cpu(P: Pattern, found: Levels) -> Strips:
    level, order = found.level.astype(np.int64), found.level_order
    group = np.empty(P.n, np.int64)
    group[order] = (np.arange(P.n) - found.level_ptr[level[order]]) // TOGETHER
    began = level << LEVEL_BIT | group << GROUP_BIT | 1
    word = _words(P.lower, P.indptr, P.indices, began, DEEPEST, REACH)
    return _numbered(word)


@njit
def _words(lower, indptr, indices, began, deepest, reach):
    """Of each row: stage, level and group of the row that began its patch, and how deep in it."""
    n = len(began)
    word = np.zeros(n, np.int64)
    first, stop, step = (0, n, 1) if lower else (n - 1, -1, -1)
    for i in range(first, stop, step):
        latest, one = np.int64(0), True
        for p in range(indptr[i], indptr[i + 1]):
            found = word[indices[p]]
            if latest == 0 or found >> STAGE_BIT > latest >> STAGE_BIT:
                latest, one = found, True
            elif found >> STAGE_BIT == latest >> STAGE_BIT:
                one = one and found >> GROUP_BIT == latest >> GROUP_BIT
                latest = max(latest, found)
        groups = (1 << LEVEL_BIT - GROUP_BIT) - 1
        away = abs((began[i] >> GROUP_BIT & groups) - (latest >> GROUP_BIT & groups))
        if latest == 0:
            word[i] = began[i]
        elif one and latest & 0xFF < deepest and away <= reach:
            word[i] = latest + 1
        else:
            word[i] = began[i] + ((latest >> STAGE_BIT) + 1 << STAGE_BIT)
    return word


def _numbered(word: np.ndarray) -> Strips:
    """Strips of the patches in the order of their words, never of two stages."""
    n, order = len(word), np.argsort(word, kind="stable")
    patch, stage = word[order] >> GROUP_BIT, word[order] >> STAGE_BIT
    begins = np.diff(patch, prepend=-1) != 0
    part = np.flatnonzero(begins)[np.cumsum(begins) - 1] // MEAN_ROWS
    begins = (np.diff(stage, prepend=-1) != 0) | (np.diff(part, prepend=-1) != 0)
    strip = np.empty(n, np.int32)
    strip[order] = np.cumsum(begins) - 1
    return Strips(int(strip[order[-1]]) + 1, strip, int(stage[-1]))


def _launch(kernel: str, n: int, *arguments: Any) -> None:
    cuda.for_each("strips_grow", kernel, n, *arguments)


def _grow_cuda(P: Pattern, found: Levels) -> Strips:
    xp, n, word = namespace(P.indptr), P.n, _words_cuda(P, found)
    order = xp.argsort(word, kind="stable")
    begins, first, strip = (xp.empty(n, np.int32) for _ in range(3))
    told = xp.empty(2, np.int32)
    _launch("begin_patches", n, n, order, word, begins)
    patch = xp.cumsum(begins, dtype=np.int32)
    cuda.for_each("strips_pack", "note_runs", n, n, begins, patch, first)
    _launch("begin_strips", n, n, MEAN_ROWS, order, word, patch, first, begins)
    _launch("note_strips", n, n, order, word, xp.cumsum(begins, dtype=np.int32), strip, told)
    count, stages = (int(k) for k in cuda.to_host(told))
    return Strips(count, strip, stages - 1)


def _words_cuda(P: Pattern, found: Levels) -> Any:
    """The words of all rows, from a self-scheduled pass over them."""
    xp, n = namespace(P.indptr), P.n
    began, word = xp.empty(n, np.uint64), xp.zeros(n, np.uint64)
    levels = found.level, found.level_ptr, found.level_order
    _launch("begin_words", n, n, TOGETHER, *levels, began)
    launcher = cuda.Launcher()
    control = cuda.marked(launcher.CONTROL_BYTES, np.uint8)
    function = cuda.kernel("strips_grow", f"grow_patches<{str(P.lower).lower()}>")
    blocks = max(1, min(cuda.full_grid(function, CHUNK), -(-n // CHUNK)))
    arguments = (n, DEEPEST, REACH, P.indptr, P.indices, began, word, launcher.struct(control))
    cuda.launch(function, blocks, CHUNK, *arguments)
    cuda.synchronize()
    launcher.raise_if_stalled()
    return word
