"""The schema of a tuning file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lab.base.validation import Strict
from lab.library.alignment import VECTOR

NonEmpty = Annotated[str, StringConstraints(min_length=1)]
SizeRange = int | list[int]
"""A size, or a range of sizes; `lab.tuning.file.size_lists.along` reads it."""

Choices = Annotated[Any, Field(description="List of values to try; for WorkGroup and ThreadTile a list of lists")]
Dimensions = Annotated[list[SizeRange], Field(min_length=3, max_length=4)]


class ProblemModel(Strict):
    """The problem type in Tensile's terms: the indices of A and B that are free, batched or summed."""

    Precision: Literal["S", "H", "B", "D", "C", "Z"] = Field(
        "S",
        description="S: float32, D: float64, H: float16, B: bfloat16, C: complex64, Z: complex128",
    )
    IndexAssignmentsA: list[int] = Field(
        default_factory=lambda: [0, 2],
        description="[0, 2]: A is m x k; [2, 0]: k x m. With a batch [0, 3, 2] and [3, 0, 2]",
    )
    IndexAssignmentsB: list[int] = Field(
        default_factory=lambda: [2, 1],
        description="[2, 1]: B is k x n; [1, 2]: n x k. With a batch [3, 1, 2] and [1, 3, 2]",
    )
    NumIndicesC: int = Field(2, description="2: one product; 3: a batch of them, index 2 of C, in one launch")


class RandomModel(Strict):
    """Log-uniform random sizes, representative of their box."""

    count: int = Field(ge=1, le=100_000, description="How many")
    low: int | Annotated[list[int], Field(min_length=3, max_length=4)] = Field(
        1, description="Least size: of every dimension, or [m, n, k]; of batches [m, n, batch, k]"
    )
    high: int | Annotated[list[int], Field(min_length=3, max_length=4)] = Field(
        description="Largest size: of every dimension, or [m, n, k]; of batches [m, n, batch, k]"
    )
    aligned: float = Field(
        0.5, ge=0, le=1, description="Chance of a dimension to be rounded to a multiple, which vectors need"
    )
    multiple: int = Field(
        VECTOR, ge=1, le=1024, description="The multiple: 16 bytes of elements, 4 of float32 and 8 of 16-bit types"
    )
    seed: int = Field(0, ge=0, description="Seed of the draw")


class SizesModel(Strict):
    """Sizes, given by one of four keys: m, n, k; of batches, in the order of the indices, m, n, batch, k."""

    exact: Dimensions | None = Field(
        None,
        description="[m, n, k] or [m, n, batch, k]: one size, for which the library picks its fastest kernel",
    )
    range: Dimensions | None = Field(
        None,
        description="[m, n, k] or [m, n, batch, k], each a number, [start, stride, stop] or "
        "[start, stride, increment, stop]",
    )
    random: RandomModel | None = Field(None, description="Random sizes, which stand for those between them")
    csv: NonEmpty | None = Field(
        None,
        description="File of exact sizes, relative to this one, with the columns m, n, k, a_t, b_t, and "
        "of batches batch",
    )


class BenchmarkModel(Strict):
    """A step that times every combination of some parameters and keeps the fastest."""

    parameters: dict[str, Choices] = Field(min_length=1, description="Values to try, by parameter")
    sizes: list[SizesModel] | None = Field(None, description="Sizes to time at; the group's `benchmark` by default")


class JoinModel(Strict):
    """A step that keeps the fastest of the kernels with equal parameters."""

    parameters: list[NonEmpty] = Field(min_length=1, description="Parameters or derived names, such as MacroTile")
    sizes: list[SizesModel] | None = Field(None, description="Sizes that decide; the group's `benchmark` by default")


class GroupModel(Strict):
    """A group: kernels, the steps that choose among them, and the final sizes."""

    name: NonEmpty = Field(description="The group's name in the report")
    template: NonEmpty = Field(description="Path of the template: gemm/tensile.cu.j2")
    problem: ProblemModel | None = Field(None, description="Problem type of this group; the file's by default")
    constraints: list[str] = Field(
        default_factory=list,
        description="Expressions over parameters and derived names; kernels that make one false are left out",
    )
    benchmark: list[SizesModel] = Field(
        default_factory=list, description="Sizes at which steps 2, 4, 5 and 6 time kernels"
    )
    InitialSolutionParameters: dict[str, Any] = Field(
        default_factory=dict, description="Step 1: values in place of the template's defaults"
    )
    BenchmarkCommonParameters: BenchmarkModel | None = Field(
        None, description="Step 2: the fastest combination holds for all kernels"
    )
    ForkParameters: dict[str, Choices] = Field(default_factory=dict, description="Step 3: every combination is kept")
    BenchmarkForkParameters: BenchmarkModel | None = Field(
        None, description="Step 4: the fastest combination for each fork is kept"
    )
    JoinParameters: JoinModel | None = Field(None, description="Step 5: the fastest kernel for each value is kept")
    BenchmarkJoinParameters: BenchmarkModel | None = Field(
        None, description="Step 6: the fastest combination for each remaining kernel is kept"
    )
    BenchmarkFinalParameters: list[SizesModel] = Field(
        min_length=1, description="Step 7: sizes at which all remaining kernels are timed"
    )
    single_tuned: dict[str, Any] | None = Field(
        None, description="One kernel that is timed at every final size, to compare size-tuned kernels with"
    )


class HalvingModel(Strict):
    """The halving rules of step 7. Without them, every kernel is timed at every size."""

    coarse: int = Field(
        4,
        ge=1,
        description="All kernels run at every n-th size along each dimension, the coarse sizes; 1: at every size",
    )
    nearest: int = Field(
        4, ge=1, description="At any other size only kernels run that are good at one of this many nearest coarse sizes"
    )
    keep: float = Field(
        0.3, ge=0, description="A kernel is good at a size where it is at most this share slower than the fastest"
    )
    drop: float = Field(
        0.15,
        ge=0,
        description="A kernel whose first sample is more than this share slower than the fastest gets no more samples",
    )
    coarse_gflop: float = Field(
        0.0,
        ge=0,
        description="Sizes of more than this many 10^9 operations are not coarse while others are; 0: no limit",
    )
    below_prediction: float = Field(
        0.0,
        ge=0,
        description="Kernels predicted to take more than this many times the best prediction do not run; 0 runs all",
    )


class TimingModel(Strict):
    """The timing settings on a GPU."""

    samples: int = Field(5, ge=1, description="Most samples of one kernel at one size")
    enough_ms: float = Field(
        0.0, ge=0, description="Three samples are enough if together they took this many ms; 0 always takes all samples"
    )
    cache: Literal["auto", "cold", "warm"] = Field(
        "auto", description="State of the L2 cache; auto: cold unless very short"
    )
    warmup_ms: float = Field(300.0, ge=0, description="Warm-up before the first sample, ms")
    pause_ms: float = Field(
        0.0,
        ge=0,
        le=10_000,
        description="Pause before each kernel's sample, in which the GPU cools, ms; clocks may drop if it is long",
    )
    verify: bool = Field(default=True, description="Compare each kernel's result at each size with a float64 reference")


class LibraryModel(Strict):
    """The settings of the library to write."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        "gemm", description="C identifier with which names of files and functions begin"
    )
    held_out: int = Field(
        0,
        ge=0,
        description="Number of random sizes between those of the ranges, over which the library's loss is measured",
    )
    refine: int = Field(
        0,
        ge=0,
        description="Number of random sizes between those of the ranges, for the library's thresholds; only kernels "
        "that are good at the sizes around are timed there",
    )
    selection: Literal["nested", "table"] = Field(
        "nested",
        description="How its C picks a kernel: by nested tests, with a memory of sizes for each thread, or by a table",
    )
    tolerance: float = Field(0.0, ge=0, description="Sizes whose mean loss is at most this share are not split further")


class TuningFile(Strict):
    """A tuning file: a problem type, groups of kernels with groups of sizes, and the seven steps."""

    question: NonEmpty = Field(description="What the run asks; the title of the report")
    groups: list[GroupModel] = Field(min_length=1)
    problem: ProblemModel = Field(
        default_factory=lambda: ProblemModel.model_validate({}), description="Problem type of all groups that name none"
    )
    arch: Annotated[str, StringConstraints(pattern=r"^(native|sm_[0-9]{2,3}[af]?)$")] = Field(
        "native", description="GPU architecture, such as sm_90; native: that of this machine's GPU"
    )
    toolchain: NonEmpty = Field(
        "auto", description="Compiler: auto, nvrtc or nvcc, with or without a version: nvrtc==13.5"
    )
    gpu: str | None = Field(
        None, description="GPU to predict for, such as H200; the architecture's usual one by default"
    )
    baselines: list[Literal["cublas"]] = Field(
        default_factory=list, description="[cublas]: time cuBLAS at every final size"
    )
    seed: int = Field(0, ge=0, description="Seed of the inputs and of the random sizes")
    halving: HalvingModel | None = Field(None, description="What step 7 may leave out; nothing by default")
    timing: TimingModel = Field(
        default_factory=lambda: TimingModel.model_validate({}), description="How kernels are timed on a GPU"
    )
    library: LibraryModel | None = Field(None, description="The library of winners to write; none by default")
