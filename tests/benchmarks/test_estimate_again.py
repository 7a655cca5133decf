"""`benchmarks/estimate_again.py`: predictions of a published report are made again, and nothing else is touched."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.predict.schedulers.estimate import Estimate
from lab.runs import pipeline as running
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


@pytest.fixture
def report(benchmark_script, tmp_path):
    """A published run whose estimates are wrong, and the first of whose variants was other machine code."""
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    running.run(tmp_path / "small.yaml", running.RunOptions(output=tmp_path / "run", measure=False))
    with Store(tmp_path / "run") as store:
        right = store.records()
    benchmark_script("publish").publish(tmp_path / "run", tmp_path / "published")
    file = tmp_path / "published" / "records.json"
    made = json.loads(file.read_text())
    for record in made["records"]:
        record["estimate"] = {"tflops": 1.0, "cycles": 1.0, "shares": {}}
    made["records"][0]["build"]["sass_sha256"] = "0"
    file.write_text(json.dumps(made))
    return right


def test_predictions_are_made_again_and_the_rest_stays(benchmark_script, tmp_path, report):
    script = benchmark_script("estimate_again")
    facts = script.run_again(tmp_path / "published", tmp_path / "again", experiments=tmp_path, jobs=1)
    with Store(tmp_path / "again") as store:
        found = {record.variant: record for record in store.records()}
        assert store.read_file(report[1].variant, "kernel.sass")
    other, same = report
    assert found[same.variant] == same
    assert same.estimate.tflops > 1
    changed = replace(other, estimate=None, build=replace(other.build, sass_sha256="0"))
    assert found[other.variant] == changed
    assert "made again by lab" in facts.notes[-2]
    assert facts.notes[-1].startswith("1 variants have no estimate")
    assert (tmp_path / "again" / "index.html").exists()


def test_the_wrong_estimates_were_there(benchmark_script, tmp_path, report):
    _, found = benchmark_script("estimate_again").published(tmp_path / "published")
    assert [record.estimate for record in found] == [Estimate(1.0, 1.0, {})] * len(report)


def test_a_report_without_records_says_so(benchmark_script, tmp_path):
    with pytest.raises(SystemExit, match=r"no records\.json"):
        benchmark_script("estimate_again").published(tmp_path)


def test_a_report_of_an_earlier_form_says_so(benchmark_script, tmp_path):
    (tmp_path / "records.json").write_text('{"run": {}, "records": []}')
    with pytest.raises(SystemExit, match="earlier form"):
        benchmark_script("estimate_again").published(tmp_path)


def test_a_run_directory_is_not_overwritten(benchmark_script, tmp_path):
    with pytest.raises(SystemExit, match="there already"):
        benchmark_script("estimate_again").run_again(tmp_path, tmp_path)
