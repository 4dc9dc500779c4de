"""The gate, the levels and the factors on the GPU: the same as on the CPU, bit for bit if real."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import manifest
from gpu_cases import CASES, DTYPES, grid, mesh, on_gpu, random

import gpuilu
from gpuilu import triangle
from gpuilu.csr import canonical, with_diagonal
from gpuilu.dag import count_levels, levels, row_shapes
from gpuilu.kahn import kahn_levels
from gpuilu.trsv import blocked, strips_grow, strips_pack


def factors(A, **keywords):
    return gpuilu.ilu0(A, **keywords)._application.factors


def assert_same_factors(mine, theirs):
    for a, b in zip(mine.triangles, theirs.triangles, strict=True):
        assert np.array_equal(a.indptr, b.indptr.get())
        assert np.array_equal(a.indices, b.indices.get())
        for x, y in ((a.data, b.data.get()), (a.diag, b.diag if b.diag is None else b.diag.get())):
            if x is None:
                assert y is None
            elif x.dtype.kind == "f":
                assert np.array_equal(x, y)
            else:
                np.testing.assert_allclose(x, y, rtol=200 * np.finfo(x.dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", CASES)
def test_ilu0_factors_equal_those_of_the_cpu(csp, name, dtype):
    A = CASES[name](dtype)
    assert_same_factors(factors(A, device="cpu"), factors(on_gpu(csp, A)))


def test_ilu0_of_a_large_grid_has_the_bits_of_the_cpu(csp):
    A = grid(400, 300)
    assert_same_factors(factors(A, device="cpu"), factors(on_gpu(csp, A)))


@pytest.mark.parametrize("name", CASES)
def test_levels_equal_those_of_the_cpu(csp, name):
    A = CASES[name](np.float64)
    for mine, theirs in zip(
        factors(A, device="cpu").triangles, factors(on_gpu(csp, A)).triangles, strict=True
    ):
        a, b = levels(mine), levels(theirs)
        assert np.array_equal(a.level, b.level.get())
        assert np.array_equal(a.level_ptr, b.level_ptr.get())
        assert np.array_equal(a.level_order, b.level_order.get())
        assert count_levels(theirs) == a.n_levels


def assert_same_arrays(mine, theirs):
    for a, b in zip(vars(mine).values(), vars(theirs).values(), strict=True):
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.array_equal(a, b.get())
        else:
            assert a == b


@pytest.mark.parametrize("name", CASES)
def test_strips_steps_and_entries_equal_those_of_the_cpu(csp, name):
    A = CASES[name](np.float64)
    for mine, theirs in zip(
        factors(A, device="cpu").triangles, factors(on_gpu(csp, A)).triangles, strict=True
    ):
        assert row_shapes(mine) == row_shapes(theirs)
        a, b = levels(mine), levels(theirs)
        tried = [
            [strips_pack.ranges(T, count) for count in (1, 5, 300)] + strips_pack.columns(T, 16)
            for T in (mine, theirs)
        ]
        for count, candidates in (
            (strips_pack.counts_of_ranges, ((1, 5, 300),) * 2),
            (strips_pack.counts_of_strips, tuple(each[3:] for each in tried)),
        ):
            assert count(theirs, b, candidates[1]) == count(mine, a, candidates[0])
        for cut, cut_too in zip(*tried, strict=True):
            assert_same_arrays(cut, cut_too)
            steps, steps_too = (
                strips_pack.in_steps(*each) for each in ((mine, a, cut), (theirs, b, cut_too))
            )
            assert_same_arrays(steps, steps_too)
            for widths in ((2,), (2, 4, 8)):
                split = strips_pack.split_entries(mine, a, steps, widths)
                split_too = strips_pack.split_entries(theirs, b, steps_too, widths)
                assert_same_arrays(split, split_too)


def both(csp, A):
    """The triangles of the factors on the CPU, each with that on the GPU."""
    theirs = factors(on_gpu(csp, A)).triangles
    return zip(factors(A, device="cpu").triangles, theirs, strict=True)


@pytest.mark.parametrize("deepest", [5, 128])
@pytest.mark.parametrize("name", [*CASES, "mesh"])
def test_grown_strips_equal_those_of_the_cpu(csp, monkeypatch, name, deepest):
    monkeypatch.setattr(strips_grow, "DEEPEST", deepest)
    monkeypatch.setattr(strips_grow, "MEAN_ROWS", 50)
    for mine, theirs in both(csp, mesh(20_000) if name == "mesh" else CASES[name](np.float64)):
        a, b = levels(mine), levels(theirs)
        cut, cut_too = strips_grow.grow(mine, a), strips_grow.grow(theirs, b)
        assert_same_arrays(cut, cut_too)
        (count,) = strips_pack.counts_of_strips(mine, a, [cut])
        assert strips_pack.counts_of_strips(theirs, b, [cut_too]) == [count]


def test_both_devices_take_the_same_strips_of_a_mesh(csp):
    for mine, theirs in both(csp, mesh(60_000)):
        us, strips = blocked.predicted(mine, np.dtype("d"))
        us_too, strips_too = blocked.predicted(theirs, np.dtype("d"))
        assert us == us_too
        assert_same_arrays(strips, strips_too)
        assert not np.array_equal(strips.of_row, strips_pack.ranges(mine, strips.count).of_row)


@pytest.mark.parametrize("reads", [0, 128])
@pytest.mark.parametrize("name", CASES)
def test_the_transpose_by_counting_or_sorting_equals_that_of_the_cpu(csp, monkeypatch, name, reads):
    monkeypatch.setattr(triangle, "READS", reads)
    A = CASES[name](np.float64)
    for mine, theirs in zip(
        factors(A, device="cpu").triangles, factors(on_gpu(csp, A)).triangles, strict=True
    ):
        expected = triangle.transpose_pattern(mine.indptr, mine.indices)
        found = triangle.transpose_pattern(theirs.indptr, theirs.indices)
        for a, b in zip(expected, found, strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b.get())


@pytest.mark.parametrize("name", CASES)
def test_kahns_levels_equal_the_self_scheduled_ones(csp, name):
    for T in factors(on_gpu(csp, CASES[name](np.float64))).triangles:
        t_indptr, t_indices, _ = triangle.transpose_pattern(T.indptr, T.indices)
        a, b = kahn_levels(T, t_indptr, t_indices), levels(T)
        assert bool((a.level == b.level).all())
        assert bool((a.level_ptr == b.level_ptr).all())
        assert bool((a.level_order == b.level_order).all())


def test_an_empty_matrix_is_legal(cp, csp):
    M = gpuilu.ilu0(csp.csr_matrix((0, 0)))
    assert (M @ cp.empty(0)).shape == (0,)


@pytest.mark.parametrize("pivot", ["boost", "shift"])
@pytest.mark.parametrize("seed", range(5))
def test_changed_pivots_equal_those_of_the_cpu(csp, pivot, seed):
    A = sp.csr_array(sp.random_array((80, 80), density=0.1, rng=np.random.default_rng(seed)))
    keywords = {"pivot": pivot, "missing_diagonal": "insert"}
    try:
        mine = factors(A, device="cpu", **keywords)
    except gpuilu.ZeroPivotError as error:
        with pytest.raises(gpuilu.ZeroPivotError) as caught:
            factors(on_gpu(csp, A), **keywords)
        assert caught.value.row == error.row  # noqa: PT017
        return
    theirs = factors(on_gpu(csp, A), **keywords)
    assert_same_factors(mine, theirs)
    for name in ("n_boosted", "shift", "first_zero_pivot", "is_symmetric"):
        assert getattr(mine, name) == getattr(theirs, name)


@pytest.mark.parametrize("row", [0, 3, 7])
def test_the_smallest_row_with_a_zero_pivot_is_reported(csp, row):
    A = np.eye(8) + np.diag(np.ones(7), 1)
    A[row, row] = A[7, 7] = 0.0
    stored = sp.csr_array((np.r_[A.ravel()], (np.repeat(range(8), 8), np.tile(range(8), 8))))
    with pytest.raises(gpuilu.ZeroPivotError) as caught:
        gpuilu.ilu0(on_gpu(csp, stored))
    assert caught.value.row == row


def test_a_factor_entry_that_is_not_finite_is_reported_with_its_row(csp):
    A = grid(5, 5).tolil()
    A[13, 12] = np.nan
    with pytest.raises(gpuilu.ZeroPivotError) as caught:
        gpuilu.ilu0(on_gpu(csp, A.tocsr()))
    assert caught.value.row == 13


def test_duplicates_and_unsorted_columns_are_handled_on_a_copy(cp, csp):
    data, indices = cp.array([1.0, 2, 3, 4, 5]), cp.array([1, 0, 1, 1, 0], "i")
    A = csp.csr_matrix((data, indices, cp.array([0, 2, 5], "i")), shape=(2, 2))
    C = canonical(A)
    assert C.data.tolist() == [2, 1, 5, 7]
    assert A.indices.tolist() == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_every_cupyx_format_gives_the_same_factors(csp, fmt):
    A = random(60, 0.1, 1)
    M = gpuilu.ilu0(on_gpu(csp, A).asformat(fmt))
    assert_same_factors(factors(A, device="cpu"), M._application.factors)


def test_a_dia_matrix_gives_the_same_factors(cp, csp):
    A = grid(40).todia()
    G = csp.dia_matrix((cp.asarray(A.data), cp.asarray(A.offsets)), shape=A.shape)
    assert_same_factors(factors(A, device="cpu"), gpuilu.ilu0(G)._application.factors)


def test_broken_index_arrays_are_refused(cp, csp):
    A = on_gpu(csp, grid(4, 4))
    A.indices[5] = 99
    with pytest.raises(gpuilu.InvalidMatrixError, match="index 99"):
        gpuilu.ilu0(A)
    A = on_gpu(csp, grid(4, 4))
    A.indptr[3] = 0
    with pytest.raises(gpuilu.InvalidMatrixError, match="indptr decreases"):
        gpuilu.ilu0(A)


def test_missing_diagonals_raise_or_are_inserted(cp, csp):
    A = sp.csr_array((np.array([2, 1, 1, 1, 1, 2.0]), [0, 1, 0, 2, 1, 2], [0, 2, 4, 6]))
    with pytest.raises(gpuilu.MissingDiagonalError) as caught:
        gpuilu.ilu0(on_gpu(csp, A))
    assert caught.value.row == 1
    M = gpuilu.ilu0(on_gpu(csp, A), missing_diagonal="insert")
    packed = (M.L.get() + M.U.get()).toarray() - np.eye(3)
    assert packed.tolist() == [[2, 1, 0], [0.5, -0.5, 1], [0, -2, 4]]
    C = with_diagonal(canonical(on_gpu(csp, A)), "insert")
    D = with_diagonal(canonical(A), "insert")
    assert C.kept.tolist() == D.kept.tolist()


@pytest.mark.parametrize("sweep", ["forward", "backward", "symmetric"])
def test_splittings_equal_those_of_the_cpu(csp, sweep):
    A = random(300, 0.02, 6)
    mine = gpuilu.sor(A, omega=1.3, sweep=sweep, device="cpu")._application.factors
    theirs = gpuilu.sor(on_gpu(csp, A), omega=1.3, sweep=sweep)._application.factors
    assert_same_factors(mine, theirs)


@pytest.mark.parametrize("row", manifest(), ids=lambda r: r["file"])
def test_real_matrices_end_as_on_the_cpu(csp, matrices, row):
    from scipy.io import mmread

    A = sp.csr_array(mmread(matrices / row["file"], spmatrix=False))
    A = A.astype(np.result_type(A.dtype, np.float64))
    for missing in ("raise", "insert"):
        try:
            mine = factors(A, device="cpu", missing_diagonal=missing)
        except gpuilu.GpuiluError as error:
            with pytest.raises(type(error)) as caught:
                factors(on_gpu(csp, A), missing_diagonal=missing)
            assert caught.value.row == error.row  # noqa: PT017
            continue
        theirs = factors(on_gpu(csp, A), missing_diagonal=missing)
        if A.dtype.kind != "c":
            assert_same_factors(mine, theirs)
