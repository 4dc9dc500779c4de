"""What is planned and not there yet: a test here starts to pass, and says so, with its feature."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gpuilu

T3 = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(3, 3)).tocsr()


def planned(feature):
    """A strict expected failure until the public name of the feature exists."""
    errors = (AttributeError, TypeError, gpuilu.UnknownAlgorithmError)
    return pytest.mark.xfail(strict=True, raises=errors, reason=f"planned: {feature}")


def grid(m):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    return sp.kronsum(line, line, format="csr")


@planned("incomplete Cholesky")
def test_ic0_of_an_indefinite_matrix_names_the_row_and_the_pivot():
    with pytest.raises(gpuilu.ZeroPivotError) as caught:
        gpuilu.ic0(sp.csr_array([[1.0, 2.0], [2.0, 1.0]]))
    assert (caught.value.row, caught.value.value) == (1, -3)


@planned("incomplete Cholesky")
def test_ic0_reads_the_lower_triangle_and_is_symmetric():
    M = gpuilu.ic0(T3)
    np.testing.assert_allclose((M.L @ M.L.T).toarray(), T3.toarray())
    assert M.info.is_symmetric


@planned("modified ILU(0)")
def test_milu0_keeps_the_row_sums_of_the_matrix():
    A = grid(3)
    M = gpuilu.milu0(A)
    np.testing.assert_allclose(M.L @ (M.U @ np.ones(9)), A @ np.ones(9), atol=1e-15)


@planned("ILU(k)")
def test_iluk_of_an_arrow_fills_completely_at_level_one():
    n = 20
    A = np.diag(np.full(n, float(n)))
    A[0, :] = A[:, 0] = 1.0
    A[0, 0] = float(n)
    M = gpuilu.iluk(sp.csr_array(A), 1)
    np.testing.assert_allclose((M.L @ M.U).toarray(), A)


@planned("Jacobi sweeps")
@pytest.mark.parametrize(
    ("sweeps", "x"), [(1, [1, 2, 3]), (2, [1, 2.25, 3.5]), (3, [1, 2.25, 3.5625])]
)
def test_jacobi_sweeps_are_exact_after_as_many_as_there_are_levels(sweeps, x):
    L = sp.diags_array([-0.25, 1.0], offsets=[-1, 0], shape=(3, 3)).tocsr()
    S = gpuilu.TriangularSolver(L, algorithm="jacobi", jacobi_sweeps=sweeps)
    np.testing.assert_allclose(S.solve([1.0, 2.0, 3.0]), x)


@planned("orderings")
def test_a_coloured_ordering_gives_a_clique_as_many_levels_as_rows():
    A = sp.csr_array(np.full((5, 5), 1.0) + 9 * np.eye(5))
    assert gpuilu.ilu0(A, ordering="multicolor").info.n_levels_lower == 5
