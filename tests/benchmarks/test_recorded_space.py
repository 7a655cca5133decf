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
