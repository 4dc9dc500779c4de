"""Hierarchies moved to a device: pyamg's residuals, its signature, and M for Krylov solvers.

Each test runs on the CPU, and on a GPU where there is one; the code is the same.
"""

from __future__ import annotations

import inspect
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from amg_cases import MAKERS, hierarchy, pyamg, right_hand_side

import gpuilu
from gpuilu import amg
from gpuilu.amg.hierarchy import Hierarchy
from gpuilu.backend import cuda

CYCLES = ("V", "W", "F")
DENSE_ROWS = (0, 100)  # never, and from the first level with at most 100 rows
SYMMETRIC = ("gauss_seidel", {"sweep": "symmetric"})
EPS = np.finfo(float).eps


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(sor|CSR|CG requires).*")
        yield


def history(solver, b, **options):
    residuals = []
    x = solver.solve(b, tol=1e-30, maxiter=10, residuals=residuals, **options)
    return np.array(residuals), x


def assert_same_history(ml, moved, b, **options):
    """Each residual to 1e-10 of itself, but for the rounding of b - A x itself."""
    expected, x = history(ml, b, **options)
    found, _ = history(moved, b, **options)
    A = ml.levels[0].A
    rounding = EPS * (np.linalg.norm(abs(A) @ abs(x)) + np.linalg.norm(b))
    assert len(found) == len(expected) == 11
    assert (abs(found - expected) <= 1e-10 * expected + rounding).all()


@pytest.mark.parametrize("dense_rows", DENSE_ROWS)
@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("name", MAKERS)
def test_ten_cycles_give_pyamgs_residuals(name, cycle, dense_rows, device):
    ml = hierarchy(name)
    moved = amg.to_gpu(ml, device=device, dense_rows=dense_rows)
    assert_same_history(ml, moved, right_hand_side(ml), cycle=cycle)


SPECS = [
    (None, "gauss_seidel"),
    (("gauss_seidel", {"iterations": 2}), ("gauss_seidel", {"sweep": "backward"})),
    (("block_gauss_seidel", {"sweep": "backward"}), "block_gauss_seidel"),
    (("sor", {"omega": 1.3}), ("sor", {"omega": 1.3, "sweep": "backward"})),
    ("jacobi", ("jacobi", {"iterations": 2, "omega": 4 / 3})),
    (("jacobi", {"omega": 0.6, "withrho": False}), "richardson"),
    ("block_jacobi", ("block_jacobi", {"iterations": 3})),
    ("chebyshev", ("chebyshev", {"degree": 4})),
    (("chebyshev", {"degree": 2, "iterations": 2}), ("chebyshev", {"degree": 1})),
    (("richardson", {"iterations": 2}), None),
]


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("specs", SPECS, ids=str)
@pytest.mark.parametrize("name", ["2-D Poisson, SA", "elasticity, SA"])
def test_smoothers_that_pyamg_has_set_up_are_read(name, specs, cycle, device):
    ml = hierarchy(name)
    pyamg.relaxation.smoothing.change_smoothers(ml, *specs)
    moved = amg.to_gpu(ml, device=device)
    assert_same_history(ml, moved, right_hand_side(ml), cycle=cycle)


@pytest.mark.parametrize("specs", [("ilu0", "ilu0"), (("ssor", {"omega": 1.3}), "jacobi")], ids=str)
def test_smoothers_of_this_package_are_moved(specs, device):
    ml = hierarchy("anisotropic, RS")
    amg.change_smoothers(ml, *specs, device="cpu")
    moved = amg.to_gpu(ml, device=device)
    assert_same_history(ml, moved, right_hand_side(ml))


@pytest.mark.parametrize("per_level", [0, 1, 3])
def test_an_f_cycle_makes_as_many_v_cycles_as_it_is_told(per_level, device):
    ml = hierarchy("2-D Poisson, RS")
    moved = amg.to_gpu(ml, device=device, dense_rows=20)
    assert_same_history(ml, moved, right_hand_side(ml), cycle="F", cycles_per_level=per_level)


COARSE = [
    *("pinv", "splu", "lu", "cholesky", None, "gauss_seidel"),
    ("jacobi", {"iterations": 20}),
    spla.spsolve,
]


@pytest.mark.parametrize("solver", COARSE, ids=lambda s: getattr(s, "__name__", str(s)))
def test_every_linear_coarse_solver_becomes_a_matrix(solver, device):
    ml = hierarchy("2-D Poisson, RS", coarse_solver=solver)
    moved = amg.to_gpu(ml, device=device)
    assert_same_history(ml, moved, right_hand_side(ml))


def test_a_coarse_solver_that_is_not_linear_is_refused_and_can_be_replaced(device):
    ml = hierarchy("2-D Poisson, RS", coarse_solver=("cg", {"maxiter": 2}))
    with pytest.raises(gpuilu.OptionError, match="coarse_solver='pinv'"):
        amg.to_gpu(ml, device=device)
    moved = amg.to_gpu(ml, device=device, coarse_solver="pinv")
    reference = hierarchy("2-D Poisson, RS", coarse_solver="pinv")
    assert_same_history(reference, moved, right_hand_side(ml))


@pytest.mark.parametrize("cycle", CYCLES)
def test_a_hierarchy_of_one_level_is_its_coarse_solve(cycle, device):
    ml = pyamg.ruge_stuben_solver(pyamg.gallery.poisson((5, 5), format="csr"), max_coarse=100)
    assert len(ml.levels) == 1
    moved = amg.to_gpu(ml, device=device)
    b = np.arange(25.0)
    np.testing.assert_allclose(moved.solve(b, cycle=cycle), ml.solve(b), rtol=1e-12)


def in_dtype(dtype):
    """A hierarchy all of whose matrices have that dtype; pyamg's own mixes widths."""
    A = pyamg.gallery.poisson((14, 15), format="csr")
    if np.dtype(dtype).kind == "c":
        A = (A + 0.5j * sp.eye_array(210)).tocsr()
    ml = pyamg.smoothed_aggregation_solver(A, max_coarse=10)
    for level in ml.levels:
        for name in {"A", "P", "R"} & set(vars(level)):
            setattr(level, name, getattr(level, name).astype(dtype))
    return ml


@pytest.mark.parametrize("specs", [("jacobi", "gauss_seidel"), ("chebyshev", "richardson")])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_every_dtype_is_carried_through(dtype, specs, device):
    ml = in_dtype(dtype)
    pyamg.relaxation.smoothing.change_smoothers(ml, *specs)
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    x, y = ml.solve(b, maxiter=3, tol=1e-30), moved.solve(b, maxiter=3, tol=1e-30)
    assert moved.dtype == x.dtype == y.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(y, x, rtol=1e3 * eps, atol=1e3 * eps * abs(x).max())


# ---- the signature ------------------------------------------------------------------------------


def test_solve_has_pyamgs_signature():
    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (Hierarchy.solve, pyamg.MultilevelSolver.solve)
    )
    assert ours == theirs


def test_tol_maxiter_x0_callback_and_info_mean_what_they_mean_in_pyamg(device):
    ml = hierarchy("2-D Poisson, SA")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    start = np.random.default_rng(2).random(len(b))
    kept = start.copy()
    for options in ({}, {"x0": start}, {"tol": 1e-3}, {"maxiter": 3, "tol": 1e-12}):
        seen, found = [], []
        for solver in (ml, moved):
            residuals, iterates = [], []
            x, info = solver.solve(
                b,
                residuals=residuals,
                callback=lambda x, keep=iterates: keep.append(x.copy()),
                return_info=True,
                **options,
            )
            found.append((len(residuals), info, len(iterates)))
            seen.append((x, iterates, residuals))
        assert found[0] == found[1]
        np.testing.assert_allclose(seen[1][0], seen[0][0], rtol=1e-9)
        np.testing.assert_allclose(seen[1][1], seen[0][1], rtol=1e-9)
        np.testing.assert_array_equal(seen[1][0], seen[1][1][-1])
    np.testing.assert_array_equal(start, kept)


def test_a_callback_may_use_the_hierarchy_itself(device):
    ml = hierarchy("2-D Poisson, SA")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    M = moved.aspreconditioner()
    x = moved.solve(b, maxiter=4, tol=1e-30)
    y = moved.solve(b, maxiter=4, tol=1e-30, callback=lambda x: M.matvec(x))
    np.testing.assert_array_equal(x, y)


@pytest.mark.skipif(cuda.available(), reason="there is a GPU")
def test_without_a_gpu_the_error_names_the_other_device():
    with pytest.raises(gpuilu.BackendUnavailableError, match="device='cpu'"):
        amg.to_gpu(hierarchy("2-D Poisson, SA"))


@pytest.mark.parametrize("accel", ["cg", "gmres", "bicgstab", "cgs"])
def test_accel_by_name_converges_as_pyamgs(accel, device):
    ml = hierarchy("2-D Poisson, SA")
    pyamg.relaxation.smoothing.change_smoothers(ml, SYMMETRIC, SYMMETRIC)
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    counts = []
    for solver in (ml, moved):
        residuals, calls = [], []
        x, info = solver.solve(
            b, tol=1e-9, accel=accel, residuals=residuals, callback=calls.append, return_info=True
        )
        assert info == 0
        assert np.linalg.norm(b - ml.levels[0].A @ x) <= 1e-7 * np.linalg.norm(b)
        counts.append(len(residuals))
    assert abs(counts[1] - counts[0]) <= (20 if device == "cuda" else 0)


def test_accel_may_name_a_solver_that_has_no_absolute_tolerance(device):
    ml = hierarchy("2-D Poisson, SA")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    x = moved.solve(b, tol=1e-10, accel="minres")
    assert np.linalg.norm(b - ml.levels[0].A @ x) <= 1e-7 * np.linalg.norm(b)


def test_accel_may_be_a_callable_of_scipys_kind(device):
    ml = hierarchy("2-D Poisson, SA")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    solver = spla.cg if device == "cpu" else __import__("cupyx").scipy.sparse.linalg.cg
    residuals = []
    x = moved.solve(b, tol=1e-9, accel=solver, residuals=residuals)
    assert np.linalg.norm(b - ml.levels[0].A @ x) <= 1e-8 * np.linalg.norm(b)
    assert residuals[0] == pytest.approx(np.linalg.norm(b))
    assert residuals[-1] < 1e-8 * residuals[0]


def test_cg_with_a_cycle_that_is_not_symmetric_warns(device):
    ml = hierarchy("2-D Poisson, SA")
    amg.change_smoothers(ml, "gauss_seidel", "gauss_seidel", device="cpu")
    moved = amg.to_gpu(ml, device=device)
    with pytest.warns(UserWarning, match="not symmetric"):
        moved.solve(right_hand_side(ml), accel="cg", maxiter=1)


def test_float32_cycles_precondition_a_float64_system(device):
    ml = in_dtype("float32")
    A, b = ml.levels[0].A.astype(np.float64), np.ones(210)
    pyamg.relaxation.smoothing.change_smoothers(ml, SYMMETRIC, SYMMETRIC)
    M = amg.to_gpu(ml, device=device).aspreconditioner()
    assert M.matvec(b).dtype == np.float64
    x, status = spla.cg(A, b, M=M, rtol=1e-10)
    assert status == 0
    assert np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)


# ---- the preconditioner -------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", CYCLES)
def test_the_preconditioner_is_one_cycle_from_zero(cycle, device):
    ml = hierarchy("elasticity, SA")
    M = amg.to_gpu(ml, device=device).aspreconditioner(cycle)
    b = right_hand_side(ml)
    expected = ml.aspreconditioner(cycle).matvec(b)
    scale = 1e-12 * abs(expected).max()
    for form in (b, b[:, None], np.repeat(b, 2)[::2]):
        z = M @ form
        assert z.shape == form.shape
        np.testing.assert_allclose(z.ravel(), expected, rtol=1e-11, atol=scale)
    np.testing.assert_allclose(M.matmat(np.stack([b, 2 * b], 1))[:, 1], 2 * expected, rtol=1e-9)
    np.testing.assert_allclose((2 * M) @ b, 2 * expected, rtol=1e-9)
    z = M @ (b + 2j * b)
    np.testing.assert_allclose(z, (1 + 2j) * expected, rtol=1e-9)


def test_the_preconditioner_gives_a_new_array_each_time(device):
    ml = hierarchy("2-D Poisson, SA")
    M = amg.to_gpu(ml, device=device).aspreconditioner()
    b = right_hand_side(ml)
    first = M @ b
    kept = first.copy()
    second = M @ (2 * b)
    assert not np.may_share_memory(first, second)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("solver", [spla.cg, spla.gmres, spla.bicgstab, pyamg.krylov.fgmres])
def test_it_goes_into_every_host_solver(solver, device):
    ml = hierarchy("3-D Poisson, SA")
    M, A, b = amg.to_gpu(ml, device=device).aspreconditioner(), ml.levels[0].A, right_hand_side(ml)
    tolerance = {"tol": 1e-9} if solver.__module__.startswith("pyamg") else {"rtol": 1e-9}
    x, status = solver(A, b, M=M, **tolerance)
    assert status == 0
    assert np.linalg.norm(b - A @ x) <= 1e-7 * np.linalg.norm(b)


def test_threads_take_turns(device):
    ml = hierarchy("2-D Poisson, SA")
    M, found = amg.to_gpu(ml, device=device).aspreconditioner(), {}
    vectors = [np.random.default_rng(k).random(480) for k in range(4)]
    expected = [M @ b for b in vectors]

    def work(k):
        found[k] = [M @ vectors[k] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, results in found.items():
        for x in results:
            np.testing.assert_array_equal(x, expected[k])


# ---- update -------------------------------------------------------------------------------------

UPDATED = [
    (SYMMETRIC, SYMMETRIC),
    (("block_gauss_seidel", {"sweep": "symmetric"}),) * 2,
    (("jacobi", {"omega": 4 / 3}),) * 2,
    ("block_jacobi", "block_jacobi"),
    ("chebyshev", "chebyshev"),
    ("ilu0", "ilu0"),
]


def galerkin(ml, A):
    """The matrices R A P of every level."""
    matrices = [A]
    for level in ml.levels[:-1]:
        matrices.append(level.R @ matrices[-1] @ level.P)
    return matrices


@pytest.mark.parametrize("specs", UPDATED, ids=str)
@pytest.mark.parametrize("name", ["anisotropic, SA", "elasticity, SA"])
def test_an_updated_hierarchy_is_one_made_from_the_new_matrices(name, specs, device):
    ml = hierarchy(name)
    amg.change_smoothers(ml, *specs, device="cpu")
    moved, b = amg.to_gpu(ml, device=device, dense_rows=30), right_hand_side(ml)
    moved.solve(b, maxiter=2)
    A2 = ml.levels[0].A.copy()
    n = A2.shape[0]
    scale = sp.diags_array(1 + 0.5 * np.random.default_rng(3).random(n))
    A2 = 7.0 * (scale @ A2 @ scale)
    A2 = A2.tobsr(blocksize=ml.levels[0].A.blocksize) if ml.levels[0].A.format == "bsr" else A2
    moved.update(A2.tocsr())
    for level, matrix in zip(ml.levels, galerkin(ml, A2), strict=True):
        level.A = matrix
    ml.coarse_solver = pyamg.coarse_grid_solver("pinv")
    amg.change_smoothers(ml, *specs, device="cpu")
    expected, found = history(ml, b)[0], history(moved, b)[0]
    if ml.levels[0].presmoother.recipe.rho is None:
        rounding = 1e-13 * expected[0]
        assert (abs(found - expected) <= 1e-10 * expected + rounding).all()
    else:  # spectral radii are estimates, from random vectors, to 1 %
        np.testing.assert_allclose(found[-1], expected[-1], rtol=0.5)


def test_an_update_to_the_same_values_changes_nothing(device):
    ml = hierarchy("2-D Poisson, RS")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    x = moved.solve(b, maxiter=3, tol=1e-30)
    moved.update(ml.levels[0].A)
    np.testing.assert_allclose(moved.solve(b, maxiter=3, tol=1e-30), x, rtol=1e-10)


def test_a_zero_that_becomes_an_entry_on_a_coarse_level_is_followed(device):
    # With these values the coarse entries between the two halves cancel, and SciPy drops them.
    A = sp.csr_array([[2.0, 0, 1, -1], [0, 2, -1, 1], [1, -1, 2, 0], [-1, 1, 0, 2]])
    P = sp.csr_array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    levels = [pyamg.MultilevelSolver.Level() for _ in range(3)]
    levels[0].A, levels[0].P, levels[0].R = A, P, P.T.tocsr()
    levels[1].A = sp.csr_array((P.T @ A @ P).tocsr())
    levels[1].A.eliminate_zeros()
    levels[1].P = levels[1].R = sp.eye_array(2, format="csr")
    levels[2].A = levels[1].A
    ml = pyamg.MultilevelSolver(levels, coarse_solver="pinv")
    amg.change_smoothers(ml, SYMMETRIC, SYMMETRIC, device="cpu")
    moved = amg.to_gpu(ml, device=device)
    A2 = A.copy()
    A2.data[:] = [4.0, 1, 0.5, 4, 0.25, 1, 1, 0.5, 4, 0.25, 1, 4]
    assert ml.levels[1].A.nnz == 2
    moved.update(A2)
    assert moved.levels[1].A.nnz == 4
    b, residuals = np.arange(1.0, 5), []
    moved.solve(b, residuals=residuals, tol=1e-12)
    assert residuals[-1] < 1e-11


def test_a_matrix_that_does_not_fit_changes_nothing(device):
    ml = hierarchy("2-D Poisson, RS")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    x = moved.solve(b, maxiter=2, tol=1e-30)
    wider = (ml.levels[0].A + sp.eye_array(480, k=100)).tocsr()
    for A, error in (
        (wider, gpuilu.PatternMismatchError),
        (ml.levels[1].A, gpuilu.ShapeMismatchError),
        (ml.levels[0].A * 1j, gpuilu.UnsupportedDtypeError),
    ):
        with pytest.raises(error):
            moved.update(A)
    np.testing.assert_array_equal(moved.solve(b, maxiter=2, tol=1e-30), x)


def test_after_a_failed_update_the_old_values_are_in_use(device):
    ml = hierarchy("2-D Poisson, RS")
    amg.change_smoothers(ml, "ilu0", "ilu0", device="cpu")
    moved, b = amg.to_gpu(ml, device=device), right_hand_side(ml)
    x = moved.solve(b, maxiter=2, tol=1e-30)
    A2 = ml.levels[0].A.tolil()
    A2[5, 5] = 0
    A2 = sp.csr_array(A2.tocsr())
    A2.data[:] = np.where(A2.data == 4, 0, A2.data)
    with pytest.raises(gpuilu.ZeroPivotError):
        moved.update(A2)
    np.testing.assert_array_equal(moved.solve(b, maxiter=2, tol=1e-30), x)


# ---- errors and facts ---------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", ["AMLI", "X", ""])
def test_a_cycle_that_is_not_linear_is_refused(cycle, device):
    moved = amg.to_gpu(hierarchy("2-D Poisson, SA"), device=device)
    with pytest.raises(gpuilu.OptionError, match="cycle must be"):
        moved.solve(np.ones(480), cycle=cycle)
    with pytest.raises(gpuilu.OptionError):
        moved.aspreconditioner(cycle)


def test_a_smoother_that_cannot_be_moved_names_those_that_can(device):
    ml = hierarchy("2-D Poisson, SA")
    pyamg.relaxation.smoothing.change_smoothers(ml, "schwarz", "schwarz")
    with pytest.raises(gpuilu.OptionError, match="change_smoothers"):
        amg.to_gpu(ml, device=device)
    ml.levels[0].presmoother = lambda A, x, b: None
    with pytest.raises(gpuilu.OptionError, match="change_smoothers"):
        amg.to_gpu(ml, device=device)


def test_arrays_that_do_not_fit_raise(device):
    moved = amg.to_gpu(hierarchy("2-D Poisson, SA"), device=device)
    for b, error in (
        (np.ones(479), gpuilu.ShapeMismatchError),
        (np.ones((480, 2)), gpuilu.ShapeMismatchError),
        (np.ones(480, complex), gpuilu.UnsupportedDtypeError),
        (np.ones(480, object), gpuilu.UnsupportedDtypeError),
    ):
        with pytest.raises(error):
            moved.solve(b)
    with pytest.raises(gpuilu.ShapeMismatchError):
        moved.solve(np.ones(480), x0=np.ones(3))
    with pytest.raises(gpuilu.ShapeMismatchError):
        moved.aspreconditioner().matvec(np.ones(3))
    with pytest.raises(gpuilu.OptionError, match="no solver"):
        moved.solve(np.ones(480), accel="newton")


def test_it_says_what_it_is_and_what_it_holds(device):
    ml = hierarchy("2-D Poisson, RS")
    moved = amg.to_gpu(ml, device=device)
    assert "480, 240" in repr(moved)
    assert moved.device in repr(moved)
    assert moved.shape == (480, 480)
    own = sum(level.A.nnz * 12 for level in ml.levels)
    assert moved.nbytes > own
    assert moved.symmetric_smoothing is True
    moved.check()


def test_the_hierarchy_of_pyamg_stays_as_it_is(device):
    ml = hierarchy("elasticity, SA")
    smoothers = [level.presmoother for level in ml.levels[:-1]]
    b = right_hand_side(ml)
    x = ml.solve(b, maxiter=2)
    amg.to_gpu(ml, device=device).solve(b)
    assert [level.presmoother for level in ml.levels[:-1]] == smoothers
    np.testing.assert_array_equal(ml.solve(b, maxiter=2), x)


def test_an_update_of_the_moved_hierarchy_leaves_pyamgs_matrices_alone(device):
    ml = hierarchy("2-D Poisson, RS")
    kept = [level.A.copy() for level in ml.levels]
    moved = amg.to_gpu(ml, device=device)
    moved.update(3 * ml.levels[0].A)
    for level, A in zip(ml.levels, kept, strict=True):
        np.testing.assert_array_equal(level.A.data, A.data)


def test_recorded_cycles_leave_the_vectors_as_they_were_when_they_are_recorded(monkeypatch):
    from gpuilu.amg import cycles

    monkeypatch.setattr(cycles, "on_gpu", lambda a: True)
    monkeypatch.setattr(cycles.cuda, "captured", lambda work: work)
    monkeypatch.setattr(cycles.cuda, "launch_graph", lambda graph: graph())
    ml = hierarchy("2-D Poisson, RS")
    pyamg.relaxation.smoothing.change_smoothers(ml, "jacobi", ("jacobi", {"iterations": 2}))
    for cycle in CYCLES:
        moved = amg.to_gpu(ml, device="cpu", dense_rows=70)
        assert_same_history(ml, moved, right_hand_side(ml), cycle=cycle)
