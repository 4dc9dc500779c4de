"""Markers, and the folder of real matrices that GPUILU_MATRICES names."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest


def matrices_folder() -> Path | None:
    """The folder named by GPUILU_MATRICES, if it holds a MANIFEST.tsv."""
    folder = Path(os.environ.get("GPUILU_MATRICES", ""))
    return folder if (folder / "MANIFEST.tsv").is_file() else None


def manifest() -> list[dict[str, str]]:
    """Rows of the manifest; empty without the folder."""
    folder = matrices_folder()
    if folder is None:
        return []
    with open(folder / "MANIFEST.tsv", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


@pytest.fixture(scope="session")
def matrices() -> Path:
    """The folder of real matrices, or a skip that says how to have it."""
    folder = matrices_folder()
    if folder is None:
        pytest.skip("GPUILU_MATRICES names no folder with a MANIFEST.tsv")
    return folder
