"""The schemas of a task and of a candidate's header, also as a JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from lab.base.validation import Strict
from lab.experiment.schema import Arch, PlainLaunch, Sizes, Swept, Text, Value

SourceKind = Literal["cu", "ptx", "triton"]
"""The kind of a candidate's source: CUDA, PTX, or a Triton function."""


class LaunchModel(Strict):
    """A kernel's launch; a task's is for candidates that give none."""

    kernel: Text | None = Field(None, description="The kernel of the source, where it has several")
    grid: Sizes | None = Field(None, description="Blocks in x, y and z: an expression, or a list of up to three")
    block: Sizes | None = Field(None, description="Threads of a block in x, y and z, likewise")
    shared_bytes: str | int = Field(0, description="Dynamic shared memory of a block, in bytes: an expression")
    cluster: Sizes | None = Field(None, description="Blocks of a cluster in x, y and z")


class HeaderModel(LaunchModel):
    """The header of a candidate: a comment that begins with the word `lab`."""

    launches: list[PlainLaunch] | None = Field(
        None, min_length=1, description="Several launches in order, in place of kernel, grid, block and shared_bytes"
    )
    scratch: dict[str, Text] = Field(
        default_factory=dict,
        description="Buffers besides the task's arguments: {partial: 'float32[ceil_div(n, 256)]'}; `zeros` may follow",
    )
    parameters: dict[str, Value] = Field(
        default_factory=dict, description="Macros of the source, or constexprs of a Triton function"
    )
    configs: dict[str, Value] = Field(
        default_factory=dict, description="Of a Triton function: num_warps, num_stages and num_ctas"
    )


class HiddenModel(Strict):
    """Sizes and seeds that a candidate's author does not know."""

    draws: int = Field(3, ge=1, le=16, description="Problems to draw, each with inputs of a seed of its own")
    sizes: dict[str, Swept] = Field(
        default_factory=dict,
        description="Values to draw a field of the problem from: a list, or {range: [start, stop, step]}",
    )


class PolicyModel(Strict):
    """Rules beyond the tolerance."""

    precision: Literal["declared", "any"] = Field(
        "declared",
        description="declared: results must be as exact as arithmetic in the arguments' types makes them, where the "
        "candidate has narrower arithmetic or the tolerance is wide; any: the tolerance alone decides",
    )
    deterministic: bool = Field(default=False, description="Every order of blocks and warps must give the same bits")
    aliases: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list, description="Pairs of an output and an input that a caller may pass as one array"
    )
    printing: bool = Field(default=False, description="Kernels may call printf")


class BaselineModel(Strict):
    """The time to compare with: a kernel beside the task, or a measured time."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["source"]}, {"required": ["ms"]}]})

    source: Text | None = Field(None, description="A candidate's file beside the task")
    ms: float | None = Field(None, gt=0, description="A time of the problem, in milliseconds")


class LimitsModel(Strict):
    """Limits on one verdict."""

    seconds: float = Field(120.0, gt=0, le=600, description="Time of one execution on the CPU, in seconds")
    source_bytes: int = Field(1 << 20, ge=1, le=4 << 20, description="Size of a candidate's file, in bytes")


class TaskFile(LaunchModel):
    """A task: arguments, reference and problem sizes that a candidate must satisfy."""

    title: Text | None = Field(None, description="One line on what is computed")
    problem: dict[str, Value] = Field(
        description="Sizes and other values that arguments and reference mention; times are predicted for them"
    )
    emulate: dict[str, Value] = Field(
        default_factory=dict, description="Fields of the problem to replace where it is emulated: {n: 10_000}"
    )
    arguments: dict[str, str | dict[str, str]] = Field(description="The kernel's arguments, as in an experiment")
    constants: dict[str, str] = Field(default_factory=dict, description="Contents of constant memory, likewise")
    reference: dict[str, str | int | float] | str = Field(description="Expected outputs, as in an experiment")
    tolerance: float | dict[str, float | dict[str, float]] | None = Field(
        None, description="As in an experiment; by default the bound on rounding errors of the reference"
    )
    metrics: dict[str, str] = Field(default_factory=dict, description="Throughput, as in an experiment")
    options: list[str] = Field(default_factory=list, description="Further compiler options")
    arch: Arch = Field("sm_90", description="GPU architecture to compile for")
    gpu: Text | None = Field(None, description="GPU to predict for; the architecture's usual one by default")
    sources: list[SourceKind] = Field(
        default=["cu", "ptx", "triton"], min_length=1, description="Kinds of sources to take"
    )
    baseline: BaselineModel | None = Field(None, description="The time to compare with")
    policy: PolicyModel = Field(PolicyModel.model_validate({}), description="Rules beyond the tolerance")
    hidden: HiddenModel = Field(HiddenModel.model_validate({}), description="Problems that the judge draws")
    limits: LimitsModel = Field(LimitsModel.model_validate({}), description="Limits on one verdict")


def task_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a task file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TaskFile.model_json_schema()}
