from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from lab.base.errors import MissingToolError
from lab.toolchain import locate
from lab.toolchain.nvrtc.libnvrtc import NvrtcLibrary, load

KERNEL = 'extern "C" __global__ void k(float *x) { *x = VALUE; }'


@pytest.fixture(scope="module")
def library() -> NvrtcLibrary:
    return load(locate.nvrtcs()[0].path)


def test_a_path_is_loaded_once(library: NvrtcLibrary) -> None:
    assert load(library.path) is library


def test_facts(library: NvrtcLibrary) -> None:
    assert library.version.count(".") >= 1
    assert all(part.isdigit() for part in library.version.split("."))
    assert list(library.architectures) == sorted(library.architectures)
    assert 90 in library.architectures


def test_a_real_architecture_gives_ptx_and_cubin(library: NvrtcLibrary) -> None:
    made = library.compile(KERNEL, "/k.cu", ("--gpu-architecture=sm_90", "-DVALUE=1"), {})
    assert made.ok
    assert ".entry k(" in made.ptx
    assert not made.ptx.endswith("\0")
    assert made.cubin.startswith(b"\x7fELF")


def test_a_virtual_architecture_gives_no_cubin(library: NvrtcLibrary) -> None:
    made = library.compile(KERNEL, "k.cu", ("--gpu-architecture=compute_90", "-DVALUE=1"), {})
    assert (made.ok, made.cubin) == (True, b"")


def test_headers_from_memory(library: NvrtcLibrary) -> None:
    source = f'#include "mine.h"\n{KERNEL}'
    made = library.compile(source, "k.cu", ("--gpu-architecture=compute_90",), {"mine.h": "#define VALUE 42.0f\n"})
    assert made.ok
    assert "0f42280000" in made.ptx or "1109917696" in made.ptx


@pytest.mark.parametrize(
    ("options", "word"),
    [(("--gpu-architecture=compute_90",), "VALUE"), (("--no-such-option",), "no-such-option")],
)
def test_a_refusal_has_a_log(library: NvrtcLibrary, options: tuple[str, ...], word: str) -> None:
    made = library.compile(KERNEL, "k.cu", options, {})
    assert (made.ok, made.ptx, made.cubin) == (False, "", b"")
    assert word in made.log


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="cannot load NVRTC from"):
        NvrtcLibrary(tmp_path / "libnvrtc.so.13")


def test_another_library_is_no_nvrtc() -> None:
    name = ctypes.util.find_library("m")
    assert name is not None
    with pytest.raises(MissingToolError, match="nvrtcGetErrorString"):
        NvrtcLibrary(Path(name))
