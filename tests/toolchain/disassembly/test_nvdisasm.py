from __future__ import annotations

import subprocess

import pytest

from lab.base.errors import CompileError, MissingToolError, StoreError
from lab.base.executor import WorkerLostError
from lab.isa.sass.lines import LineTable
from lab.isa.sass.module import read_sass
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.cubin.image import sections
from lab.toolchain.disassembly import nvdisasm as disassembler
from lab.toolchain.disassembly.nvdisasm import disassemble, disassemble_all
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


def test_every_kernel_with_its_lines(cubin):
    result = disassemble(cubin)
    module = read_sass(result.text, result.lines, version=result.version)
    assert list(module.files.values()) == ["/k.cu"]
    assert (module.target, module.version) == ("sm_90", f"nvdisasm {result.version}")
    assert {kernel.name for kernel in module.kernels} == {"first", "second"}
    instructions = next(kernel for kernel in module.kernels if kernel.name == "first").instructions
    assert "FFMA" in {instruction.opcode for instruction in instructions}
    lines = {instruction.source.line for instruction in instructions if instruction.source}
    assert {2} <= lines <= {1, 2, 3}
    assert ".text.first" in result.text
    assert "| GPR   |" in result.text
    assert result.version == disassembler.disassembler_version()


@pytest.mark.parametrize("image", [b"", b"not ELF at all", b"\x7fELF" + bytes(60)])
def test_a_refused_image(image):
    with pytest.raises(CompileError, match="nvdisasm refuses this cubin: nvdisasm fatal") as caught:
        disassemble(image)
    assert "lab-nvdisasm-" not in caught.value.log


@pytest.fixture
def first_refuses(monkeypatch, cubin):
    """The first nvdisasm of the machine knows no such architecture; another one, a copy of it, does."""
    tool = disassembler._find()[0]
    other = tool.with_name("nvdisasm-12")
    run = subprocess.run

    def refuse(words, **options):
        if words[0] == other:
            return run([tool, *words[1:]], **options)
        message = b'nvdisasm fatal   : CUDA architecture "SM70" is deprecated. Please use CUDA toolkit 13.0 or earlier'
        return subprocess.CompletedProcess(words, 1, b"", message)

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(disassembler, "_others", lambda: ())
    return lambda: monkeypatch.setattr(disassembler, "_others", lambda: ((other, "12.8.55"),))


def test_an_architecture_that_nvdisasm_dropped_names_the_package_that_lists_it(first_refuses, cubin):
    with pytest.raises(CompileError) as caught:
        disassemble(cubin)
    assert "sm_70" in str(caught.value)
    assert disassembler.INSTALL_OLDER in str(caught.value)
    first, second = disassemble_all([cubin, cubin])
    assert first == second
    assert (first.text, first.lines) == ("", LineTable())
    assert disassembler.INSTALL_OLDER in first.lacking


def test_another_nvdisasm_of_the_machine_lists_it(first_refuses, cubin):
    first_refuses()
    found = disassemble(cubin)
    assert (found.version, found.lacking) == ("12.8.55", "")
    assert {kernel.name for kernel in read_sass(found.text, found.lines).kernels} == {"first", "second"}
    assert disassemble_all([cubin]) == [found]


def test_a_broken_line_table_costs_the_lines_alone(cubin):
    broken = bytearray(cubin)
    (table,) = (section.content for section in sections(cubin) if section.name == ".debug_line")
    at = cubin.index(table)
    broken[at : at + 4] = b"\xff\xff\xff\x7f"  # the length of its only unit
    result = disassemble(bytes(broken))
    assert result.lines == LineTable()
    assert read_sass(result.text).functions == read_sass(disassemble(cubin).text).functions


def test_a_truncated_cubin(cubin):
    with pytest.raises(CompileError, match="nvdisasm refuses"):
        disassemble(cubin[: len(cubin) // 2])


def test_no_nvdisasm(monkeypatch):
    monkeypatch.setattr(locate, "tool", lambda _: None)
    with pytest.raises(MissingToolError, match="python -m pip install nvidia-cuda-nvdisasm"):
        disassemble(b"")


def test_a_hanging_nvdisasm_is_stopped(monkeypatch):
    def hang(arguments, *, timeout, **_):
        raise subprocess.TimeoutExpired(arguments, timeout)

    disassembler.disassembler_version()  # found while it still answers
    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(CompileError, match="nvdisasm did not finish within 120 s"):
        disassemble(b"")


def test_a_listing_that_took_too_long_is_not_made_without_live_registers(monkeypatch):
    attempts = []

    def hang(arguments, *, timeout, **_):
        attempts.append(arguments)
        raise subprocess.TimeoutExpired(arguments, timeout)

    disassembler.disassembler_version()
    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(CompileError):
        disassemble(b"")
    assert len(attempts) == 1


def test_an_nvdisasm_that_was_killed_has_refused_nothing(monkeypatch, cubin):
    disassembler.disassembler_version()
    monkeypatch.setattr(subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, -9, b"", b""))
    with pytest.raises(WorkerLostError, match="nvdisasm was killed"):
        disassemble(cubin)
    with pytest.raises(WorkerLostError, match="nvdisasm was killed"):
        disassemble_all([cubin, cubin])


def test_a_full_disk_is_no_fault_of_the_cubin(monkeypatch, cubin):
    disassembler.disassembler_version()
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "no room")))
    with pytest.raises(StoreError, match="temporary files cannot be written: no room; set TMPDIR"):
        disassemble(cubin)
