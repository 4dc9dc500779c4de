"""Kernels compile to cubins without a GPU, for every architecture that is supported."""

from __future__ import annotations

import pytest
from instantiations import INSTANTIATIONS

from gpuilu.backend import compile as compiler
from gpuilu.errors import KernelCompileError

ALL_ON = ("sm_80", "sm_90")
FIRST_ON = ("sm_75", "sm_86", "sm_89", "sm_100", "sm_120")


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    """NVRTC through CuPy, which needs neither a GPU nor a driver."""
    pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:
        pytest.skip(f"NVRTC is not installed: {error}")


def test_every_kernel_family_is_listed_here():
    assert sorted(INSTANTIATIONS) == compiler.families()


@pytest.mark.parametrize("architecture", ALL_ON)
@pytest.mark.parametrize("family", sorted(INSTANTIATIONS))
def test_every_instantiation_compiles(family, architecture):
    for kernel in INSTANTIATIONS[family]:
        code, name = compiler.compile_cubin(family, kernel, architecture)
        assert code[:4] == b"\x7fELF"
        assert name.encode() in code


@pytest.mark.parametrize("architecture", FIRST_ON)
@pytest.mark.parametrize("family", sorted(INSTANTIATIONS))
def test_one_instantiation_of_each_family_compiles_for_the_other_architectures(
    family, architecture
):
    code, _ = compiler.compile_cubin(family, INSTANTIATIONS[family][-1], architecture)
    assert code[:4] == b"\x7fELF"


def test_a_kernel_that_does_not_compile_raises_with_the_compilers_log():
    with pytest.raises(KernelCompileError, match="row_depths<maybe>") as caught:
        compiler.compile_cubin("levels", "row_depths<maybe>", "sm_80")
    assert "maybe" in caught.value.log


def test_a_cubin_comes_from_the_disk_the_second_time(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUILU_CACHE_DIR", str(tmp_path))
    first = compiler.cubin("levels", "row_depths<true>", "sm_80")
    monkeypatch.setattr(compiler, "compile_cubin", lambda *_: pytest.fail("compiled again"))
    assert compiler.cubin("levels", "row_depths<true>", "sm_80") == first


def test_a_damaged_file_in_the_cache_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUILU_CACHE_DIR", str(tmp_path))
    compiler.cubin("levels", "row_depths<true>", "sm_80")
    (stored,) = tmp_path.iterdir()
    whole = stored.read_bytes()
    for damaged in (b"half a file", whole[:-100], whole[:200]):
        stored.write_bytes(damaged)
        code, _ = compiler.cubin("levels", "row_depths<true>", "sm_80")
        assert code[:4] == b"\x7fELF"
        assert stored.read_bytes().endswith(code)


def test_the_cache_key_depends_on_every_source(monkeypatch):
    key = compiler._key("levels", "row_depths<true>", "sm_80")
    monkeypatch.setattr(compiler, "_sources_digest", lambda: "another")
    assert compiler._key("levels", "row_depths<true>", "sm_80") != key


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUILU_CACHE_DIR", str(tmp_path / "file" / "below"))
    code, _ = compiler.cubin("levels", "row_depths<true>", "sm_80")
    assert code[:4] == b"\x7fELF"
