"""The strips on the emulator."""

from __future__ import annotations

from unittest import mock

import cases
import emulator
import numpy as np
import pytest
import reference
from emulated import Device, needs_compiler, sources
from emulator import AddressError, DeadlockError, RaceError
from emulator_systems import PATTERNS, dense_triangle, odd_values, triangle, values
from instantiations import INSTANTIATIONS, PAIRS, columns_at_once

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv import blocked
from gpuilu.trsv.serial import Serial

pytestmark = needs_compiler

NAMES = sorted(PATTERNS)
BOUND = 4


def solve(T, b, n_strips=3, widths=None, **device):
    with (
        Device(**device) as used,
        mock.patch.multiple(
            blocked,
            STRIPS=(n_strips,),
            FEWEST_ROWS=1,
            WIDTHS={T.dtype.char: widths or blocked.WIDTHS[T.dtype.char]},
        ),
    ):
        plan = blocked.Blocked(T)
        x = b.copy()
        plan.solve(x)
        plan.check()
    return x, used.launched


def check(T, b, **how):
    x, launched = solve(T, b, **how)
    assert reference.backward_error(dense_triangle(T), x, b) <= BOUND
    return launched


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], lower=seed % 16 < 8, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        check(
            T,
            b,
            seed=seed,
            resident=1 + seed % 3,
            n_strips=1 + seed % 4,
            widths=(2,),
            strip_threads=(96, 128, 256)[seed % 3],
        )


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = set()
    for k, width in enumerate(blocked.WIDTHS[factors]):
        for columns in (1, columns_at_once(vector)):
            for seed in range(2):
                T = triangle(NAMES[(k + 3 * seed) % len(NAMES)], k % 3 > 0, unit, factors, seed)
                shape = (T.n,) if columns == 1 else (T.n, columns + 1)
                b = values(np.prod(shape), vector, np.random.default_rng(k)).reshape(shape)
                launched.update(check(T, b, seed=seed, widths=(width,)))
    begin = f"strips_solve<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    end = f",{str(unit).lower()}>"
    expected = {k for k in INSTANTIATIONS["blocked"] if k.startswith(begin) and k.endswith(end)}
    assert {k for k in launched if k.startswith("strips_solve")} == expected


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(name, factors, vector):
    T = triangle(name, dtype=factors)
    b = odd_values(T.n, vector)
    expected = b.copy()
    with np.errstate(all="ignore"):
        Serial(T.astype(b.dtype)).solve(expected)
    for seed in range(3):
        x, _ = solve(T, b, seed=seed)
        assert np.array_equal(np.isfinite(x), np.isfinite(expected))
        if np.dtype(vector).kind == "f":
            assert np.array_equal(np.isnan(x), np.isnan(expected))


FAULTS = {
    "the ring filled without a release": (
        "store_release_shared(hall.filled + at,",
        "store_relaxed_shared(hall.filled + at,",
        (RaceError, AddressError),
    ),
    "the ring freed without a release": (
        "if (lane == 0) store_release_shared(&hall.swept, at.q);",
        "if (lane == 0) store_relaxed_shared(&hall.swept, at.q);",
        RaceError,
    ),
    "a lane that reads what another acquired": (
        "__syncwarp(); // what one lane acquired all lanes may read",
        "",
        (RaceError, AddressError),
    ),
    "no barrier of the warp between a step and the next": (
        "__syncwarp();\n    if (has_row) {",
        "if (has_row) {",
        (RaceError, AddressError),
    ),
    "strips by block instead of by ticket": (
        "hall.ticket = take_ticket(launch);",
        "hall.ticket = blockIdx.x + gridDim.x * patience.seen++;",
        DeadlockError,
    ),
    "the ring not waited for": (
        "load_acquire_shared(&hall.swept) + Hall<V, K, C>::RING <= q",
        "false",
        (RaceError, AddressError, AssertionError, DeadlockError),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault):
    right, wrong, errors = FAULTS[fault]
    texts = sources()
    assert texts["blocked.cu"].count(right) >= 1, fault
    texts["blocked.cu"] = texts["blocked.cu"].replace(right, wrong)
    kernels = (
        "strips_solve<double,double,2,1,false>",
        "strips_enter<double>",
        "strips_refresh<double>",
    )
    kernels += ("strips_leave<double>",)
    unit = emulator.compile_unit("blocked", kernels, texts)
    with pytest.raises(errors):
        check_seeds(unit)


def check_seeds(unit):
    T = cases.as_triangle(cases.triangle(cases.grid(12, 40)))
    for seed in range(24):
        device = {"seed": seed, "resident": 1 + seed % 2, "units": {"blocked": unit}}
        check(T, np.ones(T.n), n_strips=3, widths=(2,), **device)
