"""On a disk that fills up, whatever is being written then, a command ends with a sentence and loses nothing.

The moments are found by listening to what the process writes. `LAB_EVERY=1` walks through all of them; the gate takes
some of them.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import played
import pytest
from full_disk import at_every_moment, on_a_full_disk
from run_support import InProcess, all_played

from lab.base.files import write_atomically
from lab.isa.sass.lines import LineTable
from lab.report.render import render
from lab.runs.pipeline import RunOptions, run
from lab.runs.services import Services
from lab.store.tuning import TuningStore
from lab.store.tuning_model import TimingStage
from lab.toolchain.base import Build, Disassembly
from lab.toolchain.cache import Cache
from lab.tuning.run import TuningOptions, tune

EVERY = int(os.environ.get("LAB_EVERY", "0"))
TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels: [{template: mine.cu.j2, parameters: {first: [1, 2]}}]
baselines: [cublas]
archs: [sm_90]
"""
TUNING = """question: Which?
arch: sm_90
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
    ForkParameters: {ThreadTile: [[4, 4]]}
    BenchmarkFinalParameters: [{exact: [64, 64, 64]}, {range: [[16, 16, 32], 16, 16]}]
"""


@pytest.fixture
def folder():
    """A folder in memory where there is one: a disk takes its time to write each transaction."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder of its own below it
    with tempfile.TemporaryDirectory(dir=memory, prefix="lab-test-") as name:
        yield Path(name)


def moments(first, step):
    return itertools.count(1, EVERY) if EVERY else itertools.count(first, step)


def in_words(ended):
    """Exit code 3: nothing is wrong with the input, and nothing with lab."""
    return "StoreError" in ended.error and "cannot be" in ended.text


@pytest.mark.parametrize(("recovers", "first"), [(False, 7), (True, 40)])
def test_a_run_on_a_full_disk_says_so_and_goes_on_later(folder, recovers, first):
    (folder / "mine.cu.j2").write_text(TEMPLATE)
    (folder / "small.yaml").write_text(EXPERIMENT)

    def go(name, resume=None):
        options = RunOptions(output=folder / name, jobs=1, resume=resume)
        return run(folder / "small.yaml", options, None, all_played())

    def content(outcome):
        return replace(outcome.run, started="", command=""), outcome.records

    whole = content(go("whole"))
    failures = 0
    for moment in moments(first, 21):
        name = f"at {moment}"
        ended = on_a_full_disk(partial(go, name), folder, moment, recovers=recovers)
        assert not ended.error or in_words(ended), ended
        assert not list((folder / name).rglob(".*"))
        begun = (folder / name / "run.sqlite").is_file()
        assert content(go(name, resume=True if begun else None)) == whole, ended
        failures += bool(ended.error)
        if not ended.moment:
            break
    assert failures


def test_a_tuning_run_on_a_full_disk_says_so_and_goes_on_later(folder, monkeypatch):
    monkeypatch.setattr("lab.report.tuning.render.render", lambda store: ())
    (folder / "small.yaml").write_text(TUNING)
    services = Services(prepare=lambda: None, executor=InProcess)

    def go(name, resume=None):
        options = TuningOptions(output=folder / name, measure=False, jobs=1, resume=resume)
        return tune(folder / "small.yaml", options, played.Watched(), services)

    def content(outcome):
        with TuningStore(outcome.folder) as store:
            times = {stage: store.times(stage) for stage in TimingStage}
            facts = replace(store.facts(), started="", command="")
            return times, {kernel.id for kernel in store.kernels()}, store.steps(), facts, files(outcome.libraries)

    def files(folders):
        return {
            path.name: path.read_bytes() for folder in folders for path in folder.iterdir() if path.suffix != ".json"
        }

    whole = content(go("whole"))
    failures = 0
    for moment in moments(12, 25):
        name = f"at {moment}"
        ended = on_a_full_disk(partial(go, name), folder, moment)
        assert not ended.error or in_words(ended) or "OSError" in ended.error, ended
        assert str(folder / name) in ended.text or not ended.error, ended
        begun = (folder / name / "tuning.sqlite").is_file()
        assert content(go(name, resume=True if begun else None)) == whole, ended
        failures += bool(ended.error)
        if not ended.moment:
            break
    assert failures


def test_a_report_on_a_full_disk_is_an_error_in_words(make):
    with make("no_gpu") as store:
        *ends, undisturbed = at_every_moment(lambda: render(store), store.folder)
    assert not undisturbed.error
    assert len(ends) > 10
    assert all(in_words(ended) and str(store.folder) in ended.text for ended in ends), ends


def test_a_cache_on_a_full_disk_is_left_alone(folder):
    build = Build("ptx", b"cubin", {}, "", "nvcc", "nvrtc", "13", "sm_90", 0.0)
    listing = Disassembly("sass", LineTable((), {}), "13")
    cache = Cache(folder / "cache")

    def put():
        cache.put("key", build, listing)
        found = cache.get("key")
        assert found is None or found == (build, listing)

    every = at_every_moment(put, folder)
    assert len(every) > 2
    assert not any(ended.error for ended in every), every
    assert cache.get("key") == (build, listing)


def test_a_file_that_cannot_be_written_is_named(folder):
    (ended,) = {
        one.text.replace(str(folder), "")
        for one in at_every_moment(lambda: write_atomically(folder / "a", "b"), folder)
        if one.error
    }
    assert ended == "[Errno 28] No space left on device: '/a'"
