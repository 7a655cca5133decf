from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import failed, ladder, run_record, sweep, write

from lab.measured.timing import Samples
from lab.recorded.run_records import Status
from lab.report.facts.compilers import MOST_SOURCES, compilers
from lab.report.render import render
from lab.store.figures import response_of

OLD, NEW = "nvrtc 11.8.89", "nvrtc 13.5.37"


def by(compiler, record, *, slower=1.0, code="", registers=None):
    """The record as another compiler would have made it."""
    build = record.build
    if build is not None:
        version = compiler.split()[1]
        used = replace(build.resources, registers=registers or build.resources.registers)
        build = replace(build, version=version, sass_sha256=build.sass_sha256 + code, resources=used)
    timed = record.measurement
    if timed is not None:
        timed = replace(timed, samples=Samples(tuple(ms * slower for ms in timed.samples.ms)))
    label = f"{record.label} {compiler}"
    name = f"{record.variant[:6]}{compiler[-4:]}"
    return replace(record, variant=name, compiler=compiler, label=label, build=build, measurement=timed)


def compared(records, experiment="gemm_compilers"):
    run = run_record(experiment, (), len(records), measured=True)
    return compilers(run, records, response_of(tuple(records)))


def rungs():
    return [record for record, _ in ladder(measured=True)][1:3]


def test_one_compiler_is_not_compared():
    assert compared([by(NEW, record) for record in rungs()]) is None


def test_a_ladder_says_what_each_step_gains_with_each_compiler():
    v1, v2 = rungs()
    faster = 1 / 1.39
    records = [by(OLD, v1), by(NEW, v1, code="x"), by(OLD, v2), by(NEW, v2, slower=faster, registers=99)]
    comparison = compared(records)
    assert comparison.names == (OLD, NEW)
    assert [(source.kernel, source.label) for source in comparison.sources] == [("v1", "v1"), ("v2", "v2")]
    first, second = comparison.sources
    assert [one.same_as for one in first.made] == ["", ""]
    assert [one.same_as for one in second.made] == ["", OLD]
    assert [one.step for one in first.made] == [None, None]
    gained = [one.step for one in second.made]
    assert gained[1] == pytest.approx(gained[0] * 1.39)
    assert second.made[0].to_first is None
    assert second.made[1].to_first == pytest.approx(1.39)
    assert second.made[1].figures["registers"] == 99
    assert second.made[1].figures["fma"] == 4
    assert "spills (B)" not in comparison.figures
    assert "registers" in comparison.figures
    code, step = comparison.sentences
    assert "All 2 compilers compile 2 of the 2 sources. The machine code is the same for 1 of them, " in code
    assert f"From v1 to v2, the measured throughput changes by a factor of {gained[0]:.2f} with {OLD}" in step
    assert f"{gained[1]:.2f} with {NEW}" in step


def test_equal_gains_are_said_once():
    v1, v2 = rungs()
    comparison = compared([by(name, record) for record in (v1, v2) for name in (OLD, NEW)])
    assert f"with {OLD} and {NEW};" in comparison.sentences[1]
    v1_loop, v2_loop = (record.sass.hot_loop.counts for record in (v1, v2))
    per_fma = [f"{counts.instructions / counts.fma:.2f}" for counts in (v1_loop, v2_loop)]
    assert f"SASS instructions per fma change from {per_fma[0]} to {per_fma[1]}" in comparison.sentences[1]


def test_a_sweep_says_how_compilers_compare_over_all_of_it():
    records = [record for record, _ in sweep(measured=True)]
    both = [one for record in records for one in (by(OLD, record), by(NEW, record, slower=0.5))]
    comparison = compared(both)
    assert (len(comparison.sources), comparison.total) == (min(MOST_SOURCES, len(records)), len(records))
    assert comparison.sentences[1] == (
        f"The measured throughput with {NEW} is 2.000 times that with {OLD} in the median, 2.000 to 2.000 times in "
        f"all, n = {len(records)}."
    )


def test_what_one_compiler_refuses_is_a_row_without_figures():
    v1, v2 = rungs()
    refused = failed(by(OLD, v1), Status.COMPILE_FAILED, "no such architecture")
    comparison = compared([refused, by(NEW, v1), by(OLD, v2), by(NEW, v2)])
    gone, made = comparison.sources[0].made
    assert (gone.rate, gone.to_first, gone.figures["registers"], gone.same_as) == (None, None, None, "")
    assert made.to_first is None
    assert comparison.sentences[0].startswith("All 2 compilers compile 1 of the 2 sources")


def test_the_page_shows_them(tmp_path):
    v1, v2 = ladder(measured=True)[1:3]
    made = [(by(name, record, code=name), texts) for record, texts in (v1, v2) for name in (OLD, NEW)]
    store = write(tmp_path / "run", run_record("gemm_compilers", (), 4, measured=True), made)
    with store:
        (index, *_) = render(store)
    page = index.read_text()
    section = page[page.index('<section id="compilers">') :]
    section = section[: section.index("</section>")]
    assert section.count(f"{OLD}</a>") == section.count(f"{NEW}</a>") == 2
    assert 'rowspan="2">v1<br>' in section
    assert "From v1 to v2, the measured throughput" in page[: page.index('<section id="compilers">')]
    assert '<a href="#compilers">Compilers</a>' in page
    assert "compiler" in (store.folder / "records.csv").read_text().split("\n", 1)[0].split(",")
