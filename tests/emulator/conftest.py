"""Without a compiler that the emulator knows, its tests are skipped."""

from __future__ import annotations

import emulator
import pytest


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    reason = emulator.why_not()
    if reason:
        pytest.skip(reason)
