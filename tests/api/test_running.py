"""A mapping through the pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mistakes import coded

import lab
from lab.base.errors import UserError
from lab.recorded.run_records import Status

SOURCE = """__global__ void scale(float* y, const float* x, int n)
{ int i = blockIdx.x * block + threadIdx.x; if (i < n) y[i] = FACTOR * x[i]; }
"""


def experiment(**changed):
    return {
        "source": SOURCE,
        "problem": {"n": 500},
        "emulate": {},
        "arguments": {"y": "out float32[n]", "x": np.linspace(0, 1, 500, dtype=np.float32), "n": "int32"},
        "parameters": {"block": 64, "FACTOR": [2, 3]},
        "grid": "ceil_div(n, block)",
        "block": "block",
        "reference": lambda x: 2 * x,
        "archs": ["sm_90"],
        **changed,
    }


def test_a_mapping_runs_and_can_be_repeated_from_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = lab.run(experiment(), jobs=1, gpu=False)
    assert outcome.folder == Path("reports/scale")
    found = {variant.parameters["FACTOR"]: variant.record for variant in outcome.variants}
    assert found[2].status is Status.VERIFIED
    assert found[3].status is Status.WRONG
    assert "expected" in found[3].reason
    assert "scale" in outcome.variant(found[2].variant[:6]).sass
    assert "FACTOR=2" in repr(outcome)
    again = lab.run(outcome.folder / "input" / "scale.yaml", output="again", jobs=1, gpu=False)
    assert again.frame["status"].tolist() == outcome.frame["status"].tolist()
    assert lab.load("again").records == again.records


def test_mistakes_have_keys_and_no_place(tmp_path):
    with pytest.raises(UserError) as caught:
        lab.run(
            experiment(parameters={"block": 64, "FACTOR": 2, "n2": "x"}, grid="ceil_div(m, block)"), output=tmp_path
        )
    assert (caught.value.at, caught.value.key) == (None, "grid")
    with pytest.raises(UserError) as caught:
        lab.run(experiment(block=2048), output=tmp_path, gpu=False)  # found where the launch is planned
    assert "2048" in str(caught.value)
    assert "input/scale.yaml" not in str(caught.value)


def test_another_place_than_this_machine_is_refused(tmp_path):
    for command in (lab.run, lab.tune):
        with pytest.raises(UserError, check=coded("unsupported", key="cluster", found="tls://host:8786")):
            command(tmp_path / "any.yaml", cluster="tls://host:8786")
