"""Smoothers inside pyamg hierarchies: equal to pyamg's own relaxation, by pyamg's names."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from amg_cases import hierarchy, pyamg, right_hand_side
from cases import DTYPES, random_values, unsymmetric

import gpuilu
from gpuilu import amg

relaxation = pyamg.relaxation.relaxation
pyamg_change_smoothers = pyamg.relaxation.smoothing.change_smoothers
SWEEPS = ("forward", "backward", "symmetric")
SPECS = [
    None,
    "gauss_seidel",
    *(("gauss_seidel", {"sweep": s, "iterations": k}) for s in SWEEPS for k in (1, 2)),
    *(("block_gauss_seidel", {"sweep": s}) for s in SWEEPS),
    ("block_gauss_seidel", {"sweep": "symmetric", "iterations": 2}),
    "sor",
    *(("sor", {"sweep": s, "omega": 1.4}) for s in SWEEPS),
    "jacobi",
    ("jacobi", {"omega": 4 / 3, "iterations": 3}),
    ("jacobi", {"omega": 0.6, "withrho": False}),
    "block_jacobi",
    ("block_jacobi", {"omega": 0.7, "iterations": 2}),
    ("block_jacobi", {"omega": 0.5, "withrho": False}),
    "chebyshev",
    *(("chebyshev", {"degree": d, "iterations": 2}) for d in (1, 2, 4, 5)),
    ("chebyshev", {"lower_bound": 0.1, "upper_bound": 1.2}),
    "richardson",
    ("richardson", {"omega": 1.2, "iterations": 2}),
]
HIERARCHIES = ("2-D Poisson, SA", "convection, RS", "elasticity, SA")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*sor.*")
        yield


@pytest.mark.parametrize("name", HIERARCHIES)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_smoother_of_every_level_equals_pyamgs(name, spec, device):
    ml, ours = hierarchy(name), hierarchy(name)
    pyamg_change_smoothers(ml, spec, spec)
    for theirs, level in zip(ml.levels, ours.levels, strict=True):
        for key in ("rho", "rho_D_inv", "rho_block_D_inv"):  # estimates from random vectors
            if hasattr(theirs.A, key):
                setattr(level.A, key, getattr(theirs.A, key))
    amg.change_smoothers(ours, spec, spec, device=device)
    rng = np.random.default_rng(0)
    for theirs, level in zip(ml.levels[:-1], ours.levels[:-1], strict=True):
        n = level.A.shape[0]
        b, start = rng.standard_normal(n), rng.standard_normal(n)
        for side in ("presmoother", "postsmoother"):
            x, y = start.copy(), start.copy()
            getattr(theirs, side)(theirs.A, x, b)
            getattr(level, side)(level.A, y, b)
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12 * abs(x).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["csr", "bsr"])
@pytest.mark.parametrize("method", ["gauss_seidel", "block_gauss_seidel", "jacobi", "block_jacobi"])
def test_relaxation_of_every_dtype_equals_pyamgs(method, form, dtype):
    A = unsymmetric(30, dtype)
    A = A.tobsr(blocksize=(3, 3)) if form == "bsr" else A
    rng = np.random.default_rng(2)
    x, b = (random_values(rng, 30, dtype) for _ in range(2))
    y = x.copy()
    options = {"blocksize": 3 if form == "bsr" else 1} if "block" in method else {}
    getattr(relaxation, method)(A, x, b, **options)
    gpuilu.relax(A, y, b, method=method, **options)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(y, x, rtol=50 * eps, atol=50 * eps * abs(x).max())


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("stored", [True, False])
def test_rows_with_a_zero_diagonal_are_skipped_as_pyamg_skips_them(stored, sweep):
    A = unsymmetric(30).tolil()
    for row in (0, 7, 29):
        A[row, row] = 0
    A = A.tocsr()
    if stored:
        A = sp.csr_array(A + sp.csr_array((np.zeros(3), ([0, 7, 29], [0, 7, 29])), shape=A.shape))
    rng = np.random.default_rng(3)
    x, b = rng.random(30), rng.random(30)
    y = x.copy()
    relaxation.gauss_seidel(A, x, b, sweep=sweep)
    f = amg.smoother(A, ("gauss_seidel", {"sweep": sweep}))
    f(A, y, b)
    np.testing.assert_allclose(y, x, rtol=1e-13)
    assert f.n_skipped == 3


def test_blocks_without_an_inverse_get_pyamgs_pseudo_inverse():
    A = unsymmetric(30).toarray()
    A[6:9, 6:9] = 1.0
    A[9:12, 9:12] = 0.0
    A = sp.bsr_array(A, blocksize=(3, 3))
    rng = np.random.default_rng(4)
    for method, omega in (("block_gauss_seidel", {}), ("block_jacobi", {"omega": 0.7})):
        x, b = rng.random(30), rng.random(30)
        y = x.copy()
        getattr(relaxation, method)(A, x, b, blocksize=3, **omega)
        gpuilu.relax(A, y, b, method=method, **omega)
        np.testing.assert_allclose(y, x, rtol=1e-11)


@pytest.mark.parametrize("pre", [1, 2, 3])
@pytest.mark.parametrize("post", [1, 2, 3])
def test_iterations_before_and_after_are_counted_apart(pre, post):
    ml, ours = (hierarchy("2-D Poisson, RS", coarse_solver="splu") for _ in range(2))
    specs = [("gauss_seidel", {"sweep": "symmetric", "iterations": k}) for k in (pre, post)]
    pyamg_change_smoothers(ml, *specs)
    amg.change_smoothers(ours, *specs)
    b = right_hand_side(ml)
    np.testing.assert_allclose(
        ours.solve(b, maxiter=1, tol=1e-30), ml.solve(b, maxiter=1, tol=1e-30), rtol=1e-12
    )


@pytest.mark.parametrize("cycle", ["V", "W", "F", "AMLI"])
def test_a_whole_solve_gives_pyamgs_residuals(cycle):
    ml, ours = hierarchy("2-D Poisson, SA"), hierarchy("2-D Poisson, SA")
    amg.change_smoothers(
        ours, ("gauss_seidel", {"sweep": "symmetric"}), ("gauss_seidel", {"sweep": "symmetric"})
    )
    b, found = right_hand_side(ml), []
    for solver in (ml, ours):
        residuals = []
        solver.solve(b, maxiter=8, tol=1e-30, cycle=cycle, residuals=residuals)
        found.append(residuals)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-13 * found[0][0])


PAIRS = [
    (("gauss_seidel", {"sweep": "forward"}), ("gauss_seidel", {"sweep": "backward"}), True),
    (("gauss_seidel", {"sweep": "symmetric"}),) * 2 + (True,),
    ("gauss_seidel", "gauss_seidel", False),
    (("gauss_seidel", {"sweep": "forward"}), ("gauss_seidel", {"sweep": "symmetric"}), False),
    (("sor", {"omega": 1.5}), ("sor", {"omega": 1.5, "sweep": "backward"}), True),
    (("sor", {"omega": 1.5}), ("sor", {"omega": 1.2, "sweep": "backward"}), False),
    (("ssor", {"omega": 1.3}), ("ssor", {"omega": 1.3}), True),
    ("jacobi", "jacobi", True),
    ("jacobi", ("jacobi", {"iterations": 2}), False),
    ("jacobi", ("jacobi", {"omega": 0.5}), False),
    ("chebyshev", "chebyshev", True),
    ("chebyshev", ("chebyshev", {"degree": 2}), False),
    ("ilu0", "ilu0", True),
    ("jacobi", None, False),
    (None, None, True),
]


@pytest.mark.parametrize(("pre", "post", "symmetric"), PAIRS, ids=str)
def test_the_hierarchy_says_whether_it_fits_cg_and_is_right(pre, post, symmetric):
    ml = hierarchy("2-D Poisson, SA")
    amg.change_smoothers(ml, pre, post)
    assert ml.symmetric_smoothing == symmetric
    M = ml.aspreconditioner()
    rng = np.random.default_rng(5)
    u, v = rng.random(480), rng.random(480)
    asymmetry = abs(u @ M.matvec(v) - v @ M.matvec(u)) / abs(u @ M.matvec(v))
    assert (asymmetry < 1e-12) == symmetric


def test_lists_give_each_level_its_own_and_the_last_one_to_the_rest():
    ml = hierarchy("2-D Poisson, RS")
    amg.change_smoothers(ml, ["jacobi", ("gauss_seidel", {"sweep": "symmetric"})], [None] * 9)
    assert [level.presmoother.recipe.method for level in ml.levels[:-1]] == [
        "jacobi",
        *["gauss_seidel"] * (len(ml.levels) - 2),
    ]
    assert {level.postsmoother.recipe.method for level in ml.levels[:-1]} == {"none"}


def test_ilu0_smooths_better_than_gauss_seidel():
    counts = {}
    for spec in ("ilu0", "gauss_seidel"):
        ml, residuals = hierarchy("anisotropic, RS"), []
        amg.change_smoothers(ml, spec, spec)
        ml.solve(right_hand_side(ml), tol=1e-8, residuals=residuals)
        counts[spec] = len(residuals)
    assert counts["ilu0"] < counts["gauss_seidel"]


def test_ssor_honours_omega_where_pyamgs_sor_does_not():
    A = hierarchy("2-D Poisson, RS").levels[0].A
    b, x, y, z = (np.zeros(480) for _ in range(4))
    b[:] = np.arange(480)
    amg.smoother(A, ("ssor", {"omega": 1.5}))(A, x, b)
    with pytest.warns(UserWarning, match="ignores omega"):
        amg.smoother(A, ("sor", {"omega": 1.5, "sweep": "symmetric"}))(A, y, b)
    gpuilu.relax(A, z, b, method="ssor", omega=1.5)
    np.testing.assert_array_equal(x, z)
    assert abs(x - y).max() > 1


def test_pyamgs_change_solve_matrix_says_what_to_call_and_ours_works():
    ml = hierarchy("2-D Poisson, SA")
    symmetric = ("gauss_seidel", {"sweep": "symmetric"})
    amg.change_smoothers(ml, symmetric, symmetric)
    A2 = (ml.levels[0].A + 0.5 * sp.eye_array(480)).tocsr()
    b = right_hand_side(ml)
    with pytest.raises(AttributeError) as caught:
        ml.change_solve_matrix(A2)
    assert "gpuilu.amg.change_solve_matrix(ml, A)" in str(caught.value.__context__)
    amg.change_solve_matrix(ml, A2)
    assert ml.levels[0].A is A2
    assert ml.levels[0].presmoother.spec == symmetric
    x = ml.solve(b, tol=1e-10, accel="cg")
    assert np.linalg.norm(b - A2 @ x) < 1e-8 * np.linalg.norm(b)
    with pytest.raises(gpuilu.ShapeMismatchError):
        amg.change_solve_matrix(ml, A2[:10, :10])


def test_a_smoother_follows_the_matrix_that_it_is_called_with():
    A = unsymmetric(30)
    f, b = amg.smoother(A, "gauss_seidel"), np.ones(30)
    x, y = np.zeros(30), np.zeros(30)
    f(2 * A, x, b)
    gpuilu.relax(2 * A, y, b)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("spec", ["gauss_seidel", "jacobi", "ilu0", "chebyshev"])
def test_a_smoother_keeps_the_values_that_it_was_made_from(spec):
    A, b = unsymmetric(30), np.ones(30)
    f, expected, x = amg.smoother(A, spec), np.zeros(30), np.zeros(30)
    for y in (expected, x):
        f(A, y, b)
        f(A, y, b)
        A.data *= 2
    np.testing.assert_array_equal(x, expected)


def test_a_level_takes_a_smoother_by_itself():
    ml = hierarchy("2-D Poisson, SA")
    for level in ml.levels[:-1]:
        level.presmoother = amg.smoother(level.A, ("gauss_seidel", {"sweep": "forward"}))
        level.postsmoother = amg.smoother(level.A, ("gauss_seidel", {"sweep": "backward"}))
    ml.symmetric_smoothing = True
    b = right_hand_side(ml)
    x, status = ml.solve(b, tol=1e-10, accel="cg", return_info=True)
    assert status == 0
    assert np.linalg.norm(b - ml.levels[0].A @ x) < 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize(
    "spec",
    [
        "newton",
        ("gauss_seidel", {"omega": 2}),
        ("gauss_seidel", {"sweep": "up"}),
        ("jacobi", {"iterations": 0}),
        ("ssor", {"omega": 2.5}),
        ("block_jacobi", {"blocksize": 7}),
        [],
    ],
    ids=str,
)
def test_what_cannot_be_honoured_raises_and_leaves_the_hierarchy_as_it_was(spec):
    ml = hierarchy("2-D Poisson, SA")
    before = [level.presmoother for level in ml.levels[:-1]]
    with pytest.raises(gpuilu.OptionError):
        amg.change_smoothers(ml, spec, None)
    assert [level.presmoother for level in ml.levels[:-1]] == before


def test_vectors_that_do_not_fit_raise():
    A = unsymmetric(30)
    f = amg.smoother(A, "jacobi")
    with pytest.raises(gpuilu.ShapeMismatchError):
        f(A, np.zeros(29), np.zeros(30))
    with pytest.raises(gpuilu.UnsupportedDtypeError):
        f(A, np.zeros(30, np.float32), np.zeros(30))


def test_columns_and_strided_vectors_are_relaxed_in_place():
    A, b = unsymmetric(30), np.ones(30)
    f, expected = amg.smoother(A, "jacobi"), np.zeros(30)
    f(A, expected, b)
    for x in (np.zeros((30, 1)), np.zeros(60)[::2]):
        f(A, x, b)
        np.testing.assert_array_equal(x.ravel(), expected)


def test_nothing_in_pyamg_is_patched():
    owners = (pyamg.MultilevelSolver, pyamg.relaxation.smoothing, relaxation)
    before = [dict(vars(owner)) for owner in owners]
    ml = hierarchy("2-D Poisson, SA")
    amg.change_smoothers(ml, "ilu0", "ilu0")
    ml.solve(right_hand_side(ml), maxiter=1)
    assert [dict(vars(owner)) for owner in owners] == before
