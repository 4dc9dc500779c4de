"""Faults planted in the package's own kernels: each must be caught under some seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from unittest import mock

import cases
import emulator
import numpy as np
import pytest
import reference
import solving
from emulated import Device, needs_compiler, sources
from emulator import AddressError, CollectiveError, DeadlockError, RaceError
from emulator_systems import dense_triangle, matrix, odd_values, triangle, values

from gpuilu import dag
from gpuilu.factor.ilu0 import ILU0, OK, _max_abs
from gpuilu.trsv import row, strips_grow
from gpuilu.trsv.selfsched_col import SelfScheduledColumns
from gpuilu.trsv.selfsched_row import SelfScheduledRows
from gpuilu.trsv.serial import Serial
from gpuilu.trsv.syncfree import SyncFree

pytestmark = needs_compiler

SEEDS = 24
WRONG = AssertionError  # the result
UNORDERED = (RaceError, AddressError)  # shared memory may be read before anything is in it


def levels(unit, seed):
    T = triangle(("chain", "grid")[seed % 2], seed=seed)
    with Device(seed=seed, units={"levels": unit}, blocks=4, resident=1 + seed // 2 % 2):
        depth, _ = dag._depths_cuda(T)
    assert np.array_equal(depth, dag.levels(T).level + 1)


def levels_of_short_chain(unit, seed):
    T = cases.as_triangle(cases.triangle(cases.gaps(60)))
    with Device(seed=seed, units={"levels": unit}):
        assert np.array_equal(dag._depths_cuda(T)[0], dag.levels(T).level + 1)


def grown(unit, seed):
    T = cases.as_triangle(cases.triangle(cases.mesh(300)))
    small = {"DEEPEST": 4, "TOGETHER": 2, "REACH": 3, "MEAN_ROWS": 20}
    with mock.patch.multiple(strips_grow, **small):
        expected = strips_grow.grow(T, dag.levels(T))
        with Device(seed=seed, units={"strips_grow": unit}, blocks=4, resident=1 + seed % 2):
            strips = strips_grow._grow_cuda(T, dag.levels(T))
    assert np.array_equal(strips.of_row, expected.of_row)


def ilu0(unit, seed, zero_pivot=None, boost=0.0):
    A = matrix("grid")
    if zero_pivot is not None:
        A.data[A.indptr[zero_pivot] : A.indptr[zero_pivot + 1]] = 0.0
    symbolic = ILU0(A)
    ours, cpu = A.data.copy(), A.data.copy()
    with Device(seed=seed, units={"ilu0": unit}):
        told = symbolic._eliminate_cuda(ours, boost, _max_abs(A.data))
    assert told[:2] == symbolic._eliminate(cpu, boost)[:2]
    assert told[0] != OK or np.array_equal(ours, cpu)


def failed_row(unit, seed):
    ilu0(unit, seed, zero_pivot=20)


def boosted(unit, seed):
    ilu0(unit, seed, zero_pivot=20, boost=1e-8)


def solve(unit, seed, dtype="d", reset=("control", "data"), solves=1):
    T = triangle("grid", dtype=dtype)
    with (
        mock.patch.object(row, "_lanes", return_value=2),
        Device(seed=seed, units={"row": unit}, reset=reset),
    ):
        plan = row.Row(T)
        for k in range(solves):
            b = values(T.n, dtype, np.random.default_rng(k))
            x = b.copy()
            plan.solve(x)
            assert reference.backward_error(dense_triangle(T), x, b) <= 4


def solve_complex(unit, seed):
    solve(unit, seed, "D")


def solve_marks(unit, seed):
    T = triangle("grid")
    b = odd_values(T.n, "d")
    with mock.patch.object(row, "_lanes", return_value=2), Device(seed=seed, units={"row": unit}):
        x = b.copy()
        row.Row(T).solve(x)
    expected = b.copy()
    with np.errstate(all="ignore"):
        Serial(T).solve(expected)
    assert np.array_equal(np.isnan(x), np.isnan(expected))


def scheduled_rows(unit, seed):
    T = triangle("grid")
    units = {"selfsched_row": unit}
    solving.check(SelfScheduledRows, T, np.ones(T.n), seed=seed, units=units)


def scheduled_columns(unit, seed):
    T = triangle("grid")
    units = {"selfsched_col": unit}
    solving.check(SelfScheduledColumns, T, np.ones((T.n, 3)), seed=seed, units=units)


def syncfree(unit, seed):
    T = triangle("grid")
    units = {"syncfree": unit}
    solving.check(SyncFree, T, np.ones(T.n), seed=seed, resident=1 + seed % 2, units=units)


def rows(value):
    return (
        "row",
        f"row_solve<{value},{value},2,2,false>",
        f"reciprocals<{value}>",
    )


KERNELS = {
    levels: ("levels", "row_depths<true,4>"),
    levels_of_short_chain: ("levels", "row_depths<true,4>"),
    grown: (
        "strips_grow",
        *("begin_words", "grow_patches<true>", "begin_patches", "begin_strips", "note_strips"),
    ),
    ilu0: ("ilu0", "ilu0_factor<double>"),
    failed_row: ("ilu0", "ilu0_factor<double>"),
    boosted: ("ilu0", "ilu0_factor<double>"),
    solve: rows("double"),
    solve_marks: rows("double"),
    solve_complex: rows("gpuilu::Complex<double>"),
    syncfree: ("syncfree", "syncfree_solve<double,double,true>"),
    scheduled_rows: ("selfsched_row", "selfsched_rows<double,double,1>"),
    scheduled_columns: ("selfsched_col", "selfsched_columns<double,double,false>"),
}


@dataclass(frozen=True)
class Fault:
    """In a file, `old` replaced by `new`; what runs it; what must come of it."""

    name: str
    run: object
    error: type | tuple
    file: str
    old: str
    new: str

    def texts(self):
        """The package's sources with this fault; white space in `old` stands for any."""
        texts = sources()
        old = r"\s+".join(map(re.escape, self.old.split()))
        text, found = re.subn(old, lambda _: self.new, texts[self.file])
        assert found, f"{self.file} has changed: plant this fault elsewhere"
        return texts | {self.file: text}


POLL = "load_relaxed(from + h)"
FAULTS = [
    Fault(
        "missing release", ilu0, RaceError, "sync.cuh", "store_release(flag", "store_relaxed(flag"
    ),
    Fault(
        "missing acquire", ilu0, RaceError, "sync.cuh", "load_acquire(flag)", "load_relaxed(flag)"
    ),
    Fault(
        "no __syncwarp after the pivot was mended",
        *(boosted, RaceError, "ilu0.cu", "i, report); __syncwarp();", "i, report);"),
    ),
    Fault(
        "plain load of published values",
        *(solve, RaceError, "marks.cuh", POLL),
        "*const_cast<const volatile Word*>(from + h)",
    ),
    Fault(
        "cached load of published values",
        *(solve, RaceError, "marks.cuh", POLL),
        "__ldg(from + h)",
    ),
    Fault(
        "plain store of a published value",
        *(solve, RaceError, "marks.cuh", "store_relaxed_if(stores, to + h, w[h]);"),
        "if (stores) to[h] = w[h];",
    ),
    Fault(
        "no __syncwarp before a store to what all lanes read",
        *(ilu0, RaceError, "ilu0.cu", "__syncwarp(); // every lane has read a_ik", ""),
    ),
    Fault(
        "no __syncwarp before a load of what other lanes stored",
        *(ilu0, RaceError, "ilu0.cu"),
        *("__syncwarp(); // the next k reads what any lane has written", ""),
    ),
    Fault(
        "vote mask without the last lane",
        *(solve, CollectiveError, "sync.cuh"),
        *("__any_sync(FULL_WARP, asked.p", "__any_sync(0x7fffffffu, asked.p"),
    ),
    Fault(
        "lanes that leave before a vote that names them",
        *(solve, CollectiveError, "sync.cuh", "asked.pending = wanted;"),
        "asked.pending = wanted; if (wanted == 0) return;",
    ),
    Fault(
        "runs taken by warps in the order in which they start",
        *(levels, DeadlockError, "levels.cu", "lane == 0 ? take_ticket(launch) : 0"),
        "(blockIdx.x + gridDim.x * patience.past.seen++) * blockDim.x / 32 + threadIdx.x / 32",
    ),
    Fault(
        "plain store of a depth that others poll",
        *(levels, RaceError, "levels.cu", "store_relaxed(depth + i, u32(mine))"),
        "depth[i] = u32(mine)",
    ),
    Fault(
        "plain store of a word that other blocks poll",
        *(grown, RaceError, "chunk.cuh", "store_relaxed(said + i, word)", "said[i] = word"),
    ),
    Fault(
        "plain store of a word that others of the block poll",
        *(grown, RaceError, "chunk.cuh", "store_relaxed_shared(local + threadIdx.x, word)"),
        "local[threadIdx.x] = word",
    ),
    Fault(
        "plain load of a word of another block",
        *(grown, RaceError, "chunk.cuh", "load_relaxed(said + j)", "said[j]"),
    ),
    Fault(
        "no barrier before the words of the chunk before are removed",
        *(grown, (RaceError, WRONG, DeadlockError), "chunk.cuh"),
        *("__syncthreads(); // the chunk before is finished with `local`", ""),
    ),
    Fault(
        "no barrier after they are removed",
        *(grown, UNORDERED, "chunk.cuh"),
        *("local[threadIdx.x] = 0; __syncthreads();", "local[threadIdx.x] = 0;"),
    ),
    Fault(
        "chunks taken by blocks in the order in which they start",
        *(grown, DeadlockError, "chunk.cuh", "shared_ticket = take_ticket(launch);"),
        "shared_ticket = blockIdx.x + gridDim.x * patience.past.seen++;",
    ),
    Fault(
        "a patch that two are taken for",
        *(grown, WRONG, "strips_grow.cu", "one && patch_of(found) == patch_of(latest)", "one"),
    ),
    Fault(
        "a patch deeper than it may be",
        *(grown, WRONG, "strips_grow.cu", "depth_of(latest) < deepest", "true"),
    ),
    Fault(
        "a patch that reaches further than it may",
        *(grown, WRONG, "strips_grow.cu", "away <= reach && -away <= reach", "true"),
    ),
    Fault(
        "a chain taken to begin with the run",
        *(levels_of_short_chain, WRONG, "levels.cu", "lane - o >= inside.start", "lane >= o"),
    ),
    Fault(
        "a row inside the run that is not waited for",
        *(levels, WRONG, "levels.cu", "(on & ((1u << inside.start) - 1)) == 0", "true"),
    ),
    Fault(
        "plain store to shared memory that others poll",
        *(syncfree, RaceError, "syncfree.cu"),
        "add_relaxed_shared(sums.own_counts + k, 1u);",
        "sums.own_counts[k]++;",
    ),
    Fault(
        "no barrier before shared memory that others initialise",
        *(syncfree, UNORDERED, "syncfree.cu", "own_counts[threadIdx.x] = 0; __syncthreads();"),
        "own_counts[threadIdx.x] = 0;",
    ),
    Fault(
        "a failed row is not published",
        *(failed_row, DeadlockError, "ilu0.cu", "set_flag(finished + i, lane);"),
        "if (!is_zero(LU[d])) set_flag(finished + i, lane);",
    ),
    Fault(
        "a mark is stored as it is",
        *(solve_marks, DeadlockError, "marks.cuh"),
        *("if (w[h] == Word(~Word(0))) w[h] = Words<V>::nan;", ""),
    ),
    Fault(
        "only the first half of a complex value is awaited",
        *(solve_complex, WRONG, "sync.cuh"),
        *("ready = ready && w[r][h] != Word(~Word(0));", "ready = ready && (h || w[r][h] + 1);"),
    ),
    *(
        Fault(name, run, WRONG, *where)
        for run in (scheduled_rows, scheduled_columns)
        for name, *where in (
            ("no fence before a count", "substitution.cuh", "fence_device();", ""),
            (
                "relaxed poll of a count",
                "sync.cuh",
                "load_acquire(counter)",
                "load_relaxed(counter)",
            ),
        )
    ),
    Fault(
        "no __syncwarp before the fence for other lanes",
        *(scheduled_columns, WRONG, "substitution.cuh", "__syncwarp(); fence_device();"),
        "fence_device();",
    ),
    Fault(
        "no __syncwarp before x_j is stored",
        *(scheduled_columns, WRONG, "substitution.cuh"),
        *("__syncwarp(); // every lane has read x_j", ""),
    ),
    Fault(
        "no barrier between two turns",
        *(scheduled_rows, UNORDERED, "substitution.cuh", "++turn; __syncthreads();", "++turn;"),
    ),
    Fault(
        "no fence before a count in the block",
        *(syncfree, RaceError, "syncfree.cu", "INSIDE ? fence_block() : fence_device();"),
        "if (!INSIDE) fence_device();",
    ),
    Fault(
        "no fence before a count beyond the block",
        *(syncfree, WRONG, "syncfree.cu", "INSIDE ? fence_block() : fence_device();"),
        "fence_block();",
    ),
    Fault(
        "columns taken by blocks in the order in which they start",
        *(syncfree, DeadlockError, "syncfree.cu", "ticket = take_ticket(launch);"),
        "ticket = blockIdx.x;",
    ),
]


def caught_by(run, unit, error, **how):
    """The first seed whose run raises what it must, or None."""
    for seed in range(SEEDS):
        try:
            run(unit, seed, **how)
        except error:
            return seed
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_planted_fault_is_caught(fault):
    family, *kernels = KERNELS[fault.run]
    unit = emulator.compile_unit(family, tuple(kernels), fault.texts())
    assert caught_by(fault.run, unit, fault.error) is not None


@pytest.mark.parametrize("run", KERNELS, ids=lambda run: run.__name__)
def test_without_a_fault_the_same_runs_pass(run):
    family, *kernels = KERNELS[run]
    unit = emulator.compile_unit(family, tuple(kernels), sources())
    for seed in range(SEEDS):
        run(unit, seed)


@pytest.mark.parametrize("reset", [("control",), ("data",)], ids=["marks", "ticket"])
def test_what_is_not_reset_before_a_second_launch_shows(reset):
    family, *kernels = KERNELS[solve]
    unit = emulator.compile_unit(family, tuple(kernels), sources())
    solve(unit, 0, reset=reset)
    assert caught_by(solve, unit, WRONG, reset=reset, solves=2) is not None
