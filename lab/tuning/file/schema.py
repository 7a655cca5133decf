"""The shape of a tuning file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lab.base.validation import Strict

Text = Annotated[str, StringConstraints(min_length=1)]
Dimension = int | list[int]
"""A size, or a range of sizes; `lab.tuning.file.sizes.along` reads it."""

Values = Annotated[Any, Field(description="A list of values to try; of WorkGroup and ThreadTile a list of lists")]
Three = Annotated[list[Dimension], Field(min_length=3, max_length=3)]


class ProblemModel(Strict):
    """The problem type, as Tensile names it: which indices of A and B are C's and which are summed over."""

    Precision: Literal["S"] = Field("S", description="S: float32")
    IndexAssignmentsA: list[int] = Field(
        default_factory=lambda: [0, 2], description="[0, 2]: A is m x k; [2, 0]: k x m"
    )
    IndexAssignmentsB: list[int] = Field(
        default_factory=lambda: [2, 1], description="[2, 1]: B is k x n; [1, 2]: n x k"
    )
    NumIndicesC: int = Field(2, description="2; further indices of C would be batches, which are not tuned here")


class SizesModel(Strict):
    """Sizes m, n, k: one of the three keys."""

    exact: Three | None = Field(None, description="[m, n, k]: the library picks this size's fastest kernel")
    range: Three | None = Field(
        None, description="Each of m, n, k a number, [start, stride, stop] or [start, stride, increment, stop]"
    )
    csv: Text | None = Field(None, description="A file beside this one with the columns m, n, k, a_t, b_t; exact sizes")


class BenchmarkModel(Strict):
    """A step that times every combination of some parameters and keeps the fastest."""

    parameters: dict[str, Values] = Field(min_length=1, description="Parameter to the values to try")
    sizes: list[SizesModel] | None = Field(None, description="What it is timed at; the group's `benchmark` by default")


class JoinModel(Strict):
    """The step that leaves one kernel of those that are equal in some parameters."""

    parameters: list[Text] = Field(min_length=1, description="Parameters, or derived names such as MacroTile")
    sizes: list[SizesModel] | None = Field(None, description="What decides; the group's `benchmark` by default")


class GroupModel(Strict):
    """Kernels, the steps that choose among them, and the sizes that the chosen ones are timed at."""

    name: Text = Field(description="Name in the report")
    template: Text = Field(description="Path of a template: gemm/tensile.cu.j2")
    problem: ProblemModel | None = Field(None, description="In place of the file's")
    constraints: list[str] = Field(
        default_factory=list,
        description="Jinja expressions over parameters and derived names; kernels where one is false are left out",
    )
    benchmark: list[SizesModel] = Field(default_factory=list, description="Sizes of steps 2, 4, 5 and 6")
    InitialSolutionParameters: dict[str, Any] = Field(
        default_factory=dict, description="Step 1: values in place of the template's defaults"
    )
    BenchmarkCommonParameters: BenchmarkModel | None = Field(None, description="Step 2: the fastest holds for all")
    ForkParameters: dict[str, Values] = Field(default_factory=dict, description="Step 3: every combination lives on")
    BenchmarkForkParameters: BenchmarkModel | None = Field(None, description="Step 4: the fastest of each fork")
    JoinParameters: JoinModel | None = Field(None, description="Step 5: the fastest of each value")
    BenchmarkJoinParameters: BenchmarkModel | None = Field(None, description="Step 6: the fastest of each that is left")
    BenchmarkFinalParameters: list[SizesModel] = Field(
        min_length=1, description="Step 7: all kernels that are left at all of these sizes"
    )
    single_tuned: dict[str, Any] | None = Field(
        None, description="One kernel that is timed at every final size, to hold the size-tuned ones against"
    )


class HalvingModel(Strict):
    """What step 7 leaves out. Without it every kernel is timed at every size."""

    coarse: int = Field(4, ge=1, description="Every so manieth size, along each dimension, sees all kernels; 1: all do")
    nearest: int = Field(
        4, ge=1, description="At another size run the kernels that are good at so many coarse sizes around"
    )
    keep: float = Field(0.3, ge=0, description="Good: no more than this share slower than the size's fastest")
    drop: float = Field(
        0.15, ge=0, description="A kernel slower by more than this share in its first sample gets no further ones"
    )
    coarse_gflop: float = Field(
        0.0,
        ge=0,
        description="A coarse size of more than so many 10^9 operations does not see all kernels either, but "
        "those that are good at coarse sizes around; 0: no size is too large",
    )
    below_prediction: float = Field(
        0.0, ge=0, description="Kernels predicted to take so many times the best prediction are not run; 0 keeps all"
    )


class TimingModel(Strict):
    """How a point is timed on a GPU."""

    samples: int = Field(5, ge=1, description="Samples of a kernel that is not dropped")
    enough_ms: float = Field(
        0.0, ge=0, description="Three samples do where they took so many ms together; 0 takes all, however long"
    )
    cache: Literal["auto", "cold", "warm"] = Field(
        "auto", description="State of the L2 cache; auto: cold unless very short"
    )
    warmup_ms: float = Field(300.0, ge=0, description="Before the first sample")
    verify: bool = Field(
        default=True, description="Compare every kernel's result at every size with a float64 reference"
    )


class LibraryModel(Strict):
    """The library that is written."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        "gemm", description="A C identifier: names of files and functions begin with it"
    )
    held_out: int = Field(
        0, ge=0, description="Random sizes between those of the ranges, at which its loss is measured"
    )
    refine: int = Field(
        0,
        ge=0,
        description="Random sizes between those of the ranges, for the library's thresholds: kernels are timed there "
        "that are good at the sizes around",
    )
    tolerance: float = Field(
        0.0, ge=0, description="Sizes whose mean loss is no more than this share are not split further"
    )


class TuningFile(Strict):
    """A tuning file: a problem type, groups of kernels with groups of sizes, and the seven steps."""

    question: Text = Field(description="What the run asks; the report opens with it")
    groups: list[GroupModel] = Field(min_length=1)
    problem: ProblemModel = Field(default_factory=lambda: ProblemModel.model_validate({}), description="Of all groups")
    arch: Annotated[str, StringConstraints(pattern=r"^(native|sm_[0-9]{2,3}[af]?)$")] = Field(
        "native", description="GPU architecture: sm_90; native is this machine's GPU"
    )
    toolchain: Text = Field("auto", description="auto, nvrtc, nvcc; a version may follow: nvrtc==13.5")
    gpu: str | None = Field(None, description="The GPU that predictions are for: H200; the arch's usual one by default")
    baselines: list[Literal["cublas"]] = Field(
        default_factory=list, description="[cublas] is timed at every final size"
    )
    seed: int = Field(0, ge=0, description="Of the inputs and of the held-out sizes")
    halving: HalvingModel | None = Field(None, description="What step 7 may leave out")
    timing: TimingModel = Field(
        default_factory=lambda: TimingModel.model_validate({}), description="How points are timed"
    )
    library: LibraryModel | None = Field(None, description="Write a library of the winners")
