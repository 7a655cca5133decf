from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import CompileError, MissingToolError, UserError
from lab.toolchain import Cache, CompileRequest, build, find_toolchains, nvcc, nvrtc, select, toolchain

REQUEST = CompileRequest('extern "C" __global__ void k(float *x) { *x = 1; }', "k.cu", "sm_90")
PLAIN = nvcc.Nvcc(Path("nvcc"), "13.0.88", ("sm_80",), through_pycuda=False)
WITH_PYCUDA = replace(PLAIN, through_pycuda=True)
NVRTC = nvrtc.Nvrtc("13.5.37", ("sm_80", "sm_90"))


@pytest.fixture
def machine(monkeypatch):
    """A machine with the given toolchains."""

    def make(*, by_nvcc=None, by_nvrtc=NVRTC):
        def find_nvcc(*, through_pycuda=None):
            return by_nvcc if by_nvcc and through_pycuda in (None, by_nvcc.through_pycuda) else None

        monkeypatch.setattr(nvcc, "find_nvcc", find_nvcc)
        monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: by_nvrtc)
        select._find.cache_clear()

    yield make
    select._find.cache_clear()


def test_auto_is_nvcc_only_through_pycuda(machine):
    machine(by_nvcc=WITH_PYCUDA)
    assert toolchain("auto") == WITH_PYCUDA
    assert find_toolchains() == (WITH_PYCUDA, NVRTC)
    machine(by_nvcc=PLAIN)
    assert toolchain("auto") == NVRTC
    assert find_toolchains() == (NVRTC, PLAIN)
    machine()
    assert toolchain("auto") == NVRTC
    assert find_toolchains() == (NVRTC,)


def test_names(machine):
    machine(by_nvcc=WITH_PYCUDA)
    assert toolchain("nvcc") == toolchain("pycuda-nvcc") == WITH_PYCUDA
    assert toolchain("nvrtc") == NVRTC
    machine(by_nvcc=PLAIN)
    assert toolchain("nvcc") == PLAIN
    with pytest.raises(MissingToolError, match=r"install -e '\.\[gpu\]'$"):
        toolchain("pycuda-nvcc")


@pytest.mark.parametrize("name", ["nvrtc==13", "nvrtc==13.5", "nvrtc == 13.5.37", " nvrtc"])
def test_versions_that_are_here(machine, name):
    machine()
    assert toolchain(name) == NVRTC


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("nvrtc==13.50", "'nvidia-cuda-nvrtc==13.50.*'"),
        ("nvrtc==13.3", "'nvidia-cuda-nvrtc==13.3.*'"),
        ("nvrtc==13.5.3", "'nvidia-cuda-nvrtc==13.5.3'"),
        ("nvrtc==12.4", "'nvidia-cuda-nvrtc-cu12==12.4.*' 'cuda-bindings==12.*'"),
        ("nvcc==13.1", "'nvidia-cuda-nvcc==13.1.*' nvidia-cuda-cccl"),
    ],
)
def test_versions_that_are_not_here(machine, name, command):
    machine(by_nvcc=PLAIN)
    with pytest.raises(MissingToolError, match="was asked for") as caught:
        toolchain(name)
    assert str(caught.value).endswith(f"python -m pip install {command}")


def test_what_is_not_here(machine):
    machine(by_nvrtc=None)
    with pytest.raises(
        MissingToolError, match=r"nvcc is not on this machine; .* pip install nvidia-cuda-nvcc nvidia-cuda-cccl$"
    ):
        toolchain("nvcc")
    with pytest.raises(MissingToolError, match="pip install nvidia-cuda-nvrtc"):
        toolchain("auto")
    with pytest.raises(MissingToolError, match=r"CUDA Toolkit 12\.4"):
        toolchain("nvcc==12.4")
    assert find_toolchains() == ()


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("nvrt", "did you mean 'nvrtc'?"),
        ("nvrtc>=13", "write nvrtc==13.5"),
        ("nvcc=13", "write nvcc==13.5"),
        ("nvrtc==new", "write nvrtc==13.5"),
        ("auto==13", None),
        ("", None),
    ],
)
def test_names_that_are_none(machine, name, suggestion):
    machine()
    with pytest.raises(UserError) as caught:
        toolchain(name)
    assert caught.value.found == name
    assert "nvrtc" in caught.value.accepted
    if suggestion:
        assert caught.value.suggestion == suggestion


def test_an_architecture_that_the_compiler_does_not_know():
    with pytest.raises(UserError) as caught:
        build(toolchain("nvrtc"), replace(REQUEST, arch="sm_91"))
    assert caught.value.found == "sm_91"
    assert "sm_90" in caught.value.accepted
    assert caught.value.suggestion is not None


def test_the_second_build_comes_from_the_cache(tmp_path):
    compiler, cache = toolchain("nvrtc"), Cache(tmp_path)
    first = build(compiler, REQUEST, cache)
    second = build(compiler, REQUEST, cache)
    assert (first.cached, second.cached) == (False, True)
    assert (first.build, first.disassembly) == (second.build, second.disassembly)
    assert not build(compiler, replace(REQUEST, options=("-DX",)), cache).cached
    assert not build(compiler, REQUEST, cache, use_cache=False).cached


def test_a_damaged_entry_is_built_again(tmp_path):
    compiler, cache = toolchain("nvrtc"), Cache(tmp_path)
    first = build(compiler, REQUEST, cache)
    next(tmp_path.iterdir()).write_bytes(b"")
    again = build(compiler, REQUEST, cache)
    assert not again.cached
    assert again.build.cubin == first.build.cubin
    assert build(compiler, REQUEST, cache).cached


def test_the_users_cache_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    build(toolchain("nvrtc"), REQUEST)
    assert len(list(tmp_path.glob("*.entry"))) == 1


def test_what_reads_the_users_files_is_compiled_each_time(tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 1\n")
    source = '#include "mine.h"\nextern "C" __global__ void k(int *x) { *x = VALUE; }'
    request = CompileRequest(source, "k.cu", "sm_90", (f"-I{tmp_path}",))
    compiler, cache = toolchain("nvrtc"), Cache(tmp_path / "cache")
    first = build(compiler, request, cache)
    (tmp_path / "mine.h").write_text("#define VALUE 2\n")
    second = build(compiler, request, cache)
    assert not second.cached
    assert first.build.ptx != second.build.ptx


def test_a_refused_source_is_not_cached(tmp_path):
    with pytest.raises(CompileError):
        build(toolchain("nvrtc"), replace(REQUEST, source="error"), Cache(tmp_path))
    assert list(tmp_path.iterdir()) == []
