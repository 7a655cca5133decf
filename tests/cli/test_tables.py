"""Tables and texts that commands print."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from lab.cli.doctor import Diagnosis
from lab.cli.tables import print_findings, print_mapping, print_outcome, print_tuned, print_variants
from lab.runs.pipeline import RunOutcome
from lab.templates.mapping.facts import facts
from lab.templates.mapping.text import parse
from lab.tuning.run import TuningOutcome


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def printed(console):
    return console.file.getvalue()


def test_an_outcome_counts_each_status_and_names_the_report(console, make):
    store = make("failures")
    run = replace(store.run(), not_measured="There is no GPU.")
    print_outcome(console, RunOutcome(store.folder, run, store.records(), (), True))
    text = printed(console)
    assert "24 of 27 variants: 20 verified, 1 compile failed, 1 launch failed, 1 verification failed, 1 timed out" in (
        text.replace("\n", " ")
    )
    assert "interrupted; what was finished is kept" in text
    assert "There is no GPU." in text
    assert str(store.folder / "index.html") in text.replace("\n", "")


def test_only_the_first_failures_of_a_tuning_run_are_printed(console, tmp_path):
    outcome = SimpleNamespace(
        interrupted=False,
        failed=tuple(f"kernel {i}: it spills" for i in range(12)),
        not_measured="There is no GPU.",
        libraries=(tmp_path / "sgemm",),
        pages=(tmp_path / "index.html", tmp_path / "map.png"),
    )
    print_tuned(console, cast("TuningOutcome", outcome))
    text = printed(console).replace("\n", "")
    assert "kernel 9: it spills" in text
    assert "kernel 10" not in text
    assert "2 further kernels failed" in text
    assert "There is no GPU. All times are predicted." in text
    assert "map.png" not in text


def test_a_missing_thing_is_listed_with_what_it_adds_and_its_command(console):
    print_findings(
        console,
        [
            Diagnosis("Python", True, "3.11", "everything", ""),
            Diagnosis("ncu", False, "not found", "hardware counters", "apt-get install nsight-compute"),
        ],
    )
    text = printed(console)
    assert "✓  Python" in text
    assert "–  ncu" in text
    assert "ncu: hardware counters" in text
    assert "    apt-get install nsight-compute" in text
    assert "Python: everything" not in text


def test_nothing_is_missing(console):
    print_findings(console, [Diagnosis("Python", True, "3.11", "everything", "")])
    assert "missing" not in printed(console)


def test_variants_stand_in_columns_that_do_not_wrap(console):
    def planned(variant, name, label):
        return SimpleNamespace(
            variant=variant,
            point=SimpleNamespace(kernel=SimpleNamespace(name=name)),
            label=label,
            toolchain=SimpleNamespace(name="nvrtc", version="13.0"),
            request=SimpleNamespace(arch="sm_90"),
        )

    print_variants(console, [planned("a1", "tiled", "unroll=1 " * 20), planned("b2", "t", "x")])
    head, *rows = printed(console).splitlines()
    assert len(rows) == 2
    assert head.split() == ["variant", "kernel", "parameters", "toolchain", "arch"]
    assert {line.index("sm_90") for line in rows} == {head.index("arch")}


def test_a_map_shows_skipped_elements_and_its_coalescing(console):
    print_mapping(console, facts(parse("[3] | [2, (2, 1)] => [i0, t0, t1]"), 4, 12))
    text = printed(console)
    assert text.splitlines()[1].split() == ["0", "0", "0", "1", "1", "1", "−", "−", "−", "−", "−", "−"]
    assert "every element has at most one thread; 6 untouched" in text
    assert "guard: t < 2" in text
