"""The stored model of variants and runs: frozen rows, each field with its meaning and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.display import Displayed
from lab.base.expressions import Scalar
from lab.emulator.results import AccessPattern, ExecutedCounts, Finding, MemoryCount, ReuseCount
from lab.isa.mix import KernelMix
from lab.isa.model import Isa
from lab.measured.card_comparison import CardRecord
from lab.measured.counters import Profile
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import GpuDescription, Kind, Measurement, Merit, Verification
from lab.recorded.predictions import Estimate, Prediction
from lab.toolchain.base import CompiledLaunch, Resources


class Status(StrEnum):
    """The verdict on a variant, or its last stage; docs/verdict.md defines each word."""

    INSPECTED = "inspected"  # compiled and read; nothing executed it
    VERIFIED = "verified"  # right under every condition of docs/explanation/verdict.md
    PARTIAL = "verified in part"  # nothing was found wrong, but something was not shown
    SUSPECT = "suspect"  # a fault at the problem's own size, in another order, in another launch
    WRONG = "wrong"  # outputs differ from the reference, or a fault at the executed size
    NOT_EXECUTED = "not executed"  # neither the emulator nor a GPU could run it
    COMPILE_FAILED = "compile failed"
    PRUNED = "pruned"  # a search compiled and inspected it, and found it not worth running

    @property
    def sound(self) -> bool:
        """Return whether the variant was executed and nothing was found wrong."""
        return self in (Status.VERIFIED, Status.PARTIAL)

    @property
    def failed(self) -> bool:
        """Return whether the variant has a fault or did not complete the pipeline: it is neither timed nor ranked."""
        return not self.sound and self not in (Status.INSPECTED, Status.PRUNED)


class PruneRule(StrEnum):
    """The rule by which a search pruned a variant."""

    SPILLS = "spills"  # registers spill to local memory
    OCCUPANCY = "occupancy"  # no block fits on an SM
    PREDICTION = "prediction"  # the predicted ceiling is far below the best one
    MEASUREMENT = "measurement"  # the predicted ceiling is below what another variant reached


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The result of compiling a variant, without the texts (those are files).

    Attributes:
        toolchain: `nvrtc`, `nvcc`, `pycuda-nvcc`.
        version: Compiler version.
        command: As one could repeat it.
        resources: Of the kernel that is launched; of several, the largest value of each.
        sass_sha256: Hash of the machine code's instructions: equal hashes, equal code.
        seconds: Compile time; from the cache, the time the first build took.
        cached: Taken from the cache in this run.
        disassembler: Version of nvdisasm.
        symbols: Kernels whose symbol is not the name that the experiment launches, as of C++: `add<float>` to
            `_Z3addIfEvPT_`.
        launch: What the compiler fixes about launches, as Triton's does.
        warnings: Of the compiler, without names that are never used, and of lab on the source: a line each, with place.
        lacking: Why there is no SASS, with the package that lists it; empty where there is.
    """

    toolchain: str
    version: str
    command: str
    resources: Resources
    sass_sha256: str
    seconds: float
    cached: bool
    disassembler: str
    symbols: Mapping[str, str] = field(default_factory=dict)
    launch: CompiledLaunch = field(default_factory=CompiledLaunch)
    warnings: tuple[str, ...] = ()
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """The launch geometry of a variant at the experiment's problem size.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory per block.
        carveout: Preferred shared memory of an SM, in percent of its largest; None where the driver decides.
        cluster: Blocks of a cluster in x, y, z that the launch asks for; None where the kernel alone decides.
        map_alignments: Of each tensor map among the arguments, what the rows of its boxes begin at multiples of in
            global memory (`lab.hardware.tensormaps.TensorMap.alignment`), in bytes; empty in older records.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    carveout: int | None = None
    map_alignments: tuple[int, ...] = ()
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class ExecutedLines:
    """A group of instructions with equal counts: most of a kernel's lines share a few sets of counts.

    Attributes:
        lines: PTX lines, in listing order.
        cls: `InstructionClass` value.
        warps: Warp instructions of each line.
        threads: Thread instructions of each line whose guard was true.
        memory: Traffic of each line, by the keys of `ExecutedCounts.memory`.
    """

    lines: tuple[int, ...]
    cls: str
    warps: int
    threads: int
    memory: Mapping[str, MemoryCount]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One launch of a variant that needs several.

    Attributes:
        entry: Its entry point.
        launch: Geometry.
        bytes_moved: Least bytes through DRAM that the template declares for it; None where it declares none.
        resources: Of its kernel.
        ptx: Static mix of its PTX.
        sass: Static mix of its SASS.
        prediction: Its occupancy; None where the GPU table cannot tell.
    """

    entry: str
    launch: LaunchRecord
    bytes_moved: int | None = None
    resources: Resources | None = None
    ptx: KernelMix | None = None
    sass: KernelMix | None = None
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class EmulatedStep:
    """One launch of a sequence as emulated.

    Attributes:
        entry: Entry point that was executed.
        launch: Geometry.
        executed: What was executed; None where the sequence did not come so far.
        hot_loop: What was executed in the PTX's hot loop; None without loops.
        looped: What was executed in any loop; None where that was not kept.
        hot_label: Label of the hot loop, where execution decided which it is; else empty.
        reuse: What the first blocks read again; None where that was not counted.
        fetched_by_map: As of `lab.emulator.results.Emulation`; empty in older records.
        loops: Instructions of threads in each loop, nested loops included, by label; empty in older records.
    """

    entry: str
    launch: LaunchRecord
    executed: ExecutedCounts | None = None
    hot_loop: ExecutedCounts | None = None
    looped: ExecutedCounts | None = None
    hot_label: str = ""
    reuse: ReuseCount | None = None
    fetched_by_map: tuple[int, ...] = ()
    loops: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResizedCounts:
    """The counts, over all launches, of a problem that differs from the counted one in some sizes.

    Attributes:
        sizes: These sizes.
        blocks: Blocks of the grids.
        executed: Instructions of threads.
        looped: Those in any loop.
        loops: Those in each loop, by label.
    """

    sizes: Mapping[str, int]
    blocks: int
    executed: int
    looped: int
    loops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """The counts of an additional problem whose data fills blocks as in the real one.

    Attributes:
        problem: Its sizes, complete.
        launches: What was launched, in order, with its own counts.
        bytes_needed: Least DRAM bytes of the problem; 0 where that is not known.
        flops: Its floating-point operations; 0 where that is not known.
        growth: As `EmulationRecord.growth`, from here on.
        growth_of_block: The same for what each block executes, in the mean.
        resized: As `EmulationRecord.resized`.
    """

    problem: Mapping[str, Scalar]
    launches: tuple[EmulatedStep, ...]
    bytes_needed: int = 0
    flops: int = 0
    growth: Mapping[str, float] = field(default_factory=dict)
    growth_of_block: Mapping[str, float] = field(default_factory=dict)
    resized: tuple[ResizedCounts, ...] = ()


class Condition(StrEnum):
    """The condition under which a variant that is right at its small size shows a fault."""

    FULL_SIZE = "at the problem's own size"
    LARGER = "at a larger size"
    ORDER = "in another order of blocks and warps"
    SECOND_LAUNCH = "when it is launched again"
    MACHINE = "with other SM and warp numbers"
    ROUNDING = "with approximate instructions at their error bound"
    INPUTS = "with other inputs"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A fault under a condition other than the small size in program order.

    Attributes:
        condition: When it shows.
        detail: What is wrong or, beside a finding, more about it; one sentence without a full stop, or empty.
        finding: The fault with its line; None where only the results differ.
    """

    condition: Condition
    detail: str = ""
    finding: Finding | None = None

    @property
    def summary(self) -> str:
        """The condition and the fault, one line."""
        details = [self.finding.summary] if self.finding is not None else []
        return f"{self.condition}: {'; '.join([*details, *filter(None, [self.detail])])}"


@dataclass(frozen=True, slots=True)
class FullSizeRecord:
    """The execution of sampled blocks at the problem's own size.

    Attributes:
        problem: The problem, complete.
        blocks: Blocks executed, over all launches.
        of_blocks: Blocks of all launches.
        compared: Elements of the outputs compared with the reference; 0 where it could not be restricted to them.
        covered: The stores of the sampled blocks show that all blocks together write every element of the outputs.
    """

    problem: Mapping[str, Scalar]
    blocks: int
    of_blocks: int
    compared: int = 0
    covered: bool = False


@dataclass(frozen=True, slots=True)
class EmulationRecord(Displayed):
    """One execution of a variant's PTX on the CPU.

    Attributes:
        problem: The problem at the emulated size, complete.
        launches: What was launched, in order, with its own counts.
        verification: Comparison with NumPy; None where the emulator could not execute the kernel.
        executed: What was executed, over all launches.
        hot_loop: What was executed in the PTX's hot loop of a single launch; None without loops, or with several
            launches, which have a hot loop each.
        findings: Faults: races, bad accesses, divergent barriers.
        steps: Instructions that the interpreter issued.
        notes: What was deliberately not executed.
        unsupported: Why there is no result, though the kernel may be right: an instruction that the emulator does not
            know; empty where there is a result.
        failure: Why there is no result, which counts against the variant: it took too long, or could not be launched.
        lines: How often each instruction was executed; lines that never were are absent.
        bytes_needed: Least DRAM bytes of the problem at the emulated size; 0 where that is not known.
        flops: Floating-point operations of the problem at the emulated size; 0 where that is not known.
        growth: The power with which what is executed grows with sizes of the problem, by size: 1 where twice the size
            needs twice the instructions. Sizes for which that was not tried are absent.
        growth_of_block: The same for what each block executes, in the mean.
        sample: What was executed of another problem for its counts alone; None where that was not done, or is not known
            to say more of the real problem.
        resized: Counts of the same problem with one size or all sizes changed; empty in older records.
        suspicions: Faults under other conditions; none where the small size already shows faults.
        not_shown: What was not shown of the variant, a sentence each; empty where everything was.
        full_size: The execution of sampled blocks at the problem's own size; None where none were executed.
        patterns: Lanes' addresses of the memory instructions that cost more than they need, those that cost most first;
            None where they were not taken down, as in older records.
        of_blocks: Counts of random blocks of the problem at its own size, as of a grid that has no others; its bytes
            and operations are these blocks' share of the whole. None where they were not counted.
    """

    problem: Mapping[str, Scalar]
    launches: tuple[EmulatedStep, ...]
    verification: Verification | None = None
    executed: ExecutedCounts | None = None
    hot_loop: ExecutedCounts | None = None
    findings: tuple[Finding, ...] = ()
    steps: int = 0
    notes: tuple[str, ...] = ()
    unsupported: str = ""
    failure: str = ""
    lines: tuple[ExecutedLines, ...] = ()
    bytes_needed: int = 0
    flops: int = 0
    growth: Mapping[str, float] = field(default_factory=dict)
    growth_of_block: Mapping[str, float] = field(default_factory=dict)
    sample: SampleRecord | None = None
    resized: tuple[ResizedCounts, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    not_shown: tuple[str, ...] = ()
    full_size: FullSizeRecord | None = None
    patterns: tuple[AccessPattern, ...] | None = None
    of_blocks: SampleRecord | None = None

    @property
    def counted(self) -> EmulationRecord | SampleRecord:
        """The execution most representative of the real problem: of its own blocks, else of the sample."""
        return self.of_blocks or self.sample or self

    @property
    def entry(self) -> str:
        """The emulated entry points."""
        return ", ".join(step.entry for step in self.launches)

    @property
    def wrong(self) -> str:
        """The fault at the emulated size, one line; empty without a fault."""
        if self.findings:
            first = self.findings[0]
            suffix = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"emulator: {first.summary}{suffix}"
        if self.verification is not None and not self.verification.passed:
            return f"emulator: {self.verification.worst}"
        return ""

    @property
    def fault(self) -> str:
        """The reason why the execution counts against the variant, one line; empty if it does not."""
        return f"not executed: {self.failure}" if self.failure else self.wrong


@dataclass(frozen=True, slots=True)
class VariantRecord(Displayed):
    """The record of one variant. Stages that were not reached are None.

    Attributes:
        variant: Id, a short hash of everything that decides its machine code.
        kernel: The kernel's name in the experiment (a ladder's rung), else the template's stem.
        label: What tells this variant from its siblings, short: `unroll=4 padding=0`.
        template: Template path.
        parameters: Every parameter of the template with its value.
        problem: The operator's problem, complete.
        arch: `sm_90`.
        compiler: Its toolchain and version, `nvrtc 13.5.37`, whether it compiled or not.
        status: How far it came.
        reason: Why it has that status, one line: the fault, what was not shown, or why it was not executed; empty where
            there is nothing to say.
        launch: Geometry; None with several launches.
        build: Where it compiled.
        ptx: Static mix of the PTX; None with several launches.
        sass: Static mix of the SASS; None with several launches.
        prediction: Occupancy and bounds; of several launches the lowest occupancy, and the bounds of all together.
        steps: With several launches each of them, in order; empty where there is one.
        emulation: Execution on the CPU at the experiment's `emulate` size.
        verification: Comparison with NumPy on the GPU.
        measurement: Times.
        flops: Floating-point operations of the problem.
        bytes_moved: Least DRAM bytes of the problem.
        merit: What throughput counts, and the GPU's limits with it.
        round: Round of a search that tried it: 0 is the sample; None in a run of the whole space.
        mappings: Names of the parameters that are mappings.
        accesses: What the template predicts of its memory accesses (`global.load`, `shared.store`, …): sectors a
            request to global memory, bank conflicts a request to shared memory.
        estimate: Throughput by the model of the schedulers; None where it does not apply, or nothing was executed on
            the CPU.
        profile: What hardware counters said; None where they were not read.
        pruned_by: The rule by which a search left it out; None where it did not.
        options: Further options of the compiler, in order.
        declared_rate: What throughput is in a unit of the user's own, while limits are those of `merit`; else None.
        declared_figures: Further figures of the user's own, from the time of a launch.
        fingerprint: Of everything that decides the record besides the run's conditions; a resumed run keeps the record
            where it is that of the variant.
    """

    variant: str
    kernel: str
    label: str
    template: str
    parameters: Mapping[str, Scalar]
    problem: Mapping[str, Scalar]
    arch: str
    status: Status
    reason: str
    flops: int
    bytes_moved: int
    launch: LaunchRecord | None = None
    build: BuildRecord | None = None
    ptx: KernelMix | None = None
    sass: KernelMix | None = None
    prediction: Prediction | None = None
    verification: Verification | None = None
    measurement: Measurement | None = None
    emulation: EmulationRecord | None = None
    merit: Merit = Merit.TFLOPS
    steps: tuple[StepRecord, ...] = ()
    round: int | None = None
    mappings: tuple[str, ...] = ()
    accesses: Mapping[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None
    profile: Profile | None = None
    compiler: str = ""
    pruned_by: PruneRule | None = None
    fingerprint: str = ""
    options: tuple[str, ...] = ()
    declared_rate: DeclaredRate | None = None
    declared_figures: tuple[DeclaredFigure, ...] = ()

    def mixes(self, isa: Isa) -> tuple[KernelMix, ...]:
        """Return the static mix of every launched kernel, without repetitions, in order."""
        pairs = [(self.ptx, self.sass), *((step.ptx, step.sass) for step in self.steps)]
        selected = [ptx if isa == "ptx" else sass for ptx, sass in pairs]
        return tuple({mix.name: mix for mix in selected if mix}.values())

    def rate(self, ms: float) -> float:
        """Return the throughput, in `unit`, of a launch of `ms` milliseconds."""
        if self.declared_rate is not None:
            return self.declared_rate.rate(ms)
        return self.merit.rate(self.flops, self.bytes_moved, ms)

    @property
    def unit(self) -> str:
        """Unit of the throughput: a `Merit`, or one of the user's own."""
        return self.merit if self.declared_rate is None else self.declared_rate.unit

    @property
    def ceiling(self) -> float | None:
        """Predicted ceiling of the throughput in `unit`, the lowest bound; None without a bound."""
        bound = self.prediction.ceiling if self.prediction else None
        if bound is None or self.declared_rate is None:
            return bound.rate if bound else None
        limited = self.merit.rate(self.flops, self.bytes_moved, 1.0)  # of a launch that takes a millisecond
        return bound.rate * self.declared_rate.rate(1.0) / limited if limited > 0 else None

    @property
    def throughput(self) -> float | None:
        """Measured median throughput in `unit`; None without a measurement or for a time of 0."""
        median = self.measurement.samples.median if self.measurement else 0.0
        return self.rate(median) if median > 0 else None

    @property
    def tflops(self) -> float | None:
        """Measured median throughput in TFLOP/s; None without a measurement or for a time of 0."""
        median = self.measurement.samples.median if self.measurement else 0.0
        return self.flops / median / 1e9 if median > 0 else None


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """The course of a search: how it chose its variants.

    Attributes:
        combinations: Size of the space before constraints, for one problem.
        drawn: Combinations that were drawn at random until the sample was full.
        seed: Of the draw.
        rounds: Variants of each round: the sample first, then the neighbours that each refinement added; of a strategy
            what it asked for, after its candidates if it has some.
        strategy: Its name: `random`, `surrogate`, ….
        candidates: Variants that were built and predicted before anything was measured.
        order: Variants in the order in which a strategy measured them; empty for `random`.
        endings: Why it ended, a sentence for each problem.
    """

    combinations: int
    drawn: int
    seed: int
    rounds: tuple[int, ...]
    strategy: str = "random"
    candidates: int = 0
    order: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatedFigure:
    """One figure compared between a run and its repetition; differences are second / first - 1.

    Attributes:
        name: `throughput`, `ratio to the baseline`, `estimate`, `ceiling` or `executed instructions`.
        kind: How it came to be.
        variants: Variants that have it in both runs.
        equal: How many of them have exactly the same.
        median: Median size of the difference.
        p95: 95th percentile of that size.
        largest: The largest difference, with its sign.
        worst: Its variant.
        shift: Median difference, with its sign: what the second run is faster as a whole.
    """

    name: str
    kind: Kind
    variants: int
    equal: int
    median: float
    p95: float
    largest: float
    worst: str
    shift: float


@dataclass(frozen=True, slots=True)
class RepeatRecord:
    """The comparison of a run with its repetition in another process.

    Attributes:
        started: When the second run began, ISO 8601 with time zone.
        not_measured: Why there are no times; empty where both runs measured.
        variants: Variants of both runs.
        only_one: Variants that only one of them tried, as a search may.
        same_code: Variants with the same machine code in both.
        same_status: Variants that came equally far in both.
        figures: Each figure that some variant has in both.
        differences: Variant to the difference of the figure that the report ranks by.
        outside: Variants whose times differ by more than the 95 % interval of the scatter within the runs.
        winners: Problems that have a best variant.
        same_winners: How many of those variants are the best ones in the second run, too.
        rank_correlation: Spearman's, of the figure that the report ranks by; None with several problems, or too few
            variants.
    """

    started: str
    not_measured: str
    variants: int
    only_one: int
    same_code: int
    same_status: int
    figures: tuple[RepeatedFigure, ...]
    differences: Mapping[str, float]
    outside: int
    winners: int
    same_winners: int
    rank_correlation: float | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The facts of a run: the question, the environment, and what was not done and why.

    Attributes:
        experiment: Name, the experiment file's stem.
        question: The experiment's question.
        operator: Operator name.
        problem: The fields of the operator's problem that all variants share; complete where there is one problem.
        source: The experiment file's text.
        command: The command that repeats the run.
        started: ISO 8601 with time zone.
        lab_version: Version of this package.
        commit: git commit of the working tree, with `+dirty` where it differs; empty outside git.
        python: Python version and platform.
        packages: Package to version, those that decide a figure.
        gpu: The GPU that measured, else None.
        not_measured: One sentence saying why nothing was measured; empty when something was.
        baselines: Label of a problem to the name, library and kernel of its baseline: `cublas (torch 2.11.0,
            sm80_xmma_gemm…)`. The label is empty where there is one problem, and in old records of many problems whose
            baselines were all alike.
        swept: Names of the parameters that take more than one value, in file order.
        variants: How many variants the experiment has (records may be fewer after an interruption).
        notes: Further sentences that a reader must see.
        problem_axes: Fields by which the problems differ, in file order; empty where there is one problem.
        search: How the variants were chosen; None where the whole space was run.
        setting: Setting of parameters that the others are compared with; empty for none.
        cards: The cards that measured, and how they compare; empty where one did.
    """

    experiment: str
    question: str
    operator: str
    problem: Mapping[str, Scalar]
    source: str
    command: str
    started: str
    lab_version: str
    commit: str
    python: str
    packages: Mapping[str, str]
    gpu: GpuDescription | None
    not_measured: str
    baselines: Mapping[str, str]
    swept: tuple[str, ...]
    variants: int
    notes: tuple[str, ...] = ()
    problem_axes: tuple[str, ...] = ()
    search: SearchRecord | None = None
    setting: Mapping[str, Scalar] = field(default_factory=dict)
    cards: tuple[CardRecord, ...] = ()
