"""From the kernel sources of this package to cubins: one path for running and for testing.

CuPy's own kernel cache does not see headers found through include paths, and CuPy appends
``-ftz=true``, which flushes float32 subnormals. So NVRTC is called here, and the disk cache is
keyed by everything that matters: the sources, the architecture, NVRTC's version and the options.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from importlib import resources
from pathlib import Path

from gpuilu.errors import KernelCompileError

__all__ = ["OPTIONS", "compile_cubin", "cubin", "families"]

OPTIONS = ("--std=c++17",)
VALUE_TYPES = {
    "f": "float",
    "d": "double",
    "F": "gpuilu::Complex<float>",
    "D": "gpuilu::Complex<double>",
}


@functools.cache
def sources() -> dict[str, str]:
    """Every kernel source and header by file name."""
    folder = resources.files("gpuilu.kernels")
    return {
        entry.name: entry.read_text()
        for entry in sorted(folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith((".cu", ".cuh"))
    }


def families() -> list[str]:
    """The kernel families: the names of the .cu files."""
    return [name.removesuffix(".cu") for name in sources() if name.endswith(".cu")]


def cubin(family: str, kernel: str, architecture: str) -> tuple[bytes, str]:
    """(cubin, name to look up) of one instantiation, from the disk cache or compiled.

    Parameters
    ----------
    family : str
        Name of a .cu file.
    kernel : str
        A template instantiation in namespace gpuilu, such as ``row_depths<true>``.
    architecture : str
        Such as ``sm_90``.
    """
    path = _cache_folder() / f"{_key(family, kernel, architecture)}.cubin"
    if stored := _stored(path):
        return stored
    code, name = compile_cubin(family, kernel, architecture)
    header = {"kernel": kernel, "name": name, "sha256": hashlib.sha256(code).hexdigest()}
    _store(path, json.dumps(header).encode() + b"\n" + code)
    return code, name


def compile_cubin(family: str, kernel: str, architecture: str) -> tuple[bytes, str]:
    """Compile one instantiation; no GPU is needed.

    Raises
    ------
    KernelCompileError
        With the compiler's log.
    """
    expression = f"gpuilu::{kernel}"
    headers = {name: text for name, text in sources().items() if name != f"{family}_unit.cu"}
    return _nvrtc(f'#include "{family}.cu"\n', headers, expression, architecture)


def _nvrtc(
    source: str, headers: dict[str, str], expression: str, architecture: str
) -> tuple[bytes, str]:
    """The one place that touches CuPy's private compiler class."""
    from cupy.cuda.compiler import CompileException, _NVRTCProgram

    program = _NVRTCProgram(
        source,
        "unit.cu",
        headers=tuple(text.encode() for text in headers.values()),
        include_names=tuple(name.encode() for name in headers),
        name_expressions=(expression,),
        method="cubin",
    )
    try:
        code, names = program.compile((f"-arch={architecture}", *OPTIONS))
    except CompileException as error:
        log = str(error)
        raise KernelCompileError(
            f"kernel {expression} did not compile for {architecture}:\n{log}", log
        ) from error
    return code, names[expression]


def _key(family: str, kernel: str, architecture: str) -> str:
    from cupy.cuda import nvrtc

    parts = [family, kernel, architecture, *OPTIONS, str(nvrtc.getVersion()), _sources_digest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@functools.cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for name, text in sources().items():
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    return digest.hexdigest()


def _cache_folder() -> Path:
    """GPUILU_CACHE_DIR, or gpuilu under the user's cache folder."""
    named = os.environ.get("GPUILU_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(named) if named else Path(base) / "gpuilu"


def _stored(path: Path) -> tuple[bytes, str] | None:
    """What `_store` wrote there, or None if it is not there or not whole."""
    try:
        line, code = path.read_bytes().split(b"\n", 1)
        header = json.loads(line)
        whole = header["sha256"] == hashlib.sha256(code).hexdigest()
    except (OSError, ValueError, KeyError):
        return None
    return (code, header["name"]) if whole else None


def _store(path: Path, content: bytes) -> None:
    """Write in one step: a reader never sees half a file. A read-only cache is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        pass
