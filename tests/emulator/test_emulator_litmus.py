"""The emulator itself: what is right passes under every seed, what is wrong is caught."""

from __future__ import annotations

from pathlib import Path

import emulator
import numpy as np
import pytest
from emulated import needs_compiler
from emulator import AddressError, CollectiveError, DeadlockError, RaceError

from gpuilu.backend.compile import sources

pytestmark = needs_compiler

SEEDS = 40
BLOCKS = 4
UNORDERED = (RaceError, AddressError)  # shared memory may be read before anything is in it
FAULTS = {
    "by_release": {1: RaceError, 2: RaceError, 3: RaceError, 4: RaceError},
    "by_warp": {1: RaceError, 2: RaceError},
    "by_fence": {1: RaceError, 2: RaceError, 3: RaceError},
    "two_words": {1: AssertionError},
    "last_block": {1: RaceError},
    "neighbours": {1: UNORDERED, 2: UNORDERED, 3: UNORDERED},
    "neighbour_threads": {1: UNORDERED, 2: CollectiveError},
    "votes": {1: CollectiveError, 2: CollectiveError, 3: CollectiveError, 4: CollectiveError},
    "in_turn": {1: DeadlockError},
    "bounds": {1: AddressError, 2: AddressError, 3: AddressError},
}
# Found whatever the schedule is; the others by some schedules.
ALWAYS = ("by_release", "by_warp", "by_fence", "neighbours", "votes", "bounds")


@pytest.fixture(scope="module")
def litmus():
    text = (Path(__file__).parent / "faults" / "litmus.cu").read_text()
    kernels = tuple(f"{name}<{k}>" for name in FAULTS for k in (0, *FAULTS[name]))
    return emulator.compile_unit("litmus", kernels, sources() | {"litmus.cu": text})


def words(n):
    return np.zeros(n, np.uint32)


def run(litmus, name, fault, seed):
    """Launch and compare with what is right."""
    kernel = litmus[f"{name}<{fault}>"]
    lanes = np.arange(64, dtype=np.uint32)
    out = words(64 if name == "neighbour_threads" else 32)

    def launch(grid, block, *arguments):
        kernel.launch(grid, block, (*arguments, out), seed=seed, resident=2)

    if name in ("by_release", "by_warp", "by_fence", "two_words"):
        launch(2, 32 if name == "by_warp" else 1, words(1), words(1))
        assert out[1] == 42
    elif name == "last_block":
        launch(BLOCKS, 1, words(BLOCKS), words(1))
        assert out[0] == 6
    elif name == "in_turn":
        launch(2 * BLOCKS, 1, words(1), words(2 * BLOCKS))
        assert np.array_equal(out[: 2 * BLOCKS], lanes[1 : 2 * BLOCKS + 1])
    elif name == "votes":
        launch(1, 32)
        assert np.array_equal(out, np.append(lanes[1:32], 31) + 16)
    elif name == "bounds":
        launch(1, 1)
    else:
        launch(1, len(out))
        assert np.array_equal(out, 3 * np.roll(lanes[: len(out)], -1))


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_right_passes(litmus, name):
    for seed in range(SEEDS):
        run(litmus, name, 0, seed)


@pytest.mark.parametrize(
    ("name", "fault", "error"), [(n, k, error) for n in FAULTS for k, error in FAULTS[n].items()]
)
def test_what_is_wrong_is_caught(litmus, name, fault, error):
    caught = 0
    for seed in range(SEEDS):
        try:
            run(litmus, name, fault, seed)
        except error:
            caught += 1
    assert caught == SEEDS if name in ALWAYS else caught > 0


def test_a_race_names_both_accesses_and_the_array(litmus):
    with pytest.raises(RaceError) as caught:
        run(litmus, "by_release", 1, 0)
    text = str(caught.value)
    assert "data at byte 0 (element 0)" in text
    assert text.count("litmus.cu:") == 2
    assert "block 0" in text
    assert "block 1" in text


def test_a_deadlock_names_the_blocks_that_have_not_started(litmus):
    with pytest.raises(DeadlockError) as caught:
        run(litmus, "in_turn", 1, 1)  # blocks in reverse order
    text = str(caught.value)
    assert "flag at byte" in text
    assert "6 blocks have not started (2 fit at once)" in text


def test_arguments_of_the_wrong_size_are_refused(litmus):
    with pytest.raises(TypeError, match="takes arguments"):
        litmus["votes<0>"].launch(1, 32, (1,))


def test_a_source_that_does_not_compile_raises_with_the_compilers_words():
    with pytest.raises(emulator.EmulatorError, match="no_such_kernel"):
        emulator.compile_unit("levels", ("no_such_kernel<1>",), sources())
