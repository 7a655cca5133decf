"""The experiments on plain kernels: short files, and right on the CPU at both ends of their space."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.emulator import api
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages import emulate as emulation
from lab.stages import full_size as stages_full_size
from lab.stages.build import Built, build, build_task
from lab.toolchain.select import toolchain
from lab.toolchain.triton.compiler import find_triton

FOLDER = Path(__file__).parents[2] / "experiments"
FOLDERS = ("plain", "others", "micro", "spaces")
FILES = sorted(
    file for name in FOLDERS for file in (FOLDER / name).glob("*.yaml") if "\nsource: " in f"\n{file.read_text()}"
)
TOGETHER = 7
"""Files that one test sees: their variants are built by one call, which starts nvdisasm once.

A test for each file would have the processes of the tests build the same variants several times.
"""
LIGHTER = {
    "micro/chase": {"words": 131072},
    "micro/code_size": {"instructions": 2048, "blocks": 1},  # 16384 take the compiler and nvdisasm 16 s
    "micro/random_sectors": {"words": 262144},
    "micro/tensor_pipes": {"blocks": 1},
    "micro/wgmma_waits": {"blocks": 1},
    "micro/working_set": {"words": 65536},
    "spaces/convolution": {"tile_x": 2, "tile_y": 2},  # 32 outputs a thread take the compiler 11 s
}
"""What the last variant of a file is told that executes the same text for a small part of the price.

The real last variants, which differ in repetitions and in the size of arrays, are thorough.
"""
FEWER_BLOCKS = {"micro/banks": 66, "micro/pipes": 66}
"""Blocks of a last variant instead of 528 and 264, which repeat what these do; the source does not name their number.

The real last variants are thorough.
"""
FEWER_STEPS = {"micro/constants": 128, "micro/pipes": 128, "micro/tensor_pipes": 16, "micro/wgmma_waits": 16}
"""Steps at full size instead of 4096: after two seconds, no block of these has ended."""
MOST_VARIANTS = 24
"""A run of so many variants gives each a third of the work at its own size; there, each file ends some blocks."""
MACHINE_CODE = {
    "micro/code_size",
    "micro/constants",
    "micro/tensor_pipes",
    "micro/wgmma_waits",
    "others/attention_row",
    "others/dot",
    "others/flash_attention",
    "others/matmul",
    "plain/nbody",
    "spaces/interactions",
}
"""Files of which blocks at full size end as machine code alone; the others' are interpreted, which reads few pages.

The thorough tests execute all of them as a run does: as machine code where there are more than a few instructions.
"""
ARCHS = re.compile(r"sm_90a?")
PARTS = [FILES[first : first + TOGETHER] for first in range(0, len(FILES), TOGETHER)]


def compiler_of(experiment):
    """NVRTC, which every machine has, for CUDA; and Triton where a function of Triton's needs it."""
    own = experiment.kernels[0].toolchain
    return find_triton() if own == "triton" else toolchain(own or "nvrtc")


def ends_of(file, *, lighter=True):
    """An experiment, and the first and the last variant of its space; none where their compiler is not here."""
    experiment, name = load(file), f"{file.parent.name}/{file.stem}"
    told = LIGHTER.get(name, {}) if lighter else {}
    points, compiler = expand(experiment, max_variants=5000).points, compiler_of(experiment)
    arch = next((arch for arch in experiment.archs if ARCHS.fullmatch(arch)), "sm_90")  # sm_90a, where wgmma is
    ends = points[0], [point for point in points if told.items() <= point.parameters.items()][-1]
    if lighter:
        ends = tuple(shortened(name, point) for point in ends)
    return experiment, plan(experiment, ends, [compiler], [arch]) if compiler else ()


def shortened(name, point):
    """Return a point with the blocks and the steps of the gate; those of a single block stay."""
    blocks, steps = FEWER_BLOCKS.get(name, 1), FEWER_STEPS.get(name)
    if point.parameters.get("blocks", 1) > blocks > 1:
        point = replace(point, parameters={**point.parameters, "blocks": blocks})
    if steps is None:
        return point
    values = type(point.problem.values).restored({**point.problem.values, "steps": steps})
    return replace(point, problem=replace(point.problem, values=values))


def what_is_wrong(experiment, planned, outcome, *, sampled, full_size=True, variants=1):
    """Return the faults of a built variant under emulation; empty where it is correct.

    Args:
        experiment: The experiment.
        planned: The variant.
        outcome: Its build.
        sampled: Execute the samples, too, which is done for their counts, with kernels whose results are right already.
        full_size: Execute blocks at the problem's own size; otherwise the emulated size under other conditions.
        variants: Variants of the run; those of many do less work at the problem's own size, where some blocks must end.
    """
    if not isinstance(outcome, Built):
        return str(outcome)
    context = FlowContext(experiment, None, emulate=True, variants=variants)
    variant = flow.inspect(context, planned, outcome, None)
    if (mistake := flow.argument_mistake(context, variant, outcome)) is not None:
        return str(mistake)
    task = flow.emulation_task(context, variant)
    if not sampled:
        task = replace(task, samples=(), halved=())
    with pytest.MonkeyPatch.context() as patch:
        if full_size:
            patch.setattr(emulation, "other_conditions", lambda judged: ((), ()))
        else:
            task = replace(task, full_size=None)
        record = emulation.emulate(task, variant.ptx)
    if record.suspicions:
        return "; ".join(suspicion.summary for suspicion in record.suspicions)
    if variants > 1 and full_size and record.full_size is not None and not record.full_size.blocks:
        return f"nothing was executed at full size: {record.not_shown}"
    return record.fault or record.unsupported or ("" if record.verification is not None else "nothing was verified")


def parts():
    """The files; every third is executed at the sizes of its samples, too, and the others where asked for.

    In the gate, one end of a space is executed at full size and the other one under other conditions; both in turn. The
    thorough tests do as much work at full size as a run of one variant.
    """
    for part in PARTS:
        shown = f"{part[0].stem}..{part[-1].stem}"
        yield pytest.param(part, part[::3], 0, MOST_VARIANTS, id=shown)
        yield pytest.param(part, part, 0, 1, id=f"{shown}-all sampled", marks=pytest.mark.thorough)
        yield pytest.param(part, [], 1, 1, id=f"{shown}-ends exchanged", marks=pytest.mark.thorough)


@pytest.fixture
def untraced(monkeypatch):
    """The first blocks are not executed once more for what they read again, which nothing here looks at."""
    monkeypatch.setattr(api, "_traced", lambda request, tables, traced: (None, ()))


@pytest.mark.parametrize(("files", "sampled", "turn", "run_of"), list(parts()))
def test_the_first_and_the_last_variant_are_right(files, sampled, turn, run_of, untraced, monkeypatch):
    """Files whose compiler is not on this machine (Triton's) are left out; samples are executed of first variants."""
    most_bytes = stages_full_size._MATERIALISED
    variants = [(file, experiment, end) for file in files for experiment, ends in [ends_of(file)] for end in ends]
    assert all(sum(file == known for known, _, _ in variants) in {0, 2} for file in files)
    outcomes = build([build_task(planned) for _, _, planned in variants])
    wrong = {}
    for i, ((file, experiment, planned), outcome) in enumerate(zip(variants, outcomes, strict=True)):
        at_full_size = (i + i // 2 + turn) % 2 == 0
        is_compiled = run_of == 1 or f"{file.parent.name}/{file.stem}" in MACHINE_CODE
        monkeypatch.setattr(stages_full_size, "_MATERIALISED", most_bytes if is_compiled else 0)
        options = {"sampled": i % 2 == 0 and file in sampled, "full_size": at_full_size, "variants": run_of}
        if what := what_is_wrong(experiment, planned, outcome, **options):
            wrong[f"{file.name}: {planned.label}"] = what
    assert wrong == {}


@pytest.mark.thorough  # the text of a variant that the gate executes, with more repetitions and larger arrays
@pytest.mark.parametrize("name", dict.fromkeys((*LIGHTER, *FEWER_BLOCKS, *FEWER_STEPS)))
def test_a_last_variant_that_is_dear_is_right(name):
    experiment, (_, planned) = ends_of(FOLDER / f"{name}.yaml", lighter=False)
    (outcome,) = build([build_task(planned)])
    assert what_is_wrong(experiment, planned, outcome, sampled=False) == ""


@pytest.mark.parametrize("file", [file for file in FILES if file.parent.name != "spaces"], ids=lambda file: file.stem)
def test_a_file_is_short(file):  # a space for the benchmark of the search has a line for each parameter
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 15


def test_the_readme_shows_a_file_as_it_is(root):
    shown = re.search(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    assert (root / shown[1]).read_text() == shown[2]
