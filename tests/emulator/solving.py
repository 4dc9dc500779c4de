"""Checks of a triangular-solve plan on the emulator, the same for every algorithm."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from emulated import Device
from emulator import DeadlockError
from emulator_systems import PATTERNS, dense_triangle, odd_values, triangle, values

from gpuilu.errors import SolveStalledError
from gpuilu.trsv.serial import Serial

NAMES = sorted(PATTERNS)
BOUND = 4


def solve(plan, T, b, **device):
    """(x, the kernels launched)"""
    with Device(**device) as used:
        made = plan(T)
        x = b.copy()
        made.solve(x)
        made.check()
    return x, used.launched


def check(plan, T, b, **device):
    x, launched = solve(plan, T, b, **device)
    assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
    return launched


def check_under_seeds(plan, seeds):
    for seed in seeds:
        T = triangle(NAMES[seed % len(NAMES)], lower=seed % 16 < 8, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        check(plan, T, b, seed=seed, resident=1 + seed % 3)


def check_every_width(plan, factors, vector, unit, widths=(None, 1, 3, 5, 34)):
    """Right for those numbers of right-hand sides; the kernels that ran."""
    launched = set()
    for k, nrhs in enumerate(widths):
        for seed in range(2):
            T = triangle(NAMES[(k + 3 * seed) % len(NAMES)], k % 3 > 0, unit, factors, seed)
            shape = (T.n,) if nrhs is None else (T.n, nrhs)
            b = values(np.prod(shape), vector, np.random.default_rng(k)).reshape(shape)
            launched.update(check(plan, T, b, seed=seed))
    return launched


def check_odd_values(plan, name, factors, vector):
    """NaN, infinities and the mark propagate as in a serial solve."""
    check_odd_values_of(plan, triangle(name, dtype=factors), vector)


def check_odd_values_of(plan, T, vector):
    one = odd_values(T.n, vector)
    several = np.stack([np.roll(one, k) for k in range(3)], axis=1)
    for seed, b in enumerate((one, several, one)):
        expected = b.copy()
        with np.errstate(all="ignore"):
            Serial(T.astype(b.dtype)).solve(expected)
            x, _ = solve(plan, T, b, seed=seed)
        assert np.array_equal(np.isfinite(x), np.isfinite(expected))
        if np.dtype(vector).kind == "f":
            assert np.array_equal(np.isnan(x), np.isnan(expected))


def check_repeats(plan, nrhs=(None, 3, None)):
    """Several solves of one plan, one after the other, and new values in between."""
    T = triangle("grid")
    rng = np.random.default_rng(0)
    with Device(seed=5):
        made = plan(T)
        for k in nrhs:
            b = values(T.n * (k or 1), "d", rng).reshape((T.n,) if k is None else (T.n, k))
            x = b.copy()
            made.solve(x)
            assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
            T.data[...] *= 1.5
            T.diag[...] *= -1.25
            made.refresh()


def check_out_of_place(plan):
    T = triangle("grid")
    for seed, shape in enumerate(((T.n,), (T.n, 3), (T.n,))):
        b = values(np.prod(shape), "d", np.random.default_rng(0)).reshape(shape)
        x, kept = np.full(shape, np.nan), b.copy()
        with Device(seed=seed):
            plan(T).solve(x, kept)
        assert np.array_equal(kept, b)
        assert reference.backward_error(dense_triangle(T), x, b) <= BOUND


def check_deadlock(stuck_plan, word):
    """A plan of the chain whose last row but one waits for ever is a deadlock at `word`."""
    T = triangle("chain")
    with Device(), pytest.raises(DeadlockError) as caught:
        stuck_plan(T).solve(np.ones(T.n))
    assert f"polls {word}" in str(caught.value)


def check_drained(stuck_plan, first=-2):
    """The same, abandoned: rows from `first` on are NaN, the others right, and Python raises."""
    T = triangle("chain")
    for shape in ((T.n,), (T.n, 3)):
        x, expected = np.ones(shape), np.ones(shape)
        with Device(patience_ns=1000, options={"spin_limit": 10**12}):
            plan = stuck_plan(T)
            plan.solve(x)
            with pytest.raises(SolveStalledError):
                plan.check()
        Serial(T).solve(expected)
        assert np.isnan(x[first:]).all()
        np.testing.assert_allclose(x[:first], expected[:first], rtol=1e-14)
