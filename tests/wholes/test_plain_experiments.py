"""The experiments on plain kernels: short files, and right on the CPU at both ends of their space."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import Planned, plan
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
TOGETHER = 14
"""Files whose variants are built by one call, which starts nvdisasm once."""


def compiler_of(experiment):
    """NVRTC, which every machine has, for CUDA; and Triton where a function of Triton's needs it."""
    return find_triton() if experiment.toolchains == ("triton",) else toolchain("nvrtc")


@cache
def ends_of(file):
    """An experiment, and the first and the last variant of its space; none where their compiler is not here."""
    experiment = load(file)
    points, compiler = expand(experiment, max_variants=5000).points, compiler_of(experiment)
    return experiment, plan(experiment, [points[0], points[-1]], [compiler], ["sm_90"]) if compiler else ()


@cache
def built(first):
    """The builds of the variants of some files, by file."""
    variants = [(file, planned) for file in FILES[first : first + TOGETHER] for planned in ends_of(file)[1]]
    outcomes = build([build_task(planned) for _, planned in variants])
    found: dict[Path, list[tuple[Planned, object]]] = {}
    for (file, planned), outcome in zip(variants, outcomes, strict=True):
        found.setdefault(file, []).append((planned, outcome))
    return found


@pytest.mark.parametrize("place", range(len(FILES)), ids=[file.stem for file in FILES])
def test_the_first_and_the_last_variant_are_right(place):
    experiment, ends = ends_of(FILES[place])
    if not ends:
        pytest.skip("Triton is not on this machine")
    made = built(place - place % TOGETHER)[FILES[place]]
    assert len(made) == 2
    for planned, outcome in made:
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
