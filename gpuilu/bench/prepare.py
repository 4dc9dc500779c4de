"""A ahead of time: cases are built by processes side by side and read back from a folder.

All are built before anything is timed, so that the timing has the machine to itself.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gpuilu.bench.cases import VERSION, Case, named
from gpuilu.errors import require_integer

__all__ = ["Store", "prepared"]

Progress = Callable[[str], None]


class Store:
    """Built cases in a folder, one file each."""

    def __init__(self, folder: str | Path, scale: float) -> None:
        self.folder = Path(folder)
        self.scale = scale

    def load(self, case: Case) -> sp.csr_array:
        """The matrix of a case: read if it is there, else built and kept."""
        path = self._path(case)
        try:
            with np.load(path) as stored:
                arrays = stored["data"], stored["indices"], stored["indptr"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return self._built(case, path)
        n = len(arrays[2]) - 1
        return sp.csr_array(arrays, shape=(n, n))

    def __contains__(self, case: Case) -> bool:
        return self._path(case).exists()

    def _built(self, case: Case, path: Path) -> sp.csr_array:
        A = case.build(self.scale)
        if "files" not in case.groups:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".npz", delete=False) as file:
                np.savez(file, data=A.data, indices=A.indices, indptr=A.indptr)
            os.replace(file.name, path)
        return A

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.name.replace('/', '_')}-{VERSION}-{self.scale:g}.npz"


@contextlib.contextmanager
def prepared(
    cases: Sequence[Case],
    scale: float = 1.0,
    *,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Progress = lambda text: None,
) -> Iterator[Store]:
    """Build all cases, `jobs` at a time; without a folder they are kept in a temporary one.

    Parameters
    ----------
    cases : sequence of Case
    scale : float
    folder : path, optional
        Where built cases are looked for and kept.
    jobs : int, optional
        Processes; by default one for each core, and none for a single case. With one job a case is
        built when it is wanted.
    progress : callable
        Told a line for each case built.
    """
    jobs = os.cpu_count() or 1 if jobs is None else require_integer("jobs", jobs)
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuilu-bench-"))
        store = Store(folder, scale)
        wanted = [c for c in cases if "files" not in c.groups and c not in store]
        if min(jobs, len(wanted)) > 1:
            _build_all(store, wanted, jobs, progress)
        yield store


def _build_all(store: Store, cases: Sequence[Case], jobs: int, progress: Progress) -> None:
    spawn = multiprocessing.get_context("spawn")  # a forked process must not touch CUDA
    workers = min(jobs, len(cases))
    progress(f"building {len(cases)} cases in {workers} processes")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        futures = {
            pool.submit(_build, case.name, str(store.folder), store.scale): case for case in cases
        }
        for future in concurrent.futures.as_completed(futures):
            future.result()
            progress(f"built {futures[future].name}")


def _build(name: str, folder: str, scale: float) -> None:
    Store(folder, scale).load(named(name))
