"""Several GPUs: an operator solves on its own, whichever is the current one."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_cases import grid, on_gpu, vector

import gpuilu

pytestmark = pytest.mark.gpu
ALGORITHMS = ("row", "blocked", "cusparse")


@pytest.fixture
def other(cp):
    """The number of a GPU that is not the current one."""
    count, current = cp.cuda.runtime.getDeviceCount(), cp.cuda.Device().id
    if count < 2:
        pytest.skip("there is one GPU")
    return (current + 1) % count


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_operator_on_another_gpu_takes_host_vectors(cp, other, algorithm):
    current = cp.cuda.Device().id
    A, b = grid(40, 50), vector(2000, np.float64)
    here = gpuilu.ilu0(A, device=current, algorithm=algorithm)
    there = gpuilu.ilu0(A, device=other, algorithm=algorithm)
    assert there.info.device == f"cuda:{other}"
    assert cp.cuda.Device().id == current
    assert np.array_equal(there @ b, here @ b)
    assert np.array_equal(there.L.data.get(), here.L.data.get())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_operator_that_was_moved_solves_there_and_is_updated_there(cp, csp, other, algorithm):
    current = cp.cuda.Device().id
    A = grid(40, 50)
    M = gpuilu.ilu0(on_gpu(csp, A), algorithm=algorithm)
    moved = M.to(f"cuda:{other}")
    b = vector(2000, np.float64)
    expected = (M @ cp.asarray(b)).get()
    with cp.cuda.Device(other):
        on_other = cp.asarray(b)
        x = moved @ on_other
        assert x.device.id == other
        assert np.array_equal(x.get(), expected)
    x = moved @ on_other  # the current GPU is another one than b's and the operator's
    assert x.device.id == other
    assert cp.cuda.Device().id == current
    with cp.cuda.Device(other):
        assert np.array_equal(x.get(), expected)
        moved.update(cp.asarray(2 * A.data))
    M.update(cp.asarray(2 * A.data))
    assert np.array_equal(moved @ b, (M @ cp.asarray(b)).get())


def test_vectors_and_operators_of_different_gpus_are_refused(cp, csp, other):
    M = gpuilu.ilu0(on_gpu(csp, grid(10, 10)))
    with cp.cuda.Device(other):
        b = cp.ones(100)
    with pytest.raises(gpuilu.DeviceMismatchError):
        M @ b
