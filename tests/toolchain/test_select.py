from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import CompileError, MissingToolError, UserError
from lab.toolchain import nvcc, select
from lab.toolchain.base import CompileRequest, is_version
from lab.toolchain.cache import Cache
from lab.toolchain.nvrtc import compiler as nvrtc
from lab.toolchain.select import build, find_toolchains, toolchain

REQUEST = CompileRequest('extern "C" __global__ void k(float *x) { *x = 1; }', "k.cu", "sm_90")
PLAIN = nvcc.Nvcc(Path("nvcc"), "13.0.88", ("sm_80",), with_pycuda=False)
WITH_PYCUDA = replace(PLAIN, with_pycuda=True)
NVRTC = nvrtc.Nvrtc(Path("libnvrtc.so.13"), "13.5.37", ("sm_80", "sm_90"))
OLD = replace(NVRTC, library=Path("libnvrtc.so.12"), version="12.9.86")


@pytest.fixture
def machine(monkeypatch):
    """A machine with the given toolchains."""

    def make(*, by_nvcc=None, by_nvrtc=(NVRTC,)):
        def find_nvcc(wanted="", *, with_pycuda=None):
            right = by_nvcc and is_version(by_nvcc.version, wanted)
            return by_nvcc if right and with_pycuda in (None, by_nvcc.with_pycuda) else None

        monkeypatch.setattr(nvcc, "find_nvcc", find_nvcc)
        monkeypatch.setattr(
            nvrtc, "find_nvrtcs", lambda wanted="": (one for one in by_nvrtc if is_version(one.version, wanted))
        )
        monkeypatch.setenv("LAB_COMPILERS", "/beside")
        select._find.cache_clear()

    yield make
    select._find.cache_clear()


def test_auto_is_nvcc_only_with_pycuda(machine):
    machine(by_nvcc=WITH_PYCUDA, by_nvrtc=(NVRTC, OLD))
    assert toolchain("auto") == WITH_PYCUDA
    assert find_toolchains() == (WITH_PYCUDA, NVRTC, OLD)
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


def test_each_version_is_one_of_its_own(machine):
    machine(by_nvrtc=(NVRTC, OLD))
    assert toolchain("nvrtc") == NVRTC
    assert toolchain("nvrtc==12.9") == toolchain("nvrtc==12") == OLD
    with pytest.raises(MissingToolError, match=r"^nvrtc==11\.8 is not .*, which has 13\.5\.37, 12\.9\.86; "):
        toolchain("nvrtc==11.8")


BESIDE = "--target /beside"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (
            "nvrtc==13.3",
            f"{BESIDE}/13.3 'nvidia-cuda-nvrtc==13.3.*' 'nvidia-cuda-runtime==13.3.*' 'nvidia-cuda-crt==13.3.*'",
        ),
        (
            "nvrtc==13.5.3",
            f"{BESIDE}/13.5 nvidia-cuda-nvrtc==13.5.3 'nvidia-cuda-runtime==13.5.*' 'nvidia-cuda-crt==13.5.*'",
        ),
        ("nvrtc==12.4", f"{BESIDE}/12.4 'nvidia-cuda-nvrtc-cu12==12.4.*' 'nvidia-cuda-runtime-cu12==12.4.*'"),
        ("nvrtc==11.8", f"{BESIDE}/11.8 'nvidia-cuda-nvrtc-cu11==11.8.*' 'nvidia-cuda-runtime-cu11==11.8.*'"),
        ("nvcc==13.1", "'nvidia-cuda-nvcc==13.1.*' nvidia-cuda-cccl"),
    ],
)
def test_versions_that_are_not_here(machine, name, command):
    machine(by_nvcc=PLAIN)
    with pytest.raises(MissingToolError, match="is not on this machine, which has") as caught:
        toolchain(name)
    assert str(caught.value).endswith(f"python -m pip install {command}")


def test_what_is_not_here(machine):
    machine(by_nvrtc=())
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
    assert "nvrtc" in (caught.value.accepted or ())
    if suggestion:
        assert caught.value.suggestion == suggestion


def test_an_architecture_that_the_compiler_does_not_know():
    with pytest.raises(UserError) as caught:
        build(toolchain("nvrtc"), replace(REQUEST, arch="sm_91"))
    assert caught.value.found == "sm_91"
    assert "sm_90" in (caught.value.accepted or ())
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
    next(tmp_path.glob("*.entry")).write_bytes(b"")
    again = build(compiler, REQUEST, cache)
    assert not again.cached
    assert again.build.cubin == first.build.cubin
    assert build(compiler, REQUEST, cache).cached


def test_the_users_cache_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    build(toolchain("nvrtc"), REQUEST)
    assert len(list(tmp_path.glob("*.entry"))) == 1


def test_a_users_own_file_is_part_of_what_the_cache_knows(tmp_path):
    source = '#include "mine.h"\nextern "C" __global__ void k(int *x) { *x = VALUE; }'
    compiler, cache = toolchain("nvrtc"), Cache(tmp_path / "cache")
    first, again, second = (
        build(compiler, CompileRequest(source, "k.cu", "sm_90", (), (("mine.h", f"#define VALUE {value}\n"),)), cache)
        for value in (1, 1, 2)
    )
    assert again.cached
    assert not second.cached
    assert first.build.ptx != second.build.ptx


def test_an_option_that_is_not_accepted_is_refused_before_the_cache(tmp_path):
    request = replace(REQUEST, options=("--time=/elsewhere/x",))
    with pytest.raises(UserError, check=coded("refused", key="options[0]", found="--time=/elsewhere/x")):
        build(toolchain("nvrtc"), request, Cache(tmp_path))


def test_a_refused_source_is_not_cached(tmp_path):
    with pytest.raises(CompileError):
        build(toolchain("nvrtc"), replace(REQUEST, source="error"), Cache(tmp_path))
    assert list(tmp_path.iterdir()) == []
