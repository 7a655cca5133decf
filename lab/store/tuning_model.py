"""Problems, kernels, times and facts of a tuning run: frozen values for storage and report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.expressions import Scalar
from lab.base.sizes import AXES, BATCH_AXES, Size
from lab.library.grid import Loss
from lab.measured.card_comparison import CardRecord
from lab.measured.timing import GpuDescription, Kind, Samples

CUBLAS = "cublas"
"""The only baseline of GEMMs."""


class TimingStage(StrEnum):
    """The purpose of a time; kernels are compared by times of one stage."""

    STEPS = "steps"  # steps 2 to 6
    FINAL = "final"  # step 7
    REFINED = "refined"  # sizes between those of step 7, for the library's thresholds
    HELD_OUT = "held out"  # sizes between those of step 7, for the library's loss


def block_tile(names: Mapping[str, object]) -> tuple[int, int] | None:
    """Return the rows and columns of C per block, from a template's names; None if it has none of them.

    Args:
        names: Parameters, with or without what is derived from them. Tensile's MacroTile is WorkGroup x ThreadTile.
    """
    sides = []
    for side, block in enumerate(("block_m", "block_n")):
        extent = names.get(f"macro_tile_{side}", names.get(block))
        parts = [names.get(f"{of}_{side}") for of in ("work_group", "thread_tile")]
        if extent is None and all(isinstance(factor, int) for factor in parts):
            extent = math.prod(factor for factor in parts if isinstance(factor, int))
        if not isinstance(extent, int):
            return None
        sides.append(extent)
    return sides[0], sides[1]


def baseline_id(label: str) -> str:
    """Return the id of cuBLAS's times for the problem type with this label."""
    return f"{CUBLAS} {label}"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """The properties shared by GEMMs of all sizes. α is 1 and β is 0.

    Attributes:
        dtype: Element type.
        layout: BLAS letters of A and B.
        batched: Sizes are those of batches.
    """

    dtype: str
    layout: str
    batched: bool = False

    @property
    def label(self) -> str:
        """Name in tables and folders: ``float32_nt``, or ``float32_nt_batched``."""
        return f"{self.dtype}_{self.layout}{'_batched' if self.batched else ''}"

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the dimensions of a size."""
        return BATCH_AXES if self.batched else AXES

    @property
    def least(self) -> Size:
        """The smallest size, for what does not depend on the size."""
        return (1,) * len(self.axes)


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of one kernel at one size, or the reason for its absence.

    Attributes:
        samples: Durations of the launch sequence in ms; a prediction is one sample. None where the kernel failed.
        kind: Measured or predicted.
        cache: State of the L2 cache, `cold` or `warm`; empty for a prediction.
        error: Largest error against the float64 reference, relative to its scale; None where nothing was checked.
        failure: Why there is no time; empty where there is one.
        card: Id of the card that took it; empty for a prediction, and where that is not known.
    """

    samples: Samples | None
    kind: Kind
    cache: str = ""
    error: float | None = None
    failure: str = ""
    card: str = ""

    @property
    def ms(self) -> float | None:
        """The median in ms, or None."""
        return self.samples.median if self.samples else None


@dataclass(frozen=True, slots=True)
class Census:
    """Instructions of a kernel's main loop, in the Tensile paper's classes by the means of hiding them.

    Attributes:
        entry: The entry point.
        fma: Multiply-accumulates.
        vector: Other arithmetic of every thread: integers, moves, comparisons.
        control: Branches and barriers.
        global_memory: Loads and stores of global memory.
        shared_memory: Loads and stores of shared memory.
    """

    entry: str
    fma: int
    vector: int
    control: int
    global_memory: int
    shared_memory: int

    def efficiency(self, hidden: str) -> float:
        """Return the share of fma in the instructions still to be issued, 0 to 1.

        Args:
            hidden: What is hidden: `all` for memory and control instructions, `memory` for memory instructions alone,
                `none` for nothing.
        """
        remaining = self.fma + self.vector
        if hidden != "all":
            remaining += self.control
        if hidden == "none":
            remaining += self.global_memory + self.shared_memory
        return self.fma / remaining if remaining else 0.0


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel of a tuning run.

    Attributes:
        id: Short hash of everything that decides its machine code.
        name: Its abbreviation, ``MT128x64_DU16_GSU4_…``; unique within a problem type.
        group: Name of its group in the tuning file.
        type: Its problem type's label.
        template: Template path.
        parameters: All of the template's.
        arch: `sm_90`.
        registers: Registers a thread, of the entry point that takes most.
        spill_bytes: Spills a thread.
        shared_bytes: Shared memory a block at launch, static and dynamic.
        threads: Threads a block of the main launch.
        blocks_per_sm: Resident blocks.
        cluster: Blocks of a cluster.
        census: Main loop of the entry point for aligned sizes; None without fma.
        peak_tflops: The GPU's peak for what multiplies in that loop, its type's pipes or the tensor cores; None where
            it is not known.
        failure: Why it could not be built; empty where it could.
    """

    id: str
    name: str
    group: str
    type: str
    template: str
    parameters: Mapping[str, Scalar]
    arch: str
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    threads: int = 0
    blocks_per_sm: int = 0
    cluster: int = 1
    census: Census | None = None
    peak_tflops: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One kernel in a step's table.

    Attributes:
        name: Of the kernel.
        values: Parameters that the step varies, with their values as text.
        ms: Geometric mean of its times over the step's sizes; None where it failed or was not timed.
        competes: What it competes for: the fork, or the joined values; rows compete where this is equal.
        wins: It is kept.
        failure: Why it has no time.
    """

    name: str
    values: Mapping[str, str]
    ms: float | None
    competes: str
    wins: bool
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ProtocolStep:
    """A record of one step of the protocol.

    Attributes:
        group: The group of kernels.
        number: 1 to 7.
        title: Tensile's name of the step.
        text: What it did, in one sentence.
        sizes: Sizes at which it timed kernels.
        rows: Its table; empty where the step is empty.
        excluded: Constraint or requirement to the number of combinations that it excluded.
    """

    group: str
    number: int
    title: str
    text: str
    sizes: tuple[Size, ...] = ()
    rows: tuple[StepRow, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)


class CutKind(StrEnum):
    """The reason why step 7 left out pairs of kernel and size."""

    PREDICTION = "prediction"  # not run: the kernel's predicted time is far above the best prediction
    NEIGHBOURS = "neighbours"  # not run: the kernel is slow at the coarse sizes around
    FIRST_SAMPLE = "first sample"  # run once: that sample is far above the fastest kernel's

    @property
    def not_run(self) -> bool:
        """Return whether the pairs have no time at all."""
        return self is not CutKind.FIRST_SAMPLE


@dataclass(frozen=True, slots=True)
class Cut:
    """The pairs that step 7 left out by one rule.

    Attributes:
        kind: The rule.
        points: Pairs of kernel and size that it left out.
        limit: The largest time that it accepts: of `PREDICTION` as a multiple of the best prediction, else as a share
            above the fastest kernel's time.
        nearest: Coarse sizes around that `NEIGHBOURS` looks at; 0 for other rules.
        coarse: Coarse sizes in all; 0 for other rules.
        sizes: Sizes of step 7 in all; 0 for other rules.
    """

    kind: CutKind
    points: int
    limit: float
    nearest: int = 0
    coarse: int = 0
    sizes: int = 0


@dataclass(frozen=True, slots=True)
class TimingFacts:
    """The timing settings of a run; the fields of a tuning file's `timing`.

    Attributes:
        samples: Most samples of a point.
        enough_ms: Time after which three samples are enough; 0 takes all.
        cache: State of the L2 cache: `auto`, `cold` or `warm`.
        warmup_ms: Time before the first sample.
        verify: Every kernel's result was compared with a float64 reference at every size.
        pause_ms: Time before each sample in which the host slept.
    """

    samples: int
    enough_ms: float
    cache: str
    warmup_ms: float
    verify: bool
    pause_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class FinalSizes:
    """Sizes of step 7 of one problem type; a size in several groups is listed once per group.

    Attributes:
        ranges: Sizes that stand for those between them.
        exact: Sizes that stand for themselves alone.
    """

    ranges: tuple[Size, ...]
    exact: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """A written library.

    Attributes:
        type: Label of its problem type.
        kernels: Names of the kernels that it picks among.
        splits: Thresholds of its tree.
        exact: Sizes that do not go through the tree.
        interpolated: Sizes whose times were interpolated for the thresholds.
        loss: Over the sizes that it was made from.
        held_out: Over sizes between them; None where there were none.
    """

    type: str
    kernels: tuple[str, ...]
    splits: int
    exact: int
    interpolated: int
    loss: Loss
    held_out: Loss | None


@dataclass(frozen=True)
class TuningFacts:
    """The facts of a tuning run: the question, the environment, the results.

    Attributes:
        tuning: Name, the tuning file's stem.
        question: The file's question.
        source: The file's text.
        command: Command that repeats the run.
        started: ISO 8601 with time zone.
        lab_version: Version of this package.
        commit: git commit of the working tree, with `+dirty` where it differs; empty outside git.
        python: Python version and platform.
        packages: Package to version, those that decide a figure.
        gpu: The GPU that measured; None where all times are predicted.
        predicted_for: Name of the GPU that predictions are for.
        peaks: That GPU's peaks by element type, in TFLOP/s.
        not_measured: Why nothing was measured; empty where something was.
        baseline: Library of cuBLAS; empty where it was not timed.
        interrupted: Ctrl-C ended the run early.
        timing: How points were timed.
        types: Problem types by label.
        final: Sizes of step 7 by label.
        libraries: What was written, by the library's name.
        singles: Ids of the single-tuned kernels by label.
        grown_again: Who grew the libraries' logic again later; empty where nobody did.
        notes: Further sentences that a reader must see.
        cards: The cards that measured, and how they compare; empty where one did.
    """

    tuning: str
    question: str
    source: str
    command: str
    started: str
    lab_version: str
    commit: str
    python: str
    packages: Mapping[str, str]
    gpu: GpuDescription | None
    predicted_for: str
    not_measured: str
    baseline: str
    interrupted: bool
    timing: TimingFacts
    types: Mapping[str, ProblemType]
    final: Mapping[str, FinalSizes]
    libraries: Mapping[str, LibraryFacts] = field(default_factory=dict)
    singles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grown_again: str = ""
    notes: tuple[str, ...] = ()
    cards: tuple[CardRecord, ...] = ()
    peaks: Mapping[str, float] = field(default_factory=dict)

    def peak(self, label: str) -> float:
        """Return the GPU's peak for the element type of a problem type, by its label, in TFLOP/s."""
        return self.peaks[self.types[label].dtype]

    @property
    def kind(self) -> Kind:
        """The kind of the run's times."""
        return Kind.MEASURED if self.gpu else Kind.PREDICTED
