"""The shape of an experiment file, and the JSON Schema that editors complete and check it with."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

_SCALAR_SCHEMA: dict[str, Any] = {"type": ["boolean", "integer", "number", "string"]}
_SWEEP_SCHEMA: dict[str, Any] = {"anyOf": [_SCALAR_SCHEMA, {"type": "array", "items": _SCALAR_SCHEMA, "minItems": 1}]}

# Values are judged by the template's own declaration, which says more than a type could; see `lab.experiment.load`.
Swept = Annotated[Any, WithJsonSchema(_SWEEP_SCHEMA)]
Value = Annotated[Any, WithJsonSchema(_SCALAR_SCHEMA)]
Arch = Annotated[str, StringConstraints(pattern=r"^(native|sm_[0-9]{2,3}[af]?)$")]
Text = Annotated[str, StringConstraints(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelModel(_Strict):
    """One kernel: a template with its parameters. A scalar is fixed, a list is swept."""

    template: Text = Field(description="Path of a template, below kernel_src/ or beside this file: gemm/tiled.cu.j2")
    name: Text | None = Field(None, description="Name in the report, a ladder's rung; the template's stem by default")
    parameters: dict[str, Swept] = Field(
        default_factory=dict, description="Parameter to its value, or to the list of values to sweep"
    )
    constraints: list[str] = Field(
        default_factory=list,
        description="Jinja expressions over the parameters; points where one is false are left out",
    )


class ExperimentFile(_Strict):
    """An experiment: one question, the problem, and the kernels that answer it."""

    question: Text = Field(description="What the experiment asks; the report opens with it")
    operator: Text = Field(
        description="What is computed: gemm, copy, transpose, or ./file.py:Class of your own (this runs that file)"
    )
    problem: dict[str, Value] = Field(description="The operator's problem: {m: 4096, n: 4096, k: 4096, dtype: float32}")
    kernels: list[KernelModel] = Field(min_length=1, description="A ladder is a list of kernels; a sweep is one")
    emulate: dict[str, Value] | None = Field(
        None, description="Fields of the problem to replace where it is executed on the CPU: {m: 256, n: 128, k: 64}"
    )
    baselines: list[str] = Field(default_factory=list, max_length=1, description="What to compare with: [cublas]")
    toolchains: list[str] = Field(
        default_factory=lambda: ["auto"],
        min_length=1,
        description="auto, nvrtc, nvcc; a version may follow: nvrtc==13.5. Every variant is built with each",
    )
    archs: list[Arch] = Field(
        default_factory=lambda: ["native"],
        min_length=1,
        description="GPU architectures: sm_90; native is this machine's GPU. Every variant is built for each",
    )
    options: list[str] = Field(default_factory=list, description="Further compiler options: [--use_fast_math]")
    gpu: str | None = Field(None, description="The GPU that predictions are for: H200; the arch's usual one by default")
    seed: int = Field(0, ge=0, description="Of the random inputs")


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of an experiment file."""
    schema = ExperimentFile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "lab experiment"
    return schema
