"""No kernel goes without the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuilu.backend.compile import families


@pytest.mark.parametrize("family", families())
def test_every_kernel_family_has_an_emulator_test(family):
    test = Path(__file__).parent / f"test_emulator_{family}.py"
    assert test.is_file(), f"{family}.cu needs a {test.name} that runs it on the emulator"
