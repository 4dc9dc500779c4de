"""Real matrices: each is factored or refused as its manifest says, and GMRES agrees with it."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import manifest
from scipy.sparse.linalg import aslinearoperator, gmres

import gpuilu
from gpuilu.csr import canonical

MISSING = pytest.mark.skip(reason="GPUILU_MATRICES names no folder with a MANIFEST.tsv")
ROWS = [pytest.param(row, id=row["file"].split(".")[0]) for row in manifest()]
MOST = 500  # iterations, 10 restarts of 50


def outcome(A, **options):
    """What ilu0 makes of A in the manifest's words, and the preconditioner if there is one."""
    try:
        return "ok", gpuilu.ilu0(A, **options)
    except gpuilu.ZeroPivotError as error:
        return f"zero/nonfinite({error.row})", None
    except gpuilu.MissingDiagonalError as error:
        padded, M = outcome(A, missing_diagonal="insert")
        padded = padded.replace("zero/nonfinite", "fail")
        return f"missdiag({error.row})/pad-{padded}", M


def right_preconditioned_gmres(A, b, M):
    """(iterations, true relative residual)."""
    norms = []
    solved = gmres(
        aslinearoperator(A) @ M,
        b,
        restart=50,
        maxiter=10,
        rtol=1e-8,
        callback=norms.append,
        callback_type="pr_norm",
    )
    x = M.matvec(solved[0])
    return len(norms), np.linalg.norm(b - A @ x) / np.linalg.norm(b)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("row", ROWS or [pytest.param(None, marks=MISSING)])
def test_a_real_matrix_is_factored_or_refused_as_the_manifest_says(row, device, matrices, request):
    if device == "cuda":
        request.getfixturevalue("cp")
    A = scipy.io.mmread(matrices / row["file"])
    C = canonical(A)
    assert (C.n, C.n) == (int(row["rows"]), int(row["cols"]))
    assert C.data.dtype == row["dtype"]
    assert C.nnz == int(row["nnz_expanded"]) - int(row["duplicates"])
    assert np.sum(C.diagonal < 0) == int(row["missing_diag"])

    found, M = outcome(A, device=device)
    assert found == row["ilu0_ok"]
    expected = row["iters_ilu0_sin"]
    assert (M is None) == (expected == "-")
    if M is None:
        return

    assert M.info.n_levels_lower == int(row["levels_L"])
    assert M.info.n_levels_upper == int(row["levels_U"])
    A = sp.csr_array(A)
    iterations, residual = right_preconditioned_gmres(A, A @ np.sin(np.arange(1, C.n + 1)), M)
    if expected == f">{MOST}":
        assert residual > 1e-8
    else:
        assert abs(iterations - int(expected)) <= max(2, 0.05 * int(expected))
