"""What runs in a process of its own comes back, or says why not."""

from __future__ import annotations

import os
import time

import pytest

from gpuilu.bench.apart import apart


def test_what_a_function_returns_comes_back():
    assert apart(divmod, 7, 2, seconds=120) == (3, 1)


def test_what_a_function_raises_is_told():
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError: .*by zero"):
        apart(divmod, 7, 0, seconds=120)


def test_a_function_that_does_not_come_back_is_ended():
    start = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"not back after 0\.5 seconds"):
        apart(time.sleep, 600, seconds=0.5)
    assert time.perf_counter() - start < 60


def test_a_process_that_ends_without_a_word_is_an_error():
    with pytest.raises(RuntimeError, match="without a word"):
        apart(os._exit, 3, seconds=120)
