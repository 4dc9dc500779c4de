"""Status words of launches: each object has its own, told once, and hands it back."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from gpuilu.backend import held_bytes, scratch
from gpuilu.errors import SolveStalledError


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    """Pages of ordinary memory, none of them there yet."""
    runtime = SimpleNamespace(alloc_pinned_memory=bytearray)
    monkeypatch.setattr(scratch, "cupy", lambda: SimpleNamespace(cuda=runtime))
    monkeypatch.setattr(scratch, "_free_words", [])
    monkeypatch.setattr(scratch, "_pages", [])
    return scratch._pages


def test_many_launchers_share_a_page_and_each_counts_its_word_alone(pages):
    launchers = [scratch.Launcher() for _ in range(1024)]
    assert len(pages) == 1
    assert len({launcher._status.ctypes.data for launcher in launchers}) == 1024
    assert held_bytes(launchers) == 4 * 1024
    launchers.append(scratch.Launcher())
    assert len(pages) == 2


def test_a_stalled_launch_is_told_once_and_to_its_own_object():
    stalled, other = scratch.Launcher(), scratch.Launcher()
    stalled._status[0] = 1
    other.raise_if_stalled()
    with pytest.raises(SolveStalledError):
        stalled.raise_if_stalled()
    stalled.raise_if_stalled()


def test_the_word_of_an_object_that_is_gone_is_used_again_and_cleared(pages):
    launcher = scratch.Launcher()
    word = launcher._status
    word[0] = 1
    del launcher
    gc.collect()
    again = scratch.Launcher()
    assert again._status is word
    again.raise_if_stalled()
    assert len(pages) == 1
