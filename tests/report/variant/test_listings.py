"""Texts of the variants: cut to the kernel that is shown, packed best first until a budget is spent."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import time
from dataclasses import replace

import pytest

from lab.isa.mix import module_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass
from lab.report.variant import listings
from lab.report.variant.listings import (
    highlight_cuda,
    of_kernel,
    opcode_classes,
    pack,
    pack_variants,
    published_texts,
)
from lab.store.figures import ranked, response_of
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

SOURCE = """
extern "C" __global__ void first(float* x) { x[0] = 1; }
extern "C" __global__ void second(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = x[i] * x[i] + 1; }
extern "C" __global__ void third(float* x) { x[0] = 3; }
"""


def test_a_listing_is_cut_to_its_kernel_and_keeps_its_line_numbers():
    built = build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90"))
    sass = read_sass(built.disassembly.text, built.disassembly.lines)
    for module, text, head in (
        (read_ptx(built.build.ptx), built.build.ptx, ".entry {}("),
        (sass, built.disassembly.text, ".text.{},"),
    ):
        mixes = {mix.name: mix for mix in module_mix(module)}
        for name, mix in mixes.items():
            excerpt, start = of_kernel(text, mix)
            lines = excerpt.splitlines()
            assert lines == text.splitlines()[start - 1 : start - 1 + len(lines)]
            assert head.format(name) in excerpt
            assert not any(head.format(other) in excerpt for other in mixes if other != name)
            assert start <= mix.lines[0]
            assert mix.lines[1] < start + len(lines)
        hot = mixes["second"].hot_loop
        excerpt, start = of_kernel(text, mixes["second"])
        assert all(start <= first <= last < start + excerpt.count("\n") + 1 for first, last in hot.lines)


def test_a_listing_that_does_not_fit_its_mix_is_left_whole():
    mix = module_mix(read_ptx(build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90")).build.ptx))[0]
    assert of_kernel("short", mix) == ("short", 1)


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


def in_module(store, record, name: str, before: int):
    """The record and its store, with the listing `name` in a module where other kernels stand around it."""
    text = store.read_file(record.variant, f"kernel.{name}").decode() + ("}\n" if name == "ptx" else "")
    head = ".visible .entry other(" if name == "ptx" else "\t.section\t.text.other"
    own = "\t.section\t.text.gemm\n" if name == "sass" else ""
    lines = [head, *["ret;"] * (before - 2), "}"]
    store.write_files(record.variant, {f"kernel.{name}": "\n".join(lines) + "\n" + own + text + head + "\nret;\n}\n"})
    first = before + len(own.splitlines()) + 1
    mix = getattr(record, name)
    return replace(record, **{name: replace(mix, lines=(first + 4, first + len(text.splitlines()) - 1))})


@pytest.mark.parametrize("name", ["ptx", "sass"])
def test_published_texts_hold_the_kernel_in_its_place(make, name):
    with make("sweep") as store:
        record = in_module(store, store.records()[0], name, before=9)
        whole = store.read_file(record.variant, f"kernel.{name}").decode()
        texts = published_texts(store, record)
    assert set(texts) == {"kernel.cu", "kernel.ptx", "kernel.sass", "build.log", "provenance.json"}
    kept, there = texts[f"kernel.{name}"].splitlines(), whole.splitlines()
    assert "other" not in "".join(kept)
    assert all(line in {"", there[number]} for number, line in enumerate(kept))
    first, last = getattr(record, name).lines
    assert kept[first - 1 : last] == there[first - 1 : last]
    assert of_kernel(texts[f"kernel.{name}"], getattr(record, name)) == of_kernel(whole, getattr(record, name))


def test_published_texts_of_a_variant_without_files_are_none(make):
    with make("sweep") as store:
        assert published_texts(store, replace(store.records()[0], variant="0000000000")) == {}


def test_variants_are_embedded_best_first_until_the_budget_is_spent(make):
    with make("sweep") as store:
        records = store.records()
        ranking = ranked(records, response_of(records))
        every = pack_variants(store, records, ranking)
        assert (len(every.variants), every.links) == (24, ())
        some = pack_variants(store, records, ranking, every.bytes // 2)
    assert some.bytes <= every.bytes // 2
    assert list(some.variants) == [record.variant for record in ranking[: len(some.variants)]]
    assert len(some.variants) + len(some.links) == 24
    assert some.links == tuple(record.variant for record in records if record.variant not in some.variants)


def test_a_large_run_embeds_few_variants(make, monkeypatch):
    monkeypatch.setattr(listings, "LARGE", 10)
    monkeypatch.setattr(listings, "MOST_EMBEDDED", 3)
    with make("sweep") as store:
        records = store.records()
        packed = pack_variants(store, records, records)
    assert list(packed.variants) == [record.variant for record in records[:3]]


def test_equal_texts_are_embedded_once(make):
    with make("sweep") as store:
        records = store.records()
        packed = pack_variants(store, records, records)
    logs = {ids["log"] for ids in packed.variants.values()}
    assert len(logs) == 1
    assert unpacked(packed.blobs[logs.pop()]).startswith("ptxas info")


def test_what_is_embedded_is_what_the_files_hold(make):
    with make("sweep") as store:
        records = store.records()
        packed = pack_variants(store, records, records)
        for record in records[:2]:
            texts = {name: unpacked(packed.blobs[key]) for name, key in packed.variants[record.variant].items()}
            source = store.read_file(record.variant, "kernel.cu").decode()
            assert html.unescape(re.sub("<[^>]*>", "", texts["source"])) == source
            assert texts["ptx"] == store.read_file(record.variant, "kernel.ptx").decode()
            assert json.loads(texts["detail"])["provenance"] == f'{{"variant": "{record.variant}"}}\n'


def test_failed_variants_come_before_others_without_a_figure(make):
    with make("failures") as store:
        records = store.records()
        packed = pack_variants(store, records, ())
    failed = [record.variant for record in records if record.status.failed]
    assert list(packed.variants)[: len(failed)] == failed


@pytest.mark.parametrize("source", ['R"(' * 50_000, "".join(f"x[{i}] = <b>;\n" for i in range(20_000))])
def test_a_source_that_takes_long_to_colour_is_shown_without_colours(source):
    began = time.process_time()
    assert html.unescape(highlight_cuda(source)) == source
    assert time.process_time() - began < 1


def test_packing_is_repeatable_and_source_is_escaped():
    assert pack("ρ <b>") == pack("ρ <b>")
    assert unpacked(pack("ρ <b>")) == "ρ <b>"
    assert "<b>" not in highlight_cuda("// <b>bold</b>\nint x;\n")
    assert highlight_cuda("\n\nint x;\n").count("\n") == 3


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void f(float* a) {\n    a[0] = 1.0f;  // one\n\n}\n",
        "/* a\n   float b; */ int c;\n",
        "#define A(x) \\\n    (x + 1)\nint b = A(2);\n",
        "#if 0\nint a;\n#endif\nint b;\n",
        'auto a = R"(int\nb)";\n',
        "int a",
    ],
)
def test_a_source_is_highlighted_line_by_line_as_it_is_as_a_whole(source):
    assert highlight_cuda(source) == listings._highlighted(source)


def test_every_opcode_has_its_class(make):
    with make("ladder") as store:
        found = opcode_classes(store.records())
    assert found["ptx"]["fma.rn.f32"] == found["sass"]["FFMA"] == "fma"
    assert found["sass"]["LDS.128"] == "ld.shared"


def test_a_triton_function_is_shown_with_the_places_of_its_own_file(make):
    with make("sweep") as store:
        record = store.records()[0]
        ptx = f'{store.read_file(record.variant, "kernel.ptx").decode()}\n.file 2 "/k.cu"\n.file 7 "/k.py"\n'
        source = "# it's\ndef f(x): return x < 1\n"
        store.write_files(record.variant, {"kernel.cu": source, "kernel.ptx": ptx})
        store.write(replace(record, template="k.py"), 0)
        packed = pack_variants(store, store.records(), store.records())
        texts = {name: unpacked(packed.blobs[key]) for name, key in packed.variants[record.variant].items()}
    assert html.unescape(re.sub("<[^>]*>", "", texts["source"])) == source
    assert '<span class="k">def</span>' in texts["source"]
    assert json.loads(texts["detail"])["places"]["file"] == 7
