"""The strips on the emulator."""

from __future__ import annotations

import itertools
from unittest import mock

import cases
import emulator
import numpy as np
import pytest
import reference
import solving
from emulated import Device, Scratch, needs_compiler, sources
from emulator import AddressError, DeadlockError, EndlessError, RaceError
from emulator_systems import dense_triangle, triangle, values
from instantiations import INSTANTIATIONS, PAIRS, columns_at_once

from gpuilu.backend.compile import VALUE_TYPES
from gpuilu.trsv import blocked

pytestmark = needs_compiler

NAMES = solving.NAMES
NOT_COPIED = (blocked.AT_ONCE[1], blocked.SHARED_OUT)
WAYS = (*NOT_COPIED, blocked.COPIED)
MAY_COPY = blocked._copied


def strips(n_strips=3, widths=None, at_once=5):
    """A plan with that many strips, one of those numbers of near entries, and far ones at once.

    Static data are copied if far ones are as many as that takes, even if steps are hardly full.
    """

    def plan(T):
        here = {T.dtype.char: widths or blocked.WIDTHS[T.dtype.char]}
        few = {"STRIPS": (n_strips,), "FEWEST_ROWS": 1, "MOST_COLUMNS": 1}
        few["FEWEST_TO_LEAVE"] = 99 if at_once == blocked.SHARED_OUT else 1
        copies = at_once == blocked.COPIED
        few["_far_at_once"] = lambda info: blocked.SHARED_OUT if copies else at_once
        few["_copied"] = lambda info, n, dtype: copies and MAY_COPY(info, 32 * len(info), dtype)
        few["_affordable"] = lambda *_: True
        with mock.patch.multiple(blocked, WIDTHS=here, **few):
            return blocked.Blocked(T)

    return plan


@pytest.mark.parametrize("part", range(4))
def test_solves_are_right_under_200_seeds(part):
    for seed in range(50 * part, 50 * part + 50):
        T = triangle(NAMES[seed % len(NAMES)], lower=seed % 16 < 8, seed=seed)
        b = values(T.n, "d", np.random.default_rng(seed))
        plan = strips(1 + seed % 4, ((2,), (8,), (16,))[seed // 9 % 3], WAYS[seed % 3])
        threads = (96, 128, 256)[seed // 3 % 3]
        solving.check(plan, T, b, seed=seed, resident=1 + seed % 3, strip_threads=threads)


@pytest.mark.parametrize("lower", [True, False])
def test_columns_of_a_grid_are_right_under_20_seeds(lower):
    T = cases.as_triangle(cases.triangle(cases.grid(40, 16), lower=lower), lower)

    def plan(T):
        with mock.patch.object(
            blocked, "predicted", lambda P, dtype: (0.0, blocked.columns(P, 8)[-1])
        ):
            plan = blocked.Blocked(T)
        assert plan.n_strips == 8
        return plan

    for seed in range(20):
        b = values(T.n, "d", np.random.default_rng(seed))
        solving.check(plan, T, b, seed=seed, resident=1 + seed % 3)


def test_where_all_strips_end_together_more_blocks_put_x_in_order():
    T = cases.as_triangle(cases.triangle(cases.grid(20, 16, 16)))
    cut = blocked.columns(T, 16)[-1]
    b, grids, prepare = values(T.n, "d", np.random.default_rng(4)), [], Scratch.prepare

    def noted(scratch, function, blocks, *arguments, **options):
        grids.append(blocks)
        return prepare(scratch, function, blocks, *arguments, **options)

    for seed in range(3):
        with (
            Device(seed=seed, blocks=40, resident=1 + seed),
            mock.patch.multiple(blocked, predicted=lambda P, dtype: (0.0, cut), LEFT=1),
            mock.patch.object(Scratch, "prepare", noted),
        ):
            x, in_place = np.empty(T.n), b.copy()
            plan = blocked.Blocked(T)
            plan.solve(x, b)
            plan.solve(in_place)
        assert (plan.n_strips, grids[-1]) == (16, 40)
        np.testing.assert_array_equal(in_place, x)
        assert reference.backward_error(dense_triangle(T), x, b) <= solving.BOUND


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("factors", "vector"), PAIRS)
def test_every_instantiation_solves(factors, vector, unit):
    launched = set()
    names = [name for name in NAMES if name != "diagonal"]
    for k, width in enumerate(blocked.WIDTHS[factors]):
        for columns in (1, columns_at_once(vector)):
            ways = WAYS if factors == vector != "D" else NOT_COPIED
            for seed, at_once in itertools.product(range(2), ways if columns == 1 else WAYS[:1]):
                T = triangle(names[(k + 3 * seed) % len(names)], k % 3 > 0, unit, factors, seed)
                shape = (T.n,) if columns == 1 else (T.n, columns + 1)
                b = values(np.prod(shape), vector, np.random.default_rng(k)).reshape(shape)
                plan = strips(widths=(width,), at_once=at_once)
                launched.update(solving.check(plan, T, b, seed=seed))
    begin = f"strips_solve<{VALUE_TYPES[factors]},{VALUE_TYPES[vector]},"
    end = f",{str(unit).lower()}>"
    expected = {k for k in INSTANTIATIONS["blocked"] if k.startswith(begin) and k.endswith(end)}
    assert {k for k in launched if k.startswith("strips_solve")} == expected


@pytest.mark.parametrize(("factors", "vector"), PAIRS)
@pytest.mark.parametrize("name", ["grid", "chain", "diagonal"])
@pytest.mark.parametrize("at_once", WAYS)
def test_nan_inf_and_the_mark_propagate_as_in_a_serial_solve(at_once, name, factors, vector):
    solving.check_odd_values(strips(at_once=at_once), name, factors, vector)


@pytest.mark.parametrize("at_once", WAYS)
def test_every_solve_of_one_plan_is_right(at_once):
    solving.check_repeats(strips(at_once=at_once))


@pytest.mark.parametrize("at_once", WAYS)
def test_a_solve_out_of_place_leaves_b_as_it_is(at_once):
    solving.check_out_of_place(strips(at_once=at_once))


@pytest.mark.parametrize("width", [2, 16])
@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("at_once", WAYS)
def test_each_column_of_a_block_has_the_bits_of_a_solve_alone(at_once, dtype, width):
    for seed, name in enumerate(("random", "grid", "arrow")):
        T = triangle(name, dtype=dtype, seed=seed)
        b = values(T.n * 5, dtype, np.random.default_rng(seed)).reshape(T.n, 5)
        plan = strips(widths=(width,), at_once=at_once)
        x, _ = solving.solve(plan, T, b, seed=seed)
        for k in range(5):
            alone, _ = solving.solve(plan, T, b[:, k].copy(), seed=seed)
            np.testing.assert_array_equal(x[:, k], alone)


@pytest.mark.parametrize("nrhs", [7, 40, 300])
def test_every_number_of_columns_comes_back_in_the_order_of_rows(nrhs):
    T = cases.as_triangle(cases.triangle(cases.grid(4, 5)))
    b = values(T.n * nrhs, "d", np.random.default_rng(nrhs)).reshape(T.n, nrhs)
    x, launched = solving.solve(strips(at_once=blocked.AT_ONCE[1]), T, b)
    assert "strips_scatter<double,4>" in launched
    assert reference.backward_error(dense_triangle(T), x, b) <= solving.BOUND


def test_columns_are_solved_alone_where_there_is_no_room_for_several():
    T = triangle("random", dtype="D")
    b = values(T.n * 3, "D", np.random.default_rng(0)).reshape(T.n, 3)
    plan = strips(widths=(2,))
    x, launched = solving.solve(plan, T, b, shared_bytes=20 << 10)
    assert {k.split(",")[4] for k in launched if k.startswith("strips_solve")} == {"1"}
    np.testing.assert_array_equal(x, solving.solve(plan, T, b)[0])


def cyclic_plan(T):
    """Strips of a chain of which the last waits, in its first row, for its last row."""
    plan = strips()(T)
    assert len(plan._far_position) == 2
    plan._far_position[1] = T.n - 1
    return plan


def test_a_cycle_is_a_deadlock_that_names_who_waits_for_what():
    solving.check_deadlock(cyclic_plan, "y at byte")


def test_an_abandoned_solve_drains_with_nan_and_the_next_one_is_right():
    T = triangle("chain")
    solving.check_drained(cyclic_plan, -(-2 * T.n // 3))  # from the last strip on
    solving.check(strips(), T, np.ones(T.n))


def test_what_records_hold_is_held_apart_only_once_it_is_needed_and_then_updated_too():
    T = cases.as_triangle(cases.triangle(cases.grid(12, 40)))
    b = values(3 * T.n, "d", np.random.default_rng(2)).reshape(T.n, 3)
    with Device():
        plan = strips(3, (2,), blocked.COPIED)(T)
        x, y = b[:, 0].copy(), b.copy()
        plan.solve(x)
        assert plan._values is None
        plan.solve(y)
        assert plan._values is not None
        np.testing.assert_array_equal(y[:, 0], x)
        T.data[...] *= 0.5
        plan.refresh()
        after, columns = b[:, 0].copy(), b.copy()
        plan.solve(after)
        plan.solve(columns)
    np.testing.assert_array_equal(columns[:, 0], after)
    assert not np.array_equal(after, x)
    assert reference.backward_error(dense_triangle(T), after, b[:, 0]) <= solving.BOUND


ANY = (RaceError, AddressError, AssertionError, DeadlockError, EndlessError)

FAULTS = {
    "copies that are not waited for": ("copy_async_wait<AHEAD - 2>();", "", ANY),
    "copies waited for too late": (
        "copy_async_wait<AHEAD - 2>();",
        "copy_async_wait<AHEAD - 1>();",
        ANY,
    ),
    "no barrier of the warp after a wait for copies": (
        "copy_async_wait<AHEAD - 2>();\n        __syncwarp();",
        "copy_async_wait<AHEAD - 2>();",
        (RaceError, AddressError),
    ),
    "copies into the ring that do not wait for its place": (
        "!await_place(u32(next), desk, launch, patience)) break;",
        "false) break;",
        ANY,
    ),
    "the ring filled without a release": (
        "store_release_shared(hall.filled + at,",
        "store_relaxed_shared(hall.filled + at,",
        (RaceError, AddressError),
    ),
    "the ring copied into without a release": (
        "store_release_shared(flag, (q + 1)",
        "store_relaxed_shared(flag, (q + 1)",
        (RaceError, AddressError),
    ),
    "the ring read without an acquire, by fours": (
        "    if (LOOK)\n        filled = load_acquire_shared(flag);",
        "    if (LOOK)\n        filled = load_relaxed_shared(flag);",
        (RaceError, AddressError),
    ),
    "the ring read without an acquire, one by one": (
        "const u32 filled = load_acquire_shared(flag);",
        "const u32 filled = load_relaxed_shared(flag);",
        (RaceError, AddressError),
    ),
    "the ring waited for without an acquire": (
        "look_ahead(load_acquire_shared(flag), at.q, lane);\n    }\n    take(",
        "look_ahead(load_relaxed_shared(flag), at.q, lane);\n    }\n    take(",
        (RaceError, AddressError),
    ),
    "four steps waited for without an acquire": (
        "look_ahead(load_acquire_shared(places.flag(at.q + lane)), at.q, lane);\n    return",
        "look_ahead(load_relaxed_shared(places.flag(at.q + lane)), at.q, lane);\n    return",
        (RaceError, AddressError),
    ),
    "the ring freed before it is read, one by one": (
        "    u32 done = 0;\n",
        "    u32 done = 0;\n    if (lane == 0) places.free_four(at.q + 4);\n",
        ANY,
    ),
    "the ring freed before it is read, by fours": (
        "        const Round<V, K, C> after = places.round(at.q + 4);\n",
        "        const Round<V, K, C> after = places.round(at.q + 4);\n"
        "        if (lane == 0) places.free_four(at.q + 4);\n",
        ANY,
    ),
    "a use of a place taken for the one before": (
        "return (q & (mask + 1)) != 0;",
        "return false;",
        ANY,
    ),
    "no barrier of the warp between a step and the next": (
        "        __syncwarp();\n    }\n\n    __device__ void tell",
        "    }\n\n    __device__ void tell",
        (RaceError, AddressError),
    ),
    "a step behind that is taken unseen": (
        "const bool held = at.ahead.holds(L + 1);",
        "const bool held = at.q + L + 1 < count;",
        (RaceError, AddressError, AssertionError, DeadlockError),
    ),
    "four steps taken unseen": (
        "return (held >> 1 & MASK) == MASK && !(divide & MASK);",
        "return held && !(divide & MASK);",
        (RaceError, AddressError, AssertionError, DeadlockError, EndlessError),
    ),
    "places of the first four of eight never freed": (
        "    if (lane == 0) places.free_four(at.q);\n}",
        "    if (LOOK && lane == 0) places.free_four(at.q);\n}",
        (DeadlockError, EndlessError, AssertionError),
    ),
    "a lane that reads what another acquired": (
        "    __syncwarp();\n    return ahead;",
        "    return ahead;",
        (RaceError, AddressError),
    ),
    "strips by block instead of by ticket": (
        "hall.ticket = take_ticket(launch);",
        "hall.ticket = blockIdx.x + gridDim.x * patience.past.seen++;",
        DeadlockError,
    ),
    "terms added up before all are there": (
        "        __syncwarp(); // all terms are there\n",
        "",
        (RaceError, AddressError, AssertionError),
    ),
    "terms overwritten before they are read": (
        "        __syncwarp(); // and have been read\n",
        "",
        (RaceError, AddressError, AssertionError),
    ),
    "x read without waiting for each of its values": (
        "        __syncthreads();\n        await(slot, wanted, value, launch, patience, lane);\n",
        "        __syncthreads();\n"
        "        for (int e = 0; e < LEFT; ++e)\n"
        "            if (wanted >> e & 1u) value[e] = *slot[e];\n",
        (RaceError, AddressError),
    ),
    "the ring not waited for": (
        "load_acquire_shared(&hall.swept) + ring.mask < q",
        "false",
        (RaceError, AddressError, AssertionError, DeadlockError),
    ),
}


STRIPS = "strips_copied", "strips_shared", "strips_leave", "strips"
FILES = (*(f"{name}.cuh" for name in ("sweep", *STRIPS)), "blocked.cu")

# What only gatherers that copy have, or only those that do not; of strips_copied.cuh apart.
COPYING, OTHERS, SHARING = (blocked.COPIED,), (5,), (blocked.SHARED_OUT,)
ONLY = {
    "the ring filled without a release": OTHERS,
    "the ring not waited for": OTHERS,
    "four steps waited for without an acquire": COPYING,
    "a use of a place taken for the one before": COPYING,
    "places of the first four of eight never freed": COPYING,
    "terms added up before all are there": SHARING,
    "terms overwritten before they are read": SHARING,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault):
    right, wrong, errors = FAULTS[fault]
    texts = sources()
    file = next(name for name in FILES if right in texts[name])
    texts[file] = texts[file].replace(right, wrong)
    others = (f"strips_{kernel}<double>" for kernel in ("enter", "refresh", "entries"))
    both = COPYING if file == "strips_copied.cuh" else COPYING + OTHERS
    at_once = ONLY.get(fault, both)
    solves = (f"strips_solve<double,double,2,{far},1,false>" for far in at_once)
    kernels = (*solves, *others, "strips_scatter<double,1>", "strips_records<double,2>")
    unit = emulator.compile_unit("blocked", kernels, texts)
    pattern = cases.layered(12, 40) if fault.startswith("terms") else cases.grid(12, 40)
    T = cases.as_triangle(cases.triangle(pattern))
    for few in at_once:
        with pytest.raises(errors):
            check_seeds(unit, T, few)


def check_seeds(unit, T, at_once):
    for seed in range(96):
        device = {"seed": seed, "resident": 1 + seed % 2, "units": {"blocked": unit}}
        solving.check(strips(3, (2,), at_once), T, np.ones(T.n), **device)
