"""Every registered algorithm x case x dtype x triangle x diagonal x trans x nrhs, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from cases import (
    DTYPES,
    PATTERNS,
    every_algorithm,
    every_deterministic_algorithm,
    forced,
    random_values,
    triangle,
)

import gpuilu
from gpuilu.trsv.base import algorithms

BOUND = 4  # rounding errors a row, in units of nnz_row eps (|T||x| + |b|)
SMALL = 70  # rows up to which the reference's loops are affordable

lower_and_upper = pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
stored_and_unit = pytest.mark.parametrize("unit_diagonal", [False, True], ids=["stored", "unit"])


def system(case, dtype, lower, unit_diagonal):
    """(what the solver is given, the triangle it stands for, right-hand sides)."""
    given = triangle(PATTERNS[case](), dtype, lower, diagonal=not unit_diagonal)
    n = given.shape[0]
    T = sp.csr_array(given + sp.eye_array(n, dtype=dtype)) if unit_diagonal else given
    return given, T, random_values(np.random.default_rng(n), (n, 5), dtype)


def solver(T, name, device, **keywords):
    if not algorithms()[name, device].exact:
        pytest.skip(f"{name} approximates, and says so")
    return gpuilu.TriangularSolver(T, **forced(name, device), **keywords)


def backward_error(T, trans, X, B):
    return reference.backward_error(reference.op(T, trans), X, B) if X.size else 0.0


@lower_and_upper
@stored_and_unit
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", PATTERNS)
@every_algorithm
def test_every_algorithm_solves_every_triangle_to_rounding(
    name, device, case, dtype, lower, unit_diagonal
):
    given, T, B = system(case, dtype, lower, unit_diagonal)
    S = solver(given, name, device, lower=lower, unit_diagonal=unit_diagonal)
    assert S.info.algorithm == name
    for trans in "NTH":
        X = S.solve(B, trans)
        assert X.shape == B.shape
        assert X.dtype == dtype
        assert backward_error(T, trans, X, B) <= BOUND, trans
        if algorithms()[name, device].vendor:
            continue
        for columns in (0, slice(0, 1), slice(1, 3)):
            alone = S.solve(B[:, columns], trans)
            assert backward_error(T, trans, alone, B[:, columns]) <= BOUND, trans
            if algorithms()[name, device].deterministic:
                np.testing.assert_array_equal(alone, X[:, columns], f"{trans}, columns {columns}")


@lower_and_upper
@stored_and_unit
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [c for c in PATTERNS if PATTERNS[c]().shape[0] <= SMALL])
@every_algorithm
def test_every_algorithm_agrees_with_plain_substitution(
    name, device, case, dtype, lower, unit_diagonal
):
    given, T, B = system(case, dtype, lower, unit_diagonal)
    S = solver(given, name, device, lower=lower, unit_diagonal=unit_diagonal)
    for trans in "NTH":
        dense = reference.op(reference.dense(T), trans)
        X = S.solve(B, trans)
        Y = reference.substitute(dense, B, lower == (trans == "N"))
        apart = 2 * BOUND * reference.forward_bound(dense, np.maximum(abs(X), abs(Y)), B)
        assert np.all(abs(X - Y) <= apart), trans


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize(
    ("factor", "b"),
    [("float32", "float64"), ("float32", "complex64"), ("float64", "complex128")],
)
@every_algorithm
def test_every_algorithm_takes_right_hand_sides_wider_than_its_factors(
    name, device, factor, b, trans
):
    T = triangle(PATTERNS["grid 9x7"](), factor)
    B = random_values(np.random.default_rng(1), (63, 3), b)
    X = solver(T, name, device).solve(B, trans)
    assert X.dtype == b
    assert backward_error(T, trans, X, B) <= BOUND


@pytest.mark.parametrize("nrhs", [1, 2, 7, 8, 31, 32, 33, 64])
@every_deterministic_algorithm
def test_every_algorithm_gives_each_column_of_a_block_the_bits_of_that_column_alone(
    name, device, nrhs
):
    T = triangle(PATTERNS["permuted grid 9x7"]())
    S = solver(T, name, device)
    B = random_values(np.random.default_rng(nrhs), (63, nrhs), "float64")
    X = S.solve(B)
    assert backward_error(T, "N", X, B) <= BOUND
    np.testing.assert_array_equal(X, np.column_stack([S.solve(b) for b in B.T]))
