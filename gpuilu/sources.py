"""SOURCE -> A: Matrix Market and Harwell-Boeing files, Laplacians on grids, the matrices of pyamg.

A file's counts are checked against what it holds before anything is allocated from them.
"""

from __future__ import annotations

import gzip
import inspect
import math
import zlib
from collections.abc import Callable
from functools import reduce
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from gpuilu.csr import INDEX_MAX, canonical
from gpuilu.errors import (
    BackendUnavailableError,
    GpuiluError,
    InvalidMatrixError,
    OptionError,
    ShapeMismatchError,
)

__all__ = ["SOURCES", "laplacian", "load", "load_rhs"]

SOURCES = "FILE.mtx[.gz], FILE.rua, laplacian2d:512, laplacian3d:64x64x128 or pyamg:NAME"

# Fewest characters of a value with its line end: "1\n". A coordinate entry has "1 1 " before it.
SHORTEST = {"real": 2, "integer": 2, "unsigned-integer": 2, "complex": 4, "pattern": 0}
# Rows beyond those that entries can fill: a file may have empty rows, but not mainly.
EMPTY_ROWS = 1_000_000
CHUNK = 1 << 20


def load(source: str) -> sp.csr_array:
    """The matrix that SOURCE names, as canonical CSR.

    Parameters
    ----------
    source : str
        A Matrix Market file (also gzipped), a Harwell-Boeing file (real unsymmetric, what SciPy
        reads), ``laplacian2d:512``, ``laplacian2d:64x128``, ``laplacian3d:64x64x128``, or
        ``pyamg:NAME``.

    Returns
    -------
    A : csr_array, shape (n, n)

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such file, or it cannot be read.
    InvalidMatrixError
        If a file is malformed, truncated, not a matrix or not square.
    OptionError
        If a grid or a name is not understood.
    BackendUnavailableError
        If pyamg is not installed.
    """
    kind, colon, rest = source.partition(":")
    if colon and kind in GENERATED:
        A = GENERATED[kind](rest)
    else:
        A = _read(source)
    C = canonical(A if sp.issparse(A) else sp.csr_array(A))
    return sp.csr_array((C.data, C.indices, C.indptr), shape=(C.n, C.n))


def load_rhs(path: str) -> np.ndarray:
    """The right-hand side in a Matrix Market file, dense or sparse, as an array of shape (n,).

    Raises
    ------
    FileNotFoundError, OSError, InvalidMatrixError
        As for `load`.
    ShapeMismatchError
        If it is not a single column or row.
    """
    b = _read(path)
    if min(b.shape) != 1:
        raise ShapeMismatchError(f"{path}: expected a single column, found shape {b.shape}")
    return (b.toarray() if sp.issparse(b) else b).ravel()


# ---- grids and galleries ------------------------------------------------------------------------


def laplacian(shape: tuple[int, ...]) -> sp.csr_array:
    """-Δ by second differences on a grid, zero on its boundary; the first size varies fastest."""
    lines = [
        sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m), dtype=float)
        for m in shape
    ]
    return sp.csr_array(reduce(sp.kronsum, lines))


def _grid(dimensions: int) -> Callable[[str], sp.csr_array]:
    def build(sizes: str) -> sp.csr_array:
        parts = sizes.split("x")
        parts = parts * dimensions if len(parts) == 1 else parts
        if len(parts) != dimensions or not all(p.isascii() and p.isdigit() for p in parts):
            example = "x".join(["64"] * dimensions)
            raise OptionError(
                f"laplacian{dimensions}d:{sizes}: expected {dimensions} sizes like {example}, "
                "or one for all"
            )
        shape = tuple(int(p) for p in parts)
        if math.prod(shape) * (2 * dimensions + 2) > INDEX_MAX or 0 in shape:
            raise OptionError(f"laplacian{dimensions}d:{sizes}: a size is 0 or the grid too large")
        return laplacian(shape)

    return build


def _pyamg(name: str) -> Any:
    try:
        from pyamg.gallery.example import example_names, load_example
    except ImportError as error:
        raise BackendUnavailableError(
            "pyamg is not installed; install it with: pip install 'gpuilu[amg]'"
        ) from error
    if name not in example_names:
        raise OptionError(f"pyamg has no matrix {name!r}; it has {', '.join(example_names)}")
    return load_example(name)["A"]


GENERATED: dict[str, Callable[[str], Any]] = {
    "laplacian2d": _grid(2),
    "laplacian3d": _grid(3),
    "pyamg": _pyamg,
}


# ---- files --------------------------------------------------------------------------------------


def _read(path: str) -> Any:
    """What the file holds, a sparse matrix or a dense array; malformed files become one error."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no such file: {path} (a SOURCE is {SOURCES})")
    try:
        with _opened(path) as stream:
            is_matrix_market = stream.read(14) == b"%%MatrixMarket"
        return _read_matrix_market(path) if is_matrix_market else _read_harwell_boeing(path)
    except (GpuiluError, MemoryError):
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidMatrixError(f"{path}: damaged or cut off gzip file: {error}") from error
    except OSError:
        raise
    except Exception as error:  # SciPy's parsers raise nearly anything on files that are not theirs
        raise InvalidMatrixError(f"{path}: malformed: {error}") from error


def _opened(path: str) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def _read_matrix_market(path: str) -> Any:
    n_rows, n_cols, n_entries, layout, field, symmetry = scipy.io.mminfo(path)
    if layout == "array":
        implied = {"general": 0, "skew-symmetric": n_rows * (n_rows + 1) // 2}
        n_entries = n_rows * n_cols - implied.get(symmetry, n_rows * (n_rows - 1) // 2)
    elif max(n_rows, n_cols) > 2 * n_entries + EMPTY_ROWS:
        raise InvalidMatrixError(
            f"{path}: claims to be {n_rows} x {n_cols} with only {n_entries} entries; "
            "nearly all rows would be empty"
        )
    shortest = SHORTEST[field] + (4 if layout == "coordinate" else 0)
    n_lines, n_bytes = _extent(path)
    if n_entries > n_lines or n_entries * shortest > n_bytes:  # the header outweighs a last \n
        raise InvalidMatrixError(
            f"{path}: claims {n_entries} entries but has only {n_lines} lines and {n_bytes} bytes; "
            "is it cut off?"
        )
    return _as_array(scipy.io.mmread, path)


def _as_array(reader: Callable[..., Any], source: Any) -> Any:
    """Read a sparse array where SciPy lets one choose, as newer versions insist that one does."""
    choice = {"spmatrix": False} if "spmatrix" in inspect.signature(reader).parameters else {}
    return reader(source, **choice)


def _extent(path: str) -> tuple[int, int]:
    """Lines and bytes of a file, unpacked in pieces: a small gzip file must not fill the memory."""
    n_lines = n_bytes = 0
    with _opened(path) as stream:
        while chunk := stream.read(CHUNK):
            n_lines += chunk.count(b"\n")
            n_bytes += len(chunk)
    return n_lines, n_bytes


def _read_harwell_boeing(path: str) -> Any:
    """SciPy reads real, unsymmetric, assembled matrices; the type is the first word of line 3."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="ascii", errors="replace") as lines:
        header = [lines.readline(200) for _ in range(4)]
        kind = header[2][:3].upper()
        if len(kind.strip()) != 3 or kind[0] not in "RCPI" or kind[2] not in "AE":
            raise InvalidMatrixError(
                f"{path}: neither a Matrix Market file (it does not begin with %%MatrixMarket) "
                "nor a Harwell-Boeing one"
            )
        if kind != "RUA":
            raise InvalidMatrixError(
                f"{path}: a Harwell-Boeing file of type {kind}; SciPy reads only RUA (real, "
                "unsymmetric, assembled); convert it to Matrix Market"
            )
        lines.seek(0)
        return _as_array(scipy.io.hb_read, lines)
