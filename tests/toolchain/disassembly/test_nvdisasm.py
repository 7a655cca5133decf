from __future__ import annotations

import json
import os

import pytest

from lab.base.errors import CompileError, MissingToolError
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.disassembly import nvdisasm as disassembler
from lab.toolchain.disassembly.nvdisasm import disassemble
from lab.toolchain.select import toolchain

SOURCE = """extern "C" __global__ void first(float *x) {
    for (int i = 0; i < x[3]; i++) x[i] = x[i] * x[1] + 2.0f;
}
extern "C" __global__ void second(float *x) { *x = 1; }
"""


@pytest.fixture(scope="module")
def cubin():
    return toolchain("nvrtc").compile(CompileRequest(SOURCE, "k.cu", "sm_90")).cubin


@pytest.fixture(autouse=True)
def _forget():
    disassembler._find.cache_clear()
    yield
    disassembler._find.cache_clear()


def test_both_forms_of_every_kernel(cubin):
    result = disassemble(cubin)
    head, functions, files = json.loads(result.json)
    assert files["files"][0]["file"] == "/k.cu"
    assert head["SM"]["version"] == {"major": 9, "minor": 0}
    assert {function["function-name"] for function in functions} == {"first", "second"}
    instructions = {f["function-name"]: f["sass-instructions"] for f in functions}["first"]
    assert "FFMA" in {instruction["opcode"] for instruction in instructions}
    lines = {instruction.get("source-line") for instruction in instructions}
    assert {2} <= lines <= {1, 2, 3, None}
    assert ".text.first" in result.text
    assert "| GPR   |" in result.text
    assert result.version == disassembler.disassembler_version()


@pytest.mark.parametrize("image", [b"", b"not ELF at all", b"\x7fELF" + bytes(60)])
def test_a_refused_image(image):
    with pytest.raises(CompileError, match="nvdisasm refuses this cubin: nvdisasm fatal") as caught:
        disassemble(image)
    assert "lab-nvdisasm-" not in caught.value.log


def test_a_truncated_cubin(cubin):
    with pytest.raises(CompileError, match="nvdisasm refuses"):
        disassemble(cubin[: len(cubin) // 2])


def test_no_nvdisasm(monkeypatch):
    monkeypatch.setattr(locate, "tool", lambda _: None)
    with pytest.raises(MissingToolError, match="python -m pip install nvidia-cuda-nvdisasm"):
        disassemble(b"")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell script as a stand-in")
def test_a_hanging_nvdisasm_is_stopped(monkeypatch, tmp_path):
    script = tmp_path / "nvdisasm"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo V1.0.0 && exit\nexec sleep 60\n')
    script.chmod(0o755)
    monkeypatch.setattr(locate, "tool", lambda _: script)
    monkeypatch.setattr(disassembler, "TIMEOUT_S", 0.2)
    with pytest.raises(CompileError, match="did not finish"):
        disassemble(b"")
