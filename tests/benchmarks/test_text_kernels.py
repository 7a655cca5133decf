"""The SGEMM article's own kernels, cut out of its text: every claim of docs/explanation/the-texts-kernels.md.

Lines are named by their content. Without the text (`LAB_TEXTS`), which the project does not hold, these are skipped.
"""

from __future__ import annotations

import re

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.isa.cuda.names import template_parameters_in_conditions
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain


@pytest.fixture(scope="module")
def script(benchmark_script):
    texts = benchmark_script("texts")
    if not (texts.folder() / texts.SGEMM).is_file():
        pytest.skip(f"{texts.folder() / texts.SGEMM} is not here: LAB_TEXTS names the folder of the texts")
    return benchmark_script("text_kernels")


def kernel(script, name):
    (kernel,) = [kernel for kernel in (*script.KERNELS, *script.OTHERS, *script.REPAIRED) if kernel.name == name]
    return kernel


def source_line(script, name, finding):
    return script.source(kernel(script, name)).splitlines()[finding.source.line - 1]


def machine_code(script, name):
    chosen = kernel(script, name)
    request = CompileRequest(script.source(chosen), script.SOURCE, script.ARCH, kernels=(chosen.expression,))
    build = toolchain("nvrtc").compile(request)
    (entry,) = build.symbols.values()
    return build, entry


def barriers(ptx, entry):
    body = ptx[ptx.index(f".entry {entry}(") :]
    return body[: body.index("\n}")].count("bar.sync")


def test_v5_reads_shared_memory_that_its_loop_over_i_left_unwritten(script):
    done = script.executed(kernel(script, "v5"))
    (finding,) = done.findings
    assert finding.kind == "uninitialised-read"
    assert finding.variable.startswith("s_buffer")
    assert "T tmpB = s_B[(j << 5)" in source_line(script, "v5", finding)
    old, new = kernel(script, "v5 repaired").repair
    assert " + i)" not in old
    assert " + i)" in new
    repaired = script.executed(kernel(script, "v5 repaired"))
    assert repaired.verification.passed
    assert not repaired.findings


def test_64x64_writes_each_tile_of_4_x_4_transposed_and_constants_hide_it(script):
    done = script.executed(kernel(script, "64x64"))
    assert not done.findings
    assert done.verification.worst.endswith("24576 of 32768 elements are wrong")
    assert script.executed(kernel(script, "64x64"), script.Conditions(constant=True)).verification.passed
    assert script.executed(kernel(script, "64x64 repaired")).verification.passed


def test_128x128_has_one_buffer_whatever_its_template_argument(script):
    (one, entry), (two, other) = (machine_code(script, name) for name in ("128x128", "128x128 two buffers"))
    assert one.resources[entry].shared_bytes == 2 * 128 * 8 * 4
    assert two.resources[other].shared_bytes == 2 * one.resources[entry].shared_bytes
    assert (barriers(one.ptx, entry), barriers(two.ptx, other)) == (2, 1)
    assert script.executed(kernel(script, "128x128 two buffers")).verification.passed


def test_the_articles_own_listing_of_128x128_reads_one_buffer(script):
    text = script.read(script.SGEMM)
    listing = re.findall(r"ld\.shared\.v4\.f32 .*\[%r(\d+)\+(\d+)\]", text[text.index("\ngemm_128x128\n") :])
    (a, b) = ({int(offset) for base, offset in listing if base == first} for first in dict(listing))
    assert (a, b) == ({512, 768}, {4096 + 512, 4096 + 768})


def test_its_conditions_test_the_template_argument(script):
    text = script.source(kernel(script, "128x128"))
    (read,) = [read for read in read_kernels(text) if read.name == "gemm_128x128"]
    tested = template_parameters_in_conditions(text, read)  # what `lab run` warns of
    assert [text.splitlines()[line - 1] for line, _ in tested] == ["#if TWO_BUFFER"] * 2
    assert {name for _, name in tested} == {"TWO_BUFFER"}


IN_THE_GATE = {"v1", "64x64", "128x128"}
NAMES = ("v0", "v1", "v2", "v3", "v4", "v5", "64x64", "128x128")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.thorough) for name in NAMES]
)
def test_all_eight_read_c_with_beta_0(script, name):
    assert [one.name for one in script.KERNELS] == list(NAMES)
    done = script.executed(kernel(script, name), script.Conditions(poisoned=True))
    reads = [finding for finding in done.findings if finding.variable.startswith("C[")]
    assert {finding.kind for finding in reads} == {"uninitialised-read"}
    for finding in reads:
        assert re.search(r"\+ C\[IDX2C\(|resC = \*devC|\* ?beta", source_line(script, name, finding))
    assert not done.verification.passed


def test_fynvs_kernel_is_right_and_does_not_read_c(script):
    done = script.executed(kernel(script, "fynv"))  # C is poisoned: the kernel has no beta
    assert done.verification.passed
    assert not done.findings


@pytest.mark.parametrize("name", ["v1", pytest.param("v4", marks=pytest.mark.thorough)])
def test_blocks_that_move_back_from_an_edge_race(script, name):
    done = script.executed(kernel(script, name), script.Conditions(beta=1.0, emulated=script.AT_THE_EDGE))
    assert {finding.kind for finding in done.findings} == {"global-race"}
    assert done.verification.worst.endswith("1664 of 7000 elements are wrong")


@pytest.mark.thorough
def test_the_page_has_todays_tables(script):
    page = script.PAGE.read_text()
    made = script.tables()
    assert all(text.count("\n") > 3 for text in made.values())
    assert script.filled(page, made) == page, "run: python benchmarks/text_kernels.py --write"
