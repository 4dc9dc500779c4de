"""L and U in one go on the emulator, and what an apply launches."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import reference
import solving
from emulated import Device, needs_compiler
from emulator_systems import dense_triangle, odd_values, triangle, values
from instantiations import PAIRS

from gpuilu.errors import SolveStalledError
from gpuilu.trsv import blocked, long_rows, row
from gpuilu.trsv.forms import Chain, TriangularForms
from gpuilu.trsv.serial import Serial

pytestmark = needs_compiler


def copying(*lower):
    """Plans of strips whose static data are copied, of lower or upper triangles."""

    def plan(T):
        def copied(info, n, dtype):
            return T.lower in lower and dtype.itemsize <= 8

        with mock.patch.multiple(blocked, _copied=copied, _affordable=lambda *_: True):
            return blocked.Blocked(T)

    return plan


PLANS = {
    "row": row.Row,
    "blocked": blocked.Blocked,
    "copied": copying(True, False),
    "first copied": copying(True),
    "second copied": copying(False),
}
every_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


@pytest.fixture(autouse=True)
def few_strips():
    few = {"STRIPS": (3,), "FEWEST_ROWS": 1, "MOST_COLUMNS": 1, "FEWEST_TO_LEAVE": 1}
    with mock.patch.multiple(blocked, **few):
        yield


def factors(name, dtype="d", seed=0):
    """A unit lower and an upper triangle of one order."""
    return triangle(name, True, True, dtype, seed), triangle(name, False, False, dtype, seed + 1)


def expected(L, U, b):
    """U^-1 L^-1 b by plain substitution."""
    x = b.copy()
    for T in (L, U):
        Serial(T.astype(b.dtype)).solve(x)
    return x


@every_plan
@pytest.mark.parametrize(("factor", "vector"), PAIRS)
@pytest.mark.parametrize("nrhs", [None, 3])
@pytest.mark.parametrize("in_place", [True, False])
def test_two_solves_in_one_go_give_the_bits_of_one_after_the_other(
    plan, factor, vector, nrhs, in_place
):
    L, U = factors("grid", factor)
    shape = (L.n,) if nrhs is None else (L.n, nrhs)
    b = values(int(np.prod(shape)), vector, np.random.default_rng(3)).reshape(shape)
    for seed in range(2):
        with Device(seed=seed):
            first, second = plan(L), plan(U)
            pair = first.followed_by(second)
            apart = b.copy()
            first.solve(apart)
            second.solve(apart)
            kept = b.copy()
            x = kept if in_place else np.full_like(b, np.nan)
            for _ in range(2):  # the second time with scratch that has been used
                if in_place:
                    x[...] = b
                pair.solve(x, None if in_place else kept)
                np.testing.assert_array_equal(x, apart)
            pair.check()
        assert in_place or np.array_equal(kept, b)
    z = b.copy()
    with Device():
        plan(L).solve(z)
    assert reference.backward_error(dense_triangle(L), z, b) <= solving.BOUND
    assert reference.backward_error(dense_triangle(U), apart, z) <= solving.BOUND


@every_plan
@pytest.mark.parametrize("nrhs", [None, 3])
def test_rows_that_are_cut_into_segments_pass_from_one_triangle_to_the_other(plan, nrhs):
    L, U = factors("dense")
    cut = long_rows.cut_long_rows
    short = {"cut_long_rows": lambda T: cut(T, 2, 0.1)}
    with mock.patch.multiple(blocked, **short), mock.patch.multiple(row, **short), Device():
        first, second = plan(L), plan(U)
        assert min(len(first._row), len(second._row)) > L.n
        shape = (L.n,) if nrhs is None else (L.n, nrhs)
        b = values(np.prod(shape), "d", np.random.default_rng(0)).reshape(shape)
        x = np.full_like(b, np.nan)
        first.followed_by(second).solve(x, b)
    np.testing.assert_allclose(x, expected(L, U, b), rtol=1e-12)


@every_plan
@pytest.mark.parametrize("vector", ["f", "d", "F", "D"])
def test_nan_inf_and_the_mark_pass_from_one_triangle_to_the_other(plan, vector):
    L, U = factors("diagonal" if plan is row.Row else "grid", vector)
    b = odd_values(L.n, vector)
    with np.errstate(all="ignore"), Device(seed=1):
        x = b.copy()
        plan(L).followed_by(plan(U)).solve(x)
        y = b.copy()
        plan(L).solve(y)
        plan(U).solve(y)
        right = expected(L, U, b)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    assert np.array_equal(np.isfinite(x), np.isfinite(right))


def test_strips_are_not_joined_with_a_diagonal():
    with Device():
        L, U = blocked.Blocked(triangle("diagonal")), blocked.Blocked(triangle("grid"))
        assert L.followed_by(U) is None
        assert U.followed_by(L) is None


@pytest.mark.parametrize("first", [True, False])
def test_an_abandoned_pair_raises_and_the_next_solve_is_right(first):
    L, U = factors("chain")
    b = values(L.n, "d", np.random.default_rng(0))
    with Device(patience_ns=1000, options={"spin_limit": 10**12}):
        plans = row.Row(L), row.Row(U)
        pair, broken = plans[0].followed_by(plans[1]), plans[0 if first else 1]
        indices = broken._indices.copy()
        last = len(broken._row) - 1
        broken._indices[broken._indptr[last - 1]] = last
        broken._indices[broken._indptr[last]] = last - 1
        x = b.copy()
        pair.solve(x)
        with pytest.raises(SolveStalledError):
            pair.check()
        assert np.isnan(x).any()
        broken._indices[...] = indices
        x[...] = b
        pair.solve(x)
        pair.check()
    np.testing.assert_allclose(x, expected(L, U, b), rtol=1e-12)


# ---- what an apply enqueues ----------------------------------------------------------------------


class Counting:
    """Counts memsets beside the kernels of a device."""

    def __init__(self, device):
        self.device, self.resets = device, 0

    def enqueued(self, work):
        """(kernels by their family names, memsets) of some work."""
        del self.device.launched[:]
        self.resets = 0
        work()
        return [name.partition("<")[0] for name in self.device.launched], self.resets


@pytest.fixture
def counting():
    import emulated

    fill = emulated.Scratch.fill_marks
    with Device() as device:
        counter = Counting(device)

        def counted(scratch, nbytes):
            counter.resets += 1
            fill(scratch, nbytes)

        with mock.patch.object(emulated.Scratch, "fill_marks", counted):
            yield counter


STRIPS = ["strips_solve", "strips_solve"]
COPIED = ["strips_enter", "strips_solve", "strips_enter", "strips_solve"]


@pytest.mark.parametrize("trans", "NTH")
@pytest.mark.parametrize(
    ("plan", "nrhs", "kernels", "resets"),
    [
        (row.Row, None, ["row_solve"] * 2, 1),
        (row.Row, 3, ["row_columns"] * 2, 1),
        (blocked.Blocked, None, STRIPS, 1),
        (blocked.Blocked, 3, [*STRIPS, "strips_scatter"], 1),
        (copying(True, False), None, COPIED, 0),
        (copying(True, False), 3, [*STRIPS, "strips_scatter"], 1),
    ],
)
def test_an_apply_is_so_many_launches_and_resets(counting, plan, kernels, resets, nrhs, trans):
    L, U = factors("grid")
    both = [TriangularForms(T, plan) for T in (L, U)]
    chain = Chain(both if trans == "N" else both[::-1])
    b = np.ones((L.n,) if nrhs is None else (L.n, nrhs))
    x = b.copy()
    chain.solve(x, trans)
    assert counting.enqueued(lambda: chain.solve(x, trans)) == (kernels, resets)
    assert counting.enqueued(lambda: chain.solve(x, trans, b)) == (kernels, resets)
