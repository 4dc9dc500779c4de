"""Levels by Kahn's algorithm: remove the rows that depend on none, level after level.

The set-up of Li (2017), section 4.4.1, to compare with the self-scheduled `dag.levels`: the same
levels, from in-degrees and the transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuilu.backend import by_device, cuda, namespace
from gpuilu.backend.cpu import njit
from gpuilu.dag import Levels, in_degree, level_sets
from gpuilu.triangle import Pattern

__all__ = ["kahn_levels"]


def kahn_levels(T: Pattern, t_indptr: Any, t_indices: Any) -> Levels:
    """Level sets of T, given the pattern of its transpose (`transpose_pattern`).

    O(n + nnz); on a GPU one launch a level, between which the host reads how many rows are next.
    """
    return level_sets(_kahn(in_degree(T), t_indptr, t_indices))


@njit
def _kahn_cpu(left, t_indptr, t_indices):
    n = len(left)
    level, queue = np.zeros(n, np.int32), np.empty(n, np.int32)
    last = 0
    for i in range(n):
        if left[i] == 0:
            queue[last] = i
            last += 1
    for k in range(n):
        j = queue[k]
        for p in range(t_indptr[j], t_indptr[j + 1]):
            i = t_indices[p]
            level[i] = level[j] + 1  # the last of them is the deepest: the queue is in level order
            left[i] -= 1
            if left[i] == 0:
                queue[last] = i
                last += 1
    return level


def _kahn_cuda(left: Any, t_indptr: Any, t_indices: Any) -> Any:
    xp, n = namespace(left), len(left)
    level, queue, last = xp.empty(n, np.int32), xp.empty(n, np.int32), xp.zeros(1, np.int32)
    cuda.for_each("kahn", "first_roots", n, n, left, queue, last)
    first, depth = 0, 0
    while (end := int(last[0])) > first:
        graph = (t_indptr, t_indices, left, queue)
        rows = cuda.WARP * (end - first)
        cuda.for_each("kahn", "remove_roots", rows, *graph, first, end, depth, level, last)
        first, depth = end, depth + 1
    return level


_kahn = by_device(_kahn_cpu, _kahn_cuda)
