"""Findings on the page: what is listed, and that every line they name is part of the listing shown."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import replace

import pytest

from lab.isa.model import SourceLocation
from lab.recorded.run_records import Condition, Suspicion
from lab.report.variant.faults import findings_of, marked_lines
from lab.store.database import Store


@pytest.fixture(scope="session")
def page(planted):
    text = (planted / "index.html").read_text(encoding="utf-8")
    blocks = {
        name: json.loads(re.search(f'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)[1])
        for name in ("data", "blobs")
    }

    def texts(variant):
        ids = blocks["data"]["variants"][variant]
        return {name: gzip.decompress(base64.b64decode(blocks["blobs"][key])).decode() for name, key in ids.items()}

    return text, texts


@pytest.fixture(scope="session")
def records(planted):
    with Store(planted) as store:
        return {record.kernel: record for record in store.records()}


@pytest.mark.parametrize(
    ("kernel", "kind", "opcode", "source"),
    [
        ("racy", "shared-race", "ld.shared", "if (other < m) C[other]"),
        ("off_by_one", "out-of-bounds", "st.global", "if (other <= m) C[other]"),
        ("two_entries", "out-of-bounds", "ld.global", "C[i] = alpha * A[i]"),
    ],
)
def test_the_line_at_fault_is_in_the_listing_and_in_the_source(records, page, kernel, kind, opcode, source):
    texts = page[1](records[kernel].variant)
    detail = json.loads(texts["detail"])
    finding = next(found for found in detail["findings"] if found["kind"] == kind)
    shown = texts["ptx"].split("\n")
    assert opcode in finding["text"]
    assert finding["text"].split()[0] in shown[finding["line"] - detail["first"]["ptx"]]
    assert finding["line"] in detail["marked"]
    name, line = finding["source"]
    assert name.endswith("kernel.cu")
    kernel_cu = html.unescape(re.sub(r"<[^>]+>", "", texts["source"])).split("\n")
    assert source in kernel_cu[line - 1]


def test_a_finding_says_where_and_both_sides_of_a_race(records, page):
    record = records["racy"]
    detail = json.loads(page[1](record.variant)["detail"])
    (finding,) = detail["findings"]
    facts = dict(finding["facts"])
    assert facts["block"] == "(0, 0, 0)"
    assert re.fullmatch(r"\(\d+, 0, 0\) of warp [01]", facts["thread"])
    assert re.fullmatch(r"0x[0-9a-f]+", facts["address"])
    assert facts["seen"] == "63 times"
    assert finding["other"]["kind"] == "write"
    shown = page[1](record.variant)["ptx"].split("\n")
    assert "st.shared" in shown[finding["other"]["line"] - detail["first"]["ptx"]]
    assert detail["marked"] == sorted({finding["line"], finding["other"]["line"]})
    thread, other = (int(re.search(r"\d+", text)[0]) for text in (facts["thread"], finding["other"]["thread"]))
    assert thread + other == 63  # the mirrored thread wrote what this one reads


def test_the_calls_that_led_to_both_sides_of_a_race_are_facts(records):
    record = records["racy"]
    (finding,) = record.emulation.findings
    calls = (SourceLocation("/home/me/k.cu", 31), SourceLocation("/home/me/k.cu", 60))
    called = replace(finding, calls=calls, other=replace(finding.other, calls=calls[1:]))
    (before,) = findings_of(record)
    (after,) = findings_of(replace(record, emulation=replace(record.emulation, findings=(called,))))
    said = [("called at", "k.cu line 31, from k.cu line 60"), ("other side called at", "k.cu line 60")]
    assert [fact for fact in json.loads(json.dumps(after["facts"])) if tuple(fact) in said] == [
        list(one) for one in said
    ]
    assert "called at" not in json.dumps(before)


def test_a_clean_variant_has_no_findings(records):
    assert findings_of(records["clean"]) == []
    assert marked_lines(records["clean"]) == []


def test_failures_link_to_the_line(records, page):
    record = records["racy"]
    line = record.emulation.findings[0].line
    assert f'<a href="#v-{record.variant}:ptx-{line}">PTX line {line}</a>' in page[0]


def test_the_page_says_where_execution_chooses_another_loop(records, page):
    assert "a loop other than the static hot loop executes the most instructions" in page[0]
    assert f'<a href="#v-{records["two_loops"].variant}" title="The loop that executes most' in page[0]


def test_charts_of_executed_instructions_are_marked_as_emulated(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page[0], re.DOTALL)[1])
    titles = {
        mix: [choice["spec"]["encoding"]["x"]["title"] for choice in data["charts"][f"mix-{mix}"]]
        for mix in ("ptx", "executed", "sass")
    }
    assert titles["ptx"] == titles["sass"] == ["share (static)", "instructions (static)"] * 2
    assert titles["executed"] == ["share (emulated)", "instructions per thread (emulated)"] * 2
    assert re.search(r"<h3>PTX executed <span class=\"chip emulated\"", page[0])


def test_an_embedded_variant_has_the_counts_of_its_lines(records, page):
    record = records["two_loops"]
    detail = json.loads(page[1](record.variant)["detail"])
    assert [group["lines"] for group in detail["executed"]] == [list(group.lines) for group in record.emulation.lines]
    assert record.emulation.lines


def test_suspicions_stand_behind_findings_with_their_condition_and_mark_their_lines(records):
    record = records["racy"]
    (finding,) = record.emulation.findings
    differs = Suspicion(Condition.ORDER, "y[3] differs")
    suspicions = (Suspicion(Condition.FULL_SIZE, "", finding), differs)
    suspect = replace(record, emulation=replace(record.emulation, findings=(), suspicions=suspicions))
    at_full_size, in_order = findings_of(suspect)
    assert at_full_size == findings_of(record)[0] | {"condition": Condition.FULL_SIZE}
    assert (in_order["condition"], in_order["detail"], in_order["line"]) == (Condition.ORDER, "y[3] differs", 0)
    assert in_order.keys() == at_full_size.keys()
    assert marked_lines(suspect) == marked_lines(record) != []
