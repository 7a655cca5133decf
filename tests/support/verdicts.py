"""Executes small experiments on plain kernels up to the verdict, without a report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.recorded.run_records import VariantRecord
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.runs.reference import ReferenceVariant
from lab.stages.build import build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.select import toolchain


@dataclass(frozen=True)
class Trial:
    """A kernel `k` with its file.

    Attributes:
        source: CUDA, which may have several lines.
        arguments: Of the file.
        reference: Of the file, as YAML; empty for none.
        problem: Sizes.
        emulate: Sizes on the CPU; None for none.
        grid: Of the file, as YAML.
        block: Of the file.
        more: Further lines.
    """

    source: str
    arguments: str = '{y: "out float32[n]", x: "float32[n]", n: int32}'
    reference: str = "{y: x}"
    problem: str = "{n: 1000003}"
    emulate: str | None = "{n: 1003}"
    grid: str = '"ceil_div(n, 128)"'
    block: str = "128"
    more: str = ""

    @property
    def text(self) -> str:
        """The experiment file."""
        lines = ["question: q", "source: k.cu", f"problem: {self.problem}", f"arguments: {self.arguments}"]
        lines += [f"emulate: {self.emulate}"] if self.emulate else []
        lines += [f"reference: {self.reference}"] if self.reference else []
        return "\n".join([*lines, f"grid: {self.grid}", f"block: {self.block}", "archs: [sm_90]", self.more, ""])


def judge_all(trials: dict[str, Trial], folder, files: dict[str, str]) -> dict[str, VariantRecord]:
    """Return the record of each trial's first variant; all are built by one call, which starts nvdisasm once.

    Args:
        trials: By name.
        folder: Where the files are written.
        files: Files beside each of them.
    """
    variants = {}
    for name, trial in trials.items():
        place = folder / name.replace(" ", "_")
        place.mkdir()
        (place / "k.cu").write_text(trial.source)
        (place / "e.yaml").write_text(trial.text)
        for file, text in files.items():
            (place / file).write_text(text)
        experiment = load(place / "e.yaml")
        points = expand(experiment, max_variants=100).points
        variants[name] = experiment, plan(experiment, points[:1], [toolchain("nvrtc")], ["sm_90"])[0]
    outcomes = build([build_task(planned) for _, planned in variants.values()])
    records = {}
    for (name, (experiment, planned)), outcome in zip(variants.items(), outcomes, strict=True):
        context = FlowContext(experiment, None, emulate=True)
        variant = flow.inspect(context, planned, outcome, None)
        if not experiment.operator.has_reference:
            context = replace(context, reference=ReferenceVariant(variant.planned, variant.ptx, variant.cubin))
        if flow.step_after_build(context, variant, spared=False) is flow.NextStep.EMULATE:
            task = flow.emulation_task(context, variant)
            variant = flow.judge(variant, (emulate(task, variant.ptx), None))
        records[name] = variant.record
    return records
