"""Markers, and the folder of real matrices that GPUILU_MATRICES names."""

from __future__ import annotations

import csv
import faulthandler
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Workers of pytest-xdist must not fill one cache of compiled loops at the same time.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["NUMBA_CACHE_DIR"] = f"{tempfile.gettempdir()}/gpuilu-numba-{worker}"

from gpuilu.backend import cuda


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


GPU_TESTS = Path(__file__).parent / "gpu"
LIMIT_S = 180


def pytest_configure(config: pytest.Config) -> None:
    """Workers side by side have one BLAS thread each.

    With all cores for each, a dot product of 14,000 numbers takes a hundred times as long.
    """
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in the folder `gpu` need a card."""
    for item in items:
        if GPU_TESTS in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the process when a GPU test hangs: a timer in C, which no blocked call can hold up.

    With ``-n 1`` the test fails, and the rest runs in a new process.
    """
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def cp() -> Any:
    """CuPy, where there is a device."""
    if not cuda.available():
        pytest.skip("there is no CUDA device that CuPy can use")
    return cuda.cupy()


@pytest.fixture(scope="session")
def csp(cp: Any) -> Any:
    """cupyx.scipy.sparse, where there is a device."""
    return pytest.importorskip("cupyx.scipy.sparse")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device in turn; a skip where there is no GPU."""
    if request.param == "cuda" and not cuda.available():
        pytest.skip("there is no CUDA device that CuPy can use")
    return str(request.param)
