"""A_(l+1) = R_l A_l P_l: the coarse matrices again, for new values on the finest level."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gpuilu.amg.levels import Level
from gpuilu.backend import namespace
from gpuilu.csr import CSR, canonical, row_of_entries
from gpuilu.errors import PatternMismatchError, ShapeMismatchError, UnsupportedDtypeError
from gpuilu.products import Product
from gpuilu.relaxation.block import in_blocks

__all__ = ["renewed", "values_on"]


@contextlib.contextmanager
def renewed(levels: list[Level], A: Any, algorithm: str) -> Iterator[None]:
    """Put new values into every level; a level whose pattern has grown is made anew.

    When a smoother fails on them, or the body does, the old values are put back.
    """
    finest = levels[0].matrix
    C = canonical(A)
    if C.n != finest.n:
        raise ShapeMismatchError(f"expected a matrix of order {finest.n}, found {C.n}")
    if C.data.dtype.kind == "c" and finest.data.dtype.kind != "c":
        raise UnsupportedDtypeError(f"a {C.data.dtype} matrix does not fit {finest.data.dtype}")
    C = C.to(finest.device)
    C = C.with_data(C.data.astype(finest.data.dtype, copy=False))
    if values_on(finest, C) is None:
        raise PatternMismatchError(
            "the new matrix has an entry outside the old pattern; move a new hierarchy with to_gpu"
        )
    matrices = _products(levels, C)
    old = [(level, level.matrix.data.copy(), dict(level.dense)) for level in levels]
    try:
        for k, matrix in enumerate(matrices):
            levels[k] = _with_values(levels[k], matrix, algorithm)
        yield
    except Exception:
        for k, (level, data, dense) in enumerate(old):
            level.matrix.data[...] = data
            level.refresh()
            level.dense.update(dense)
            levels[k] = level
        raise


def _products(levels: list[Level], finest: CSR) -> list[CSR]:
    matrices = [finest]
    for level in levels[:-1]:
        assert level.P is not None
        assert level.R is not None
        product = _as_product(matrices[-1]).to_matrix() @ level.P.to_matrix()
        matrices.append(canonical(level.R.to_matrix() @ product))
    return matrices


def _as_product(A: CSR) -> Product:
    return Product(A.indptr, A.indices, A.data, A.n)


def _with_values(level: Level, matrix: CSR, algorithm: str) -> Level:
    """The level with a new matrix, in its own arrays where the pattern allows."""
    values = values_on(level.matrix, matrix)
    if values is None:
        recipes = level.recipes
        if recipes is not None:
            pre, post = (replace(recipe, Dinv=None) for recipe in recipes)
            recipes = (pre, post)
            if (k := max(pre.blocksize, post.blocksize)) > 1:
                matrix = in_blocks(_as_product(matrix).to_matrix(), k)
        level = Level(matrix, recipes, level.P, level.R, algorithm)
    else:
        level.matrix.data[...] = values
    level.refresh()
    return level


def values_on(pattern: CSR, A: CSR) -> Any:
    """The values of A on a pattern that holds its own, zero elsewhere; None if it does not."""
    xp, n = namespace(A.data), A.n
    old, new = (
        row_of_entries(C.indptr, C.nnz).astype(np.int64) * n + C.indices for C in (pattern, A)
    )
    if len(old) == len(new) and bool((old == new).all()):
        return A.data
    if not len(old):
        return None if bool((A.data != 0).any()) else A.data[:0]
    at = xp.minimum(xp.searchsorted(old, new), len(old) - 1)
    inside = old[at] == new
    if bool((A.data[~inside] != 0).any()):
        return None
    values = xp.zeros(len(old), A.data.dtype)
    values[at[inside]] = A.data[inside]
    return values
