"""What a tuning run knows of problems, kernels and times: frozen values that are stored and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.expressions import Scalar
from lab.base.sizes import Size
from lab.measured.timing import Kind, Samples

CUBLAS = "cublas"
"""The one baseline of a product."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """What all sizes of a product share; α is 1 and β is 0.

    Attributes:
        dtype: Element type.
        layout: BLAS letters of A and B.
    """

    dtype: str
    layout: str

    @property
    def label(self) -> str:
        """As tables and folders call it: ``float32_nt``."""
        return f"{self.dtype}_{self.layout}"

    def problem(self, size: Size) -> dict[str, Scalar]:
        """The operator's problem, complete, with the least leading dimensions."""
        m, n, k = size
        lda, ldb = (m if self.layout[0] == "n" else k), (k if self.layout[1] == "n" else n)
        shape: dict[str, Scalar] = {"m": m, "n": n, "k": k, "dtype": self.dtype, "layout": self.layout}
        return {**shape, "alpha": 1.0, "beta": 0.0, "lda": lda, "ldb": ldb, "ldc": m}


@dataclass(frozen=True, slots=True)
class Timed:
    """What is known of one kernel at one size.

    Attributes:
        samples: Durations of a launch sequence, ms; of a prediction the one that was computed. None where it failed.
        kind: Measured or predicted.
        cache: `cold` or `warm`, as measured; empty of a prediction.
        error: Largest error against the float64 reference, relative to its scale; None where nothing was checked.
        failure: Why there is no time; empty where there is one.
    """

    samples: Samples | None
    kind: Kind
    cache: str = ""
    error: float | None = None
    failure: str = ""

    @property
    def ms(self) -> float | None:
        """The median, or None."""
        return self.samples.median if self.samples else None


@dataclass(frozen=True, slots=True)
class Census:
    """Instructions of a kernel's main loop by what it takes to hide them, as the Tensile paper counts them.

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
        """Share of the fma in what is left to issue.

        Args:
            hidden: `all` hides memory and control instructions, `memory` those of memory alone, `none` nothing.
        """
        left = self.fma + self.vector
        if hidden != "all":
            left += self.control
        if hidden == "none":
            left += self.global_memory + self.shared_memory
        return self.fma / left if left else 0.0


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel of a tuning run.

    Attributes:
        id: Short hash of everything that decides its machine code.
        name: Its abbreviation, ``MT128x64_DU16_GSU4_…``; unique within a problem type.
        group: Where the file names it.
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
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel in a step's table.

    Attributes:
        name: Of the kernel.
        values: What the step varies: parameter to value, as text.
        ms: Geometric mean of its times over the step's sizes; None where it failed or was not timed.
        competes: Rows of equal text compete: the fork, or the joined values. Empty where all do.
        wins: It lives on.
        failure: Why it has no time.
    """

    name: str
    values: Mapping[str, str]
    ms: float | None
    competes: str
    wins: bool
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of the protocol did.

    Attributes:
        group: The group of kernels.
        number: 1 to 7.
        title: Tensile's name of the step.
        text: What it did, one sentence.
        sizes: Sizes that it timed.
        rows: Its table; empty where the step is empty.
        excluded: Reason to the number of combinations that it left out.
    """

    group: str
    number: int
    title: str
    text: str
    sizes: tuple[Size, ...] = ()
    rows: tuple[Row, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """What step 7 did not run, by one rule.

    Attributes:
        rule: The rule in words.
        points: How many pairs of kernel and size.
    """

    rule: str
    points: int
