"""The schema of experiment files, also as a JSON Schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema

from lab.base.validation import Strict

_SCALAR_SCHEMA: dict[str, Any] = {"type": ["boolean", "integer", "number", "string"]}
_RANGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"range": {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3}},
    "required": ["range"],
    "additionalProperties": False,
    "description": "[start, stop, step]; stop is included where a step lands on it",
}
_SWEEP_SCHEMA: dict[str, Any] = {
    "anyOf": [_SCALAR_SCHEMA, {"type": "array", "items": _SCALAR_SCHEMA, "minItems": 1}, _RANGE_SCHEMA]
}
_PROBLEM_SCHEMA: dict[str, Any] = {"type": "object", "additionalProperties": _SWEEP_SCHEMA}
_NAMED_PROBLEM_SCHEMA: dict[str, Any] = {
    **_PROBLEM_SCHEMA,
    "properties": {
        "name": {"type": "string", "description": "Name of this problem in reports"},
        "emulate": {
            "anyOf": [{"type": "object", "additionalProperties": _SCALAR_SCHEMA}, {"const": "full"}],
            "description": "Fields of this problem to replace where it is executed on the CPU, or full",
        },
    },
}
_PROBLEMS_SCHEMA: dict[str, Any] = {
    "anyOf": [_PROBLEM_SCHEMA, {"type": "array", "items": _NAMED_PROBLEM_SCHEMA, "minItems": 1}]
}

# Values are judged by the template's own declaration, which says more than a type could; see `lab.experiment.load`.
Swept = Annotated[Any, WithJsonSchema(_SWEEP_SCHEMA)]
Value = Annotated[Any, WithJsonSchema(_SCALAR_SCHEMA)]
Problems = Annotated[Any, WithJsonSchema(_PROBLEMS_SCHEMA)]  # judged by the operator; see `lab.experiment.problems`
Sizes = str | int | Annotated[list[str | int], Field(min_length=1, max_length=3)]
Arch = Annotated[str, StringConstraints(pattern=r"^(auto|native|sm_[0-9]{2,3}[af]?)$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Passed = str | bool | int | float  # what stands for a parameter of a kernel; a number or true stands for itself
MOST_NAME_LENGTH = 100
Name = Annotated[str, StringConstraints(min_length=1, max_length=MOST_NAME_LENGTH)]


class PlainLaunch(Strict):
    """One of several launches of a plain kernel file."""

    kernel: Text = Field(description="The kernel: add, or an instantiation of a template: add<float, {block_size_x}>")
    grid: Sizes = Field(description="Blocks in x, y and z: an expression, or a list of up to three")
    block: Sizes = Field(description="Threads of a block in x, y and z, likewise")
    arguments: list[str] = Field(description="Names of the file's arguments, in this kernel's order")
    shared_bytes: str | int = Field(0, description="Dynamic shared memory of a block, in bytes")
    carveout: str | int = Field("default", description="As of a single launch")
    cluster: Sizes | None = Field(None, description="As of a single launch")
    when: str | None = Field(default=None, description="Launch only if this expression is true")


class SourceModel(Strict):
    """The launch of a user's kernel."""

    kernel: Text | None = Field(
        None,
        description="The kernel of the file, where it has several; add<float, {block_size_x}> instantiates a template",
    )
    root: Text | None = Field(
        None,
        description="The highest folder of which the source may include files, relative to this file: ../.. ; by "
        "default the folder of this file",
    )
    include: list[Text] = Field(
        default_factory=list, description="Further folders of headers below the root, relative to this file"
    )
    parameters: dict[str, Swept] = Field(
        default_factory=dict,
        description="Macros of the source, or constexprs of a Triton function: a value, a list of values to sweep, or "
        "{range: [start, stop, step]}",
    )
    configs: dict[str, Swept] | list[dict[str, Swept]] | Literal["autotune"] | None = Field(
        None,
        description="Of a Triton function, num_warps, num_stages, num_ctas and its constexprs: {num_warps: [4, 8]} is "
        "swept, a list of mappings is for values that vary together, and autotune takes those of the decorator",
    )
    constraints: list[str] = Field(
        default_factory=list,
        description="Expressions over parameters, problem and facts of an SM; points where one is false are left out",
    )
    grid: Sizes | None = Field(None, description="Blocks in x, y and z: an expression, or a list of up to three")
    block: Sizes | None = Field(None, description="Threads of a block in x, y and z, likewise")
    shared_bytes: str | int = Field(0, description="Dynamic shared memory of a block, in bytes: an expression")
    carveout: str | int = Field(
        "default",
        description="Preferred shared memory of an SM, of which L1 has the rest: default (the driver decides), l1, "
        "shared, or a percentage of the largest, 0 to 100: an expression, whose -1 is default",
    )
    cluster: Sizes | None = Field(
        None,
        description="Blocks of a cluster in x, y and z, where the launch asks for clusters and not __cluster_dims__: "
        "an expression, or a list of up to three",
    )
    launches: list[PlainLaunch] | None = Field(
        None,
        min_length=1,
        description="Several launches in order, in place of kernel, grid, block, shared_bytes, carveout and cluster",
    )


class KernelModel(SourceModel):
    """One kernel: a template, or a user's source, with its parameters."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["template"]}, {"required": ["source"]}]})

    template: Text | None = Field(
        None, description="Path of a template, below kernel_src/ or beside this file: gemm/tiled.cu.j2"
    )
    source: Text | None = Field(
        None,
        description="In place of a template, a kernel of your own: matmul.cu, whose parameters are macros; kernel.ptx; "
        "or matmul.py:kernel, a Triton function (this runs that file)",
    )
    name: Name | None = Field(
        None, description="Name in the report, a ladder's rung; the template's stem or the kernel's name by default"
    )
    arguments: dict[str, Passed | dict[str, Passed]] | None = Field(
        None,
        description="For a source: the value of each of the kernel's parameters, in its order: an array or a scalar "
        "of the operator, an expression over the problem and parameters, `TYPE = EXPRESSION`, or `TYPE[SHAPE]` "
        "for a scratch buffer, which `zeros` may follow",
    )
    parameters: dict[str, Swept] = Field(
        default_factory=dict,
        description="Parameter to its value, to a list of values to sweep, or to {range: [start, stop, step]}; of a "
        "source, a macro or a constexpr",
    )


class PruneModel(Strict):
    """Variants of a search that are only built and inspected, not executed or measured."""

    spills: bool = Field(default=True, description="Leave out variants whose registers spill to local memory")
    below_prediction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Leave out variants with a predicted ceiling below this share of the best so far; 0 keeps all",
    )
    below_measured: bool = Field(
        default=True,
        description="Leave out variants with a predicted ceiling below the best throughput measured so far",
    )


class RefineModel(Strict):
    """Continuation of a search from its best variants."""

    top: int = Field(10, ge=1, description="Variants to start from in each round, for each problem")
    rounds: int = Field(2, ge=0, description="Rounds: each tries the neighbours, which differ in one parameter")


Strategy = Literal[
    "random", "exhaustive", "annealing", "genetic", "differential_evolution", "tabu_greywolf", "prior", "surrogate"
]


class StopModel(Strict):
    """Condition under which a search ends before its budget is spent."""

    better: float = Field(0.01, gt=0, lt=1, description="How much faster a variant must be to be worth finding: 0.01")
    odds: float = Field(
        0.05, ge=0, lt=1, description="The search ends once the odds that there is such a variant are below this"
    )


class SearchModel(Strict):
    """Search the space instead of running all of it: a random sample, or step by step by a strategy."""

    strategy: Strategy = Field(
        "random",
        description="random draws a sample; annealing, genetic, differential_evolution and tabu_greywolf go on from "
        "what was measured; prior measures in the order of the predicted times; surrogate measures what a model of the "
        "times, which begins with the predicted ones, expects to improve most; exhaustive measures everything in the "
        "experiment's order",
    )
    sample: int | None = Field(
        None, ge=1, description="random: points to draw from those that every constraint and requirement allows"
    )
    evaluations: int | None = Field(
        None, ge=1, description="The other strategies: the most variants to measure, for each problem"
    )
    seconds: float | None = Field(
        None, gt=0, description="The other strategies: time after which nothing further is asked for, in seconds"
    )
    candidates: int | None = Field(
        None,
        ge=0,
        description="prior and surrogate: points that are built and predicted before any is measured, 1000 by default, "
        "drawn at random where there are more. surrogate with 0 knows nothing beforehand",
    )
    known: Text | None = Field(
        None,
        description="prior and surrogate: a file of times of this space from elsewhere, as another GPU, in place of "
        "predictions: a cache file of Kernel Tuner, or T4 results. Points that it lacks are not searched",
    )
    batch: int | None = Field(
        None,
        ge=1,
        description="The other strategies: variants to measure before the next ones are chosen; 1 by default where all "
        "candidates are built beforehand, else 8, which are built side by side",
    )
    stop: StopModel | None = Field(
        StopModel.model_validate({}),
        description="The other strategies: when the search ends early; null measures until the budget is spent",
    )
    seed: int = Field(0, ge=0, description="Seed of whatever is drawn: the same seed draws the same points")
    prune: PruneModel = Field(PruneModel.model_validate({}), description="Which variants are not worth measuring")
    refine: RefineModel | None = Field(
        None, description="random: rounds of neighbours after the sample; none by default"
    )


class ProfileModel(Strict):
    """Variants that are launched again under Nsight Compute to read their hardware counters."""

    top: int = Field(1, ge=0, description="How many of the fastest variants of each kernel, for each problem")
    strays: int = Field(
        3,
        ge=0,
        description="How many more: those whose estimate, or else ceiling, is furthest from the measured throughput",
    )
    at_most: int = Field(
        48,
        ge=1,
        description="The most variants in all; of more, those of problems evenly spread over the sweep are taken",
    )
    seconds: float = Field(300.0, gt=0, description="Time in seconds after which no further variant is started")


class MeasuringFile(Strict):
    """Keys common to all experiment files."""

    emulate: dict[str, Value] | Literal["full"] | None = Field(
        None,
        description="Fields of the problem to replace where it is executed on the CPU: {m: 256, n: 128, k: 64}. A size "
        "that is smaller in the problem stays. full executes the problem itself as machine code, which checks bounds, "
        "but neither races nor reads of memory that nothing wrote",
    )
    emulate_at_most: int | None = Field(
        None, ge=1, description="The most variants to execute on the CPU, evenly spread over the sweep; all by default"
    )
    baselines: list[str] = Field(
        default_factory=list,
        description="Baselines; ratios refer to the first: [cublas], or [copy, torch, triton]. A baseline "
        "that this machine lacks is reported and left out",
    )
    cache: Literal["auto", "cold", "warm"] = Field(
        "auto",
        description="State of the L2 cache: cold flushes it before each repetition, warm does not; auto is cold except "
        "for launches so short that they are timed in batches",
    )
    toolchains: list[str] = Field(
        default_factory=lambda: ["auto"],
        min_length=1,
        description="auto, nvrtc, nvcc; a version may follow: nvrtc==13.5. Every variant is built with each",
    )
    archs: list[Arch] = Field(
        default_factory=lambda: ["native"],
        min_length=1,
        description="GPU architectures: sm_90; native is this machine's GPU, auto is that or, without one, sm_90. "
        "Every variant is built for each",
    )
    options: list[str] | list[list[str]] = Field(
        default_factory=list,
        description="Further compiler options: [--use_fast_math, --maxrregcount=64, -DNAME=VALUE]. A list of lists is "
        "swept: every variant is built with each",
    )
    gpu: str | list[str] | None = Field(
        None,
        description="GPU to predict for: RTX 4090; a list where archs name several; the arch's usual one by default",
    )
    seed: int = Field(0, ge=0, description="Seed of the random inputs")
    search: SearchModel | None = Field(
        None,
        description="For spaces too large to run whole: {strategy: surrogate, evaluations: 60}, or {sample: 400, "
        "seed: 0, refine: {top: 10, rounds: 2}}",
    )
    profile: ProfileModel | None = Field(
        None, description="Read hardware counters of the best variants after they were timed: {} or {top: 2, strays: 3}"
    )


class ExperimentFile(MeasuringFile):
    """An experiment: one question, the problem, and the kernels that answer it."""

    question: Text = Field(description="What the experiment asks; the report opens with it")
    operator: Text = Field(
        description="What is computed: gemm, contraction, softmax, copy, transpose, or ./file.py:Class of your "
        "own (this runs that file)"
    )
    problem: Problems = Field(
        description="The operator's problem: {m: 4096, n: 4096, k: 4096, dtype: float32}. A list, or {range: [start, "
        "stop, step]}, instead of a value is swept; a list of mappings is for sizes that vary together, and each may "
        "have a name and an emulate of its own"
    )
    kernels: list[KernelModel] = Field(min_length=1, description="A ladder is a list of kernels; a sweep is one")


class PlainFile(MeasuringFile, SourceModel):
    """An experiment on a user's kernel: a CUDA file, a PTX file or a Triton function."""

    source: Text = Field(
        description="The kernel: vector_add.cu, whose parameters are macros; kernel.ptx; or softmax.py:kernel, a "
        "Triton function (this runs that file)"
    )
    question: Text | None = Field(None, description="What the experiment asks; the report opens with it")
    problem: Problems = Field(
        default_factory=dict,
        description="Sizes and other values that arguments, grid and references mention: {n: 10_000_000}. A list "
        "instead of a value is swept",
    )
    arguments: dict[str, str | dict[str, str]] = Field(
        description="The kernel's arguments in its order. An array is `[out [partial]|inout|scratch] [unordered] "
        "DTYPE[SHAPE] [normal | uniform LOW HIGH | zeros | ones | range | FILE.npy]`; a scalar is its type, and may be "
        "followed by = and an expression; a structure that is passed by value is a mapping of its members"
    )
    constants: dict[str, str] = Field(
        default_factory=dict,
        description="Contents of variables in constant memory (`__constant__ float filter[9]`), in the same forms: "
        "{filter: float32[9] normal}",
    )
    reference: dict[str, str | int | float] | str | None = Field(
        None,
        description="Expected contents of each output: {c: a + b}, with NumPy's functions by name; {c: 0}; "
        "{c: expected.npy}; or "
        "./ref.py:function (this runs that file)",
    )
    tolerance: float | dict[str, float | dict[str, float]] | None = Field(
        None,
        description="The largest relative error of an output, in place of the one that its type implies; "
        "{c: {relative: 1e-5, absolute: 1e-6}} is as in numpy.allclose",
    )
    archs: list[Arch] = Field(
        default_factory=lambda: ["auto"],
        min_length=1,
        description="GPU architectures: sm_90; auto, the default, is this machine's GPU or, without one, sm_90",
    )
    metrics: dict[str, str] = Field(
        default_factory=dict,
        description="Throughput: {GB/s: 12 * n / time}, with the time in seconds; by default the bytes that "
        "the arguments hold. The first metric is the throughput, a rate; further ones are columns",
    )
    baseline: dict[str, Value] | None = Field(
        None,
        description="The setting of the parameters that others are compared with: {block_size_x: 256}; a value may be "
        "an expression over facts of an SM: {STAGES: 4 if block_shared_bytes > 200000 else 2}",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an experiment file; a file with the key `source` is a `PlainFile`."""
    plain, templated = PlainFile.model_json_schema(), ExperimentFile.model_json_schema()
    definitions = {**plain.pop("$defs", {}), **templated.pop("$defs", {})}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lab experiment",
        "if": {"required": ["source"]},
        "then": plain,
        "else": templated,
        "$defs": definitions,
    }
