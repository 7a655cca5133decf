"""`benchmarks/estimate_again.py`: predictions of a published report are made again, and nothing else is touched."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from lab.base.errors import StoreError
from lab.recorded.predictions import Estimate
from lab.runs import pipeline as running
from lab.store import published
from lab.store.database import Store

EXPERIMENT = """\
question: Does it?
operator: gemm
problem: {m: 512, n: 512, k: 512}
emulate: {m: 128, n: 128, k: 32}
kernels:
  - {template: gemm/tiled.cu.j2, parameters: {padding: [0, 4]}}
toolchains: [nvrtc]
archs: [sm_90]
"""


@pytest.fixture(scope="module")
def made(benchmark_script, tmp_path_factory):
    """A published run whose estimates are wrong. Its first variant was other code, its second has another cluster."""
    tmp_path = tmp_path_factory.mktemp("made")
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    running.run(tmp_path / "small.yaml", running.RunOptions(output=tmp_path / "run", measure=False))
    with Store(tmp_path / "run") as store:
        right = store.records()
    benchmark_script("publish").publish(tmp_path / "run", tmp_path / "published")
    published_run = published.read_records(tmp_path / "published")
    wrong = [replace(record, estimate=Estimate(1.0, 1.0, {})) for record in published_run.records]
    first = wrong[0].build
    assert first is not None
    wrong[0] = replace(wrong[0], build=replace(first, sass_sha256="0"))
    second = wrong[1].build
    assert second is not None
    wrong[1] = replace(wrong[1], build=replace(second, resources=replace(second.resources, cluster=4)))
    published.write_records(replace(published_run, records=tuple(wrong)), tmp_path / "published")
    return tmp_path, right


@pytest.fixture
def report(made, tmp_path):
    """The records as they were, beside a copy of what was published."""
    folder, right = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return right


def test_predictions_are_made_again_and_the_rest_stays(benchmark_script, tmp_path, report):
    script = benchmark_script("estimate_again")
    facts = script.run_again(tmp_path / "published", tmp_path / "again", experiments=tmp_path, jobs=1)
    with Store(tmp_path / "again") as store:
        records_by_variant = {record.variant: record for record in store.records()}
        assert store.read_file(report[1].variant, "kernel.sass")
    other, same = report
    assert records_by_variant[same.variant] == same
    assert same.estimate.tflops > 1
    changed = replace(other, estimate=None, build=replace(other.build, sass_sha256="0"))
    assert records_by_variant[other.variant] == changed
    assert "made again by lab" in facts.notes[-2]
    assert facts.notes[-1].startswith("1 variants have no estimate")
    assert (tmp_path / "again" / "index.html").exists()


def test_counts_are_made_again_where_that_is_asked_for(benchmark_script, tmp_path, report):
    published_run = published.read_records(tmp_path / "published")
    last = published_run.records[1]
    assert last.emulation is not None
    stale = replace(last, emulation=replace(last.emulation, executed=None, steps=7))
    published.write_records(replace(published_run, records=(published_run.records[0], stale)), tmp_path / "published")
    script = benchmark_script("estimate_again")
    facts = script.run_again(tmp_path / "published", tmp_path / "again", experiments=tmp_path, jobs=1, counts=True)
    with Store(tmp_path / "again") as store:
        records_by_variant = {record.variant: record for record in store.records()}
    again = records_by_variant[last.variant].emulation
    assert again is not None
    # engines take steps of their own, and which of them executes depends on the machine code that is there already
    assert again == replace(report[1].emulation, steps=again.steps)
    assert "counts of the CPU were made again" in facts.notes[-2]


def test_a_folder_without_records_says_so(benchmark_script, tmp_path):
    with pytest.raises(StoreError, match=r"records\.json\.xz cannot be read"):
        benchmark_script("estimate_again").run_again(tmp_path, tmp_path / "again")


def test_a_run_directory_is_not_overwritten(benchmark_script, tmp_path):
    with pytest.raises(SystemExit, match="there already"):
        benchmark_script("estimate_again").run_again(tmp_path, tmp_path)
