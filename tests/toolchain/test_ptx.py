from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from mistakes import coded

from lab.base.errors import CompileError, MissingToolError, UserError
from lab.isa.sass.module import read_sass
from lab.toolchain import locate, ptx
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache
from lab.toolchain.ptx import PtxAssembler, targets
from lab.toolchain.select import build, toolchain

SOURCE = """namespace ns { __global__ void add(float *c, const float *a) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = a[i * 3];
    c[threadIdx.x] = kept[threadIdx.x];
} }
__global__ void fill(float *c) { c[threadIdx.x] = 1; }
__global__ void fill(int *c) { c[threadIdx.x] = 1; }
extern "C" __global__ void plain(float *c) { c[0] = 1; }
"""


@pytest.fixture(scope="module")
def text() -> str:
    return toolchain("nvrtc").compile(CompileRequest(SOURCE, "k.cu", "sm_90")).ptx


@pytest.fixture(scope="module", params=["nvJitLink", "ptxas"])
def assembler(request):
    if request.param == "nvJitLink":
        found = ptx.find_assembler()
        return found if found and found.is_library else pytest.skip("nvJitLink is not on this machine")
    path = locate.tool("ptxas")
    version = locate.tool_version(path) if path else None
    if path is None or version is None or int(version.split(".")[0]) < 13:
        pytest.skip("no ptxas of CUDA 13 is on this machine")
    return PtxAssembler(path, is_library=False, version=version)


def old(text):
    """PTX that releases since 13.0 read."""
    return text.replace(text[text.index(".version") :].split("\n")[0], ".version 9.0")


def request_for(text, *kernels, arch="sm_90", options=()):
    return CompileRequest(old(text), "kernel.ptx", arch, options, (), kernels)


def test_ptx_becomes_a_build(assembler, text):
    built = assembler.compile(request_for(text, "plain", "ns::add"))
    assert built.cubin.startswith(b"\x7fELF")
    assert built.ptx == old(text)
    assert built.symbols == {"plain": "plain", "ns::add": "_ZN2ns3addEPfPKf"}
    assert built.resources["_ZN2ns3addEPfPKf"].registers > 0
    assert (built.toolchain, built.arch) == ("ptx", "sm_90")
    assert "-arch=sm_90" in built.command


def test_it_is_what_nvrtc_assembles(text):
    found = ptx.find_assembler("13.5")
    if found is None or not found.is_library:
        pytest.skip("nvJitLink of NVRTC's release is not on this machine")
    compiled = toolchain("nvrtc==13.5").compile(CompileRequest(SOURCE, "k.cu", "sm_90"))
    assembled = found.compile(CompileRequest(compiled.ptx, "k.ptx", "sm_90"))
    assert assembled.resources.keys() == compiled.resources.keys()
    assert assembled.resources["plain"].registers == compiled.resources["plain"].registers


def test_a_build_is_disassembled_and_cached(assembler, text, tmp_path):
    first = build(assembler, request_for(text), Cache(tmp_path))
    again = build(assembler, request_for(text), Cache(tmp_path))
    assert (first.cached, again.cached) == (False, True)
    names = {kernel.name for kernel in read_sass(again.disassembly.text, again.disassembly.lines, "k").kernels}
    assert "plain" in names


def test_options(assembler, text):
    built = assembler.compile(request_for(text, options=("--maxrregcount=24", "--ptxas-options=-O1")))
    assert built.resources["_ZN2ns3addEPfPKf"].registers <= 24
    with pytest.raises(UserError, check=coded("unknown-name", key="options[0]", found="--use_fast_math")):
        assembler.compile(request_for(text, options=("--use_fast_math",)))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("ad", r"kernel.ptx: there is no kernel 'ad'; the file has .*plain"),
        ("ns::ad", r"did you mean 'ns::add'\?"),
        ("fill", r"several kernels are called 'fill': .*_Z4fillPf"),
    ],
)
def test_a_wrong_kernel_names_those_that_are_there(assembler, text, kernel, words):
    with pytest.raises(CompileError, match=words):
        assembler.compile(request_for(text, kernel))


def test_another_architecture(assembler, text):
    with pytest.raises(CompileError, match=r"kernel.ptx is PTX for sm_90, which cannot be assembled for sm_80"):
        assembler.compile(request_for(text, arch="sm_80"))
    assert assembler.compile(request_for(text, arch="sm_100")).arch == "sm_100"


def test_wrong_ptx(assembler, text):
    with pytest.raises(CompileError, match="expected a directive"):
        assembler.compile(CompileRequest("garbage", "kernel.ptx", "sm_90"))
    with pytest.raises(CompileError) as caught:
        assembler.compile(request_for(text.replace("ld.global", "ld.glbal")))
    assert "glbal" in str(caught.value) + caught.value.log


@pytest.mark.parametrize(
    ("arch", "target", "fits"),
    [
        *(("sm_90", "sm_90", True), ("sm_100", "sm_90", True), ("sm_80", "sm_90", False), ("sm_90a", "sm_90", True)),
        *(("sm_90a", "sm_90a", True), ("sm_90", "sm_90a", False), ("sm_100", "sm_90a", False)),
        *(("sm_103", "sm_100f", True), ("sm_90", "", False)),
    ],
)
def test_which_targets_fit(arch, target, fits):
    assert targets(arch, target) is fits


def test_it_travels_to_a_worker(assembler):
    assert pickle.loads(pickle.dumps(assembler)) == assembler  # noqa: S301 - our own bytes
    assert assembler.supports("sm_90")
    assert not assembler.supports("native")


def test_a_machine_without_an_assembler(monkeypatch):
    monkeypatch.setattr(locate, "nvjitlinks", lambda: ())
    monkeypatch.setattr(locate, "tool", lambda _: None)
    assert ptx.find_assembler() is None


def test_a_ptxas_that_went_away(assembler, text, tmp_path):
    if not assembler.is_library:
        with pytest.raises(MissingToolError, match="cannot run ptxas"):
            replace(assembler, tool=tmp_path / "ptxas").compile(request_for(text))
