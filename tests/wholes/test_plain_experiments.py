"""The experiments on plain kernels: short files, and right on the CPU at both ends of their space."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.select import toolchain
from lab.toolchain.triton.compiler import find_triton

FOLDER = Path(__file__).parents[2] / "experiments"
FOLDERS = ("plain", "others", "micro", "spaces")
FILES = sorted(
    file for name in FOLDERS for file in (FOLDER / name).glob("*.yaml") if "\nsource: " in f"\n{file.read_text()}"
)


def compiler_of(experiment):
    """NVRTC, which every machine has, for CUDA; and Triton where a function of Triton's needs it."""
    if experiment.toolchains != ("triton",):
        return toolchain("nvrtc")
    return find_triton() or pytest.skip("Triton is not on this machine")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_first_and_the_last_variant_are_right(file):
    experiment = load(file)
    points = expand(experiment, max_variants=5000).points
    for planned in plan(experiment, [points[0], points[-1]], [compiler_of(experiment)], ["sm_90"]):
        (outcome,) = build([build_task(planned)])
        assert isinstance(outcome, Built), outcome
        context = FlowContext(experiment, None, emulate=True)
        variant = flow.inspect(context, planned, outcome, None)
        assert flow.argument_mistake(context, variant, outcome) is None
        record = emulate(flow.emulation_task(context, variant), variant.ptx)
        assert (record.fault, record.unsupported) == ("", ""), planned.label
        assert record.verification is not None


@pytest.mark.parametrize("file", [file for file in FILES if file.parent.name != "spaces"], ids=lambda file: file.stem)
def test_a_file_is_short(file):  # a space for the benchmark of the search has a line for each parameter
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 15


def test_the_readme_shows_a_file_as_it_is(root):
    shown = re.search(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    assert (root / shown[1]).read_text() == shown[2]
