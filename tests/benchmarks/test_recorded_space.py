"""The file of a measured space: what was written is read again."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("recorded_space")


def test_a_space_is_read_as_it_was_written(script, tmp_path):
    fine = script.RecordedVariant({"a": 1, "b": "x"}, 0.25, 0.01, 10, "", {"registers": 32}, {"estimate": 0.2})
    failed = script.RecordedVariant({"a": 2, "b": "x"}, None, None, 0, "compile failed", {}, {})
    space = script.RecordedSpace("s", "text", {"gpu": "G"}, {"a": (1, 2), "b": ("x",)}, (fine, failed))
    script.write(space, tmp_path / "s.json.gz")
    first = (tmp_path / "s.json.gz").read_bytes()
    assert script.read(tmp_path / "s.json.gz") == space
    script.write(space, tmp_path / "s.json.gz")
    assert (tmp_path / "s.json.gz").read_bytes() == first
    assert space.best_ms == 0.25


CACHE = """{"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": [10], "tune_params_keys": ["x", "pad"],
"tune_params": {"x": [16, 32], "pad": [true, false]}, "objective": "time", "cache": {
"16,True": {"x": 16, "pad": true, "time": 2.0, "times": [2.0, 2.0]},
"32,True": {"x": 32, "pad": true, "time": "RuntimeFailedConfig", "times": []},
"32,False": {"x": 32, "pad": false, "time": 1.5, "times": [1.5]}"""
T4 = """{"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": [
{"configuration": {"x": 16, "pad": true}, "times": {"runtimes": [2.0, 2.0]}, "invalidity": "correct",
 "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}], "objectives": ["time"]},
{"configuration": {"x": 32, "pad": true}, "times": {}, "invalidity": "runtime", "measurements": [], "objectives": []},
{"configuration": {"x": 32, "pad": false}, "times": {"runtimes": [1.5]}, "invalidity": "correct",
 "measurements": [{"name": "time", "value": 1500, "unit": "us"}], "objectives": ["time"]}]}"""


@pytest.mark.parametrize("text", [CACHE, CACHE + "}}", T4])
def test_what_others_recorded_is_replayed_as_it_is(benchmark_script, tmp_path, text):
    file = tmp_path / "others.json"
    file.write_text(text)
    space = benchmark_script("recorded_space").read(file)
    assert (space.name, space.values) == ("others", {"x": (16, 32), "pad": (True, False)})
    met = [(variant.parameters["x"], variant.ms, variant.n) for variant in space.variants]
    assert met == [(16, 2.0, 2), (32, None, 0), (32, 1.5, 1)]
    search = benchmark_script("search")
    assert sorted(search._replay_of(file).ms.values()) == [1.5, 2.0, float("inf")]
    paths = [search.path_of(file, strategy, 9, seed) for strategy in ("surrogate", "random") for seed in range(5)]
    assert all(min(path) == 1.5 and len(path) <= 3 for path in paths)
