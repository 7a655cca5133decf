"""Files as users have them, host code and all, through load, plan, build and execution on the CPU."""

from __future__ import annotations

import pytest
from plain_files import FILES, write

from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.select import toolchain


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_host_code_is_an_experiment(name, tmp_path):
    experiment = load(write(name, tmp_path))
    points = expand(experiment).points
    assert len(points) == 2
    both = plan(experiment, points, [toolchain("nvrtc")], ["sm_90"])
    for planned, outcome in zip(both, build([build_task(one) for one in both]), strict=True):
        assert "int main" not in planned.request.source
        assert isinstance(outcome, Built), outcome
        context = FlowContext(experiment, None, emulate=True)
        variant = flow.inspect(context, planned, outcome, None)
        assert flow.argument_mistake(context, variant, outcome) is None
        assert flow.constant_mistake(context, variant, outcome) is None
        record = emulate(flow.emulation_task(context, variant), variant.ptx)
        assert (record.fault, record.unsupported) == ("", "")
        assert record.verification is not None
        assert record.verification.passed, record.verification
