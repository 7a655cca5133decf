"""Toolchains that come from another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import MissingToolError
from lab.toolchain import elsewhere, select
from lab.toolchain.elsewhere import KINDS, found_here, named
from lab.toolchain.nvcc import Nvcc
from lab.toolchain.nvrtc.compiler import find_nvrtcs

(NVRTC, *_) = find_nvrtcs()


@pytest.fixture(autouse=True)
def forgets():
    elsewhere._found_here.cache_clear()
    yield
    elsewhere._found_here.cache_clear()


def test_every_toolchain_of_this_machine_is_found_by_its_name() -> None:
    found = (*select.find_toolchains(), select.toolchain("ptx"))
    assert {type(one) for one in found} <= KINDS
    assert [found_here(named(one)) for one in found] == list(found)


def test_the_path_of_another_machine_does_not_matter() -> None:
    theirs = replace(NVRTC, library=Path("/theirs/libnvrtc.so"), header_folder=Path("/theirs/include"))
    assert found_here(named(theirs)) == NVRTC


@pytest.mark.parametrize("change", [{"version": "1.2.3"}, {"identity": "headers 1.2"}, {"disassembler": "1.2"}])
def test_one_that_makes_something_else_is_not_taken(change) -> None:
    wanted = replace(named(NVRTC), **change)
    with pytest.raises(MissingToolError, match=f"it lacks nvrtc .*{next(iter(change.values()))}.*, and has ") as caught:
        found_here(wanted)
    assert f"nvrtc {NVRTC.version} ({NVRTC.identity})" in str(caught.value)
    assert "pip install" in str(caught.value)


def test_a_machine_without_pycuda_compiles_as_its_nvcc_does(monkeypatch) -> None:
    here = Nvcc(Path("/here/nvcc"), "13.0.88", ("sm_90",), with_pycuda=False)
    monkeypatch.setattr("lab.toolchain.nvcc.find_nvcc", lambda version, *, with_pycuda: here)
    theirs = replace(here, path=Path("/theirs/nvcc"), with_pycuda=True)
    assert found_here(named(theirs)) == replace(here, with_pycuda=True)
    assert found_here(named(replace(theirs, with_pycuda=False))) == here


def test_a_machine_without_any_says_so(monkeypatch) -> None:
    monkeypatch.setattr("lab.toolchain.triton.compiler.find_triton", lambda version: None)
    wanted = replace(named(NVRTC), name="triton", version="3.5.0", identity="")
    with pytest.raises(MissingToolError, match=r"and has no triton, nvdisasm .*pip install triton"):
        found_here(wanted)
