"""A tuning run from its file to its folder: steps, times, library, report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from lab import __version__
from lab.base import environment, workers
from lab.base.errors import Location, UserError
from lab.base.sizes import Size
from lab.gpu.device import describe
from lab.gpu.process.line import GpuLine
from lab.gpu.process.session import GpuSession
from lab.hardware.gpus import Gpu, from_description, gpu_for
from lab.measured.timing import GpuDescription, Kind
from lab.report.tuning import render as report
from lab.store.resume import differing
from lab.store.tuning import TimingStage, TuningStore
from lab.store.tuning_model import Cut, KernelFacts, ProblemType, ProtocolStep
from lab.toolchain.select import toolchain
from lab.tuning import final
from lab.tuning.bench import Bench, Ledger, Measured, Predicted, Task
from lab.tuning.choose.protocol import Candidate, Times, candidate, select
from lab.tuning.file.load import Group, Tuning, load
from lab.tuning.kernels import Kernel, Workshop


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """What the command line adds to a tuning file.

    Attributes:
        output: Folder; ``reports/<tuning>`` by default.
        jobs: Build processes; the number of usable cores by default.
        measure: Use a GPU where there is one.
        arch: In place of the file's; may be empty.
        resume: Go on with the run that is in the folder; by default where it is unfinished.
        command: The command that repeats the run, for the record.
    """

    output: Path | None = None
    jobs: int | None = None
    measure: bool = True
    arch: str = ""
    resume: bool | None = None
    command: str = ""


class TuningObserver(Protocol):
    """Whoever shows progress."""

    def began(self, tuning: Tuning, gpu: str) -> None:
        """The file was read; `gpu` is the GPU's name or why none is used."""

    def built(self, facts: KernelFacts) -> None:
        """One kernel was built, or could not be."""

    def timed(self, size: Size, points: int) -> None:
        """So many points were timed at a size."""

    def stepped(self, step: ProtocolStep) -> None:
        """A step of the protocol is done."""


@dataclass(frozen=True)
class TuningOutcome:
    """What a run left.

    Attributes:
        folder: Its folder.
        pages: The report's files.
        libraries: Folders of the libraries.
        kernels: How many were built.
        failed: Kernels that could not be built, or whose result was wrong somewhere.
        interrupted: Ctrl-C ended it early.
        not_measured: Why nothing was measured; empty where something was.
    """

    folder: Path
    pages: tuple[Path, ...]
    libraries: tuple[Path, ...]
    kernels: int
    failed: tuple[str, ...]
    interrupted: bool
    not_measured: str


def tune(file: Path, options: TuningOptions, observer: TuningObserver) -> TuningOutcome:
    """Run a tuning file.

    Raises:
        UserError: the file is wrong, or no kernel is left after a step.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the folder cannot be written, or is in use.
    """
    workers.prepare()
    tuning = load(file)
    described, not_measured = describe.find(measure=options.measure)
    arch = describe.resolve(options.arch or tuning.arch, described, key="arch", write=f"`arch: sm_90` in {tuning.file}")
    gpu = from_description(described) if described else gpu_for(tuning.gpu or arch)
    tool = toolchain(tuning.toolchain)
    if not tool.supports(arch):
        raise UserError(f"{tool.name} {tool.version} cannot target {arch}", key="arch", found=arch)
    folder = options.output or Path("reports") / tuning.name
    with ExitStack() as stack:
        store = stack.enter_context(TuningStore(folder, create=True))
        conditions = {
            "toolchain": f"{tool.name} {tool.version}",
            "GPU": f"{described.name}, driver {described.driver}" if described else f"predicted for {gpu.name}",
            "timing": tuning.timing.model_dump(),
            "halving": tuning.halving.model_dump() if tuning.halving else None,
            "seed": tuning.seed,
            "lab": __version__,
            "commit": environment.commit(),
        }
        _take_up(store, conditions, resume=options.resume)
        started = (store.noted("facts") or {}).get("started") or datetime.now(UTC).isoformat(timespec="seconds")
        facts = _facts(tuning, options, described, gpu, not_measured, started=started)
        store.note("state", {"conditions": conditions, "finished": False})
        store.note("facts", facts)
        observer.began(tuning, described.name if described else not_measured)
        ledger = Ledger(store)
        bench: Bench
        if described:
            line = stack.enter_context(GpuLine(GpuSession()))
            bench = Measured(ledger, line, tuning.timing, tuning.seed, observer.timed)
        else:
            bench = Predicted(ledger, gpu, observer.timed)
        shop = stack.enter_context(Workshop(tool, arch, gpu, options.jobs or workers.cores(), observer.built))
        work = _Work(final.Run(tuning, bench, ledger, gpu), shop, observer, folder)
        interrupted = False
        try:
            work.everything()
        except KeyboardInterrupt:
            interrupted = True
        facts |= {"interrupted": interrupted, "libraries": work.libraries, "singles": work.singles}
        if isinstance(bench, Measured):
            facts["baseline"] = bench.library
        work.remember(facts)
        pages = report.render(store)
        store.note("state", {"conditions": conditions, "finished": not interrupted})
        failed = tuple(_failures(ledger, shop))
        written = tuple(folder / name for name in work.libraries)
        return TuningOutcome(folder, pages, written, len(shop.known), failed, interrupted, not_measured)


class _Work:
    """The protocol on its way."""

    def __init__(self, run: final.Run, shop: Workshop, observer: TuningObserver, folder: Path) -> None:
        """Nothing is done yet."""
        self._run, self._shop, self._observer, self._folder = run, shop, observer, folder
        self._steps: dict[str, list[ProtocolStep]] = {}
        self._cuts: dict[str, list[Cut]] = {}
        self.libraries: dict[str, dict[str, object]] = {}
        self.singles: dict[str, list[str]] = {}

    def everything(self) -> None:
        """Every problem type: steps 1 to 6 of its groups, step 7 of them together, the library."""
        for kind in self._run.tuning.types:
            kernels: list[Kernel] = []
            singles: set[str] = set()
            groups = [group for group in self._run.tuning.groups if group.type == kind]
            for group in groups:
                made, single = self._group(group)
                kernels += made
                singles |= single
            self._final(kind, groups, kernels, frozenset(singles))

    def _group(self, group: Group) -> tuple[list[Kernel], set[str]]:
        """Steps 1 to 6; the kernels that are left, and the id of the one that others are held against."""

        def times(candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
            return self._times(group, candidates, sizes)

        chosen, steps = select(group, times)
        self._note(group, steps)
        if group.single is None:
            return list(self._shop.make(chosen).values()), set()
        single = candidate(group, group.single)
        if isinstance(single, str):
            at = Location(self._run.tuning.file)
            raise UserError("the single-tuned kernel is none", at=at, key="single_tuned", found=single)
        made = self._shop.make([*chosen, single])
        return list(made.values()), {made[single.name].facts.id}

    def _times(self, group: Group, candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
        """What the protocol asks for in steps 2 to 6."""
        made, run = self._shop.make(candidates), self._run
        tasks = [Task(size, tuple(made.values())) for size in sizes]
        run.bench.run(TimingStage.STEPS, group.type, tasks, drop=None, baseline=False)
        return {
            name: {
                size: timed
                for size in sizes
                if (timed := run.ledger.of(TimingStage.STEPS, one.facts.id, size)) is not None
            }
            for name, one in made.items()
        }

    def _final(self, kind: ProblemType, groups: list[Group], kernels: list[Kernel], singles: frozenset[str]) -> None:
        """Step 7 and the library."""
        run = self._run
        race = final.final_of(run.tuning, kind, kernels, singles)
        self._cuts[kind.label] = final.race(run, race)
        for group in groups:
            self._note(group, (final.step(race, run.ledger, self._cuts[kind.label], group.name),))
        made = final.library(run, race, self._folder, self._source(kind))
        if made is not None:
            about = final.noted(made.logic, made.loss, made.held_out, made.interpolated)
            self.libraries[made.folder.name] = {"type": kind.label, **about}
        self.singles[kind.label] = sorted(singles)

    def _source(self, kind: ProblemType) -> str:
        run = self._run
        how = "measured on" if run.bench.kind is Kind.MEASURED else "predicted for"
        return f"{kind.label}, {run.tuning.name}: times {how} {run.gpu.name}, lab {__version__}"

    def _note(self, group: Group, steps: tuple[ProtocolStep, ...]) -> None:
        self._steps.setdefault(group.type.label, []).extend(steps)
        for step in steps:
            self._observer.stepped(step)

    def remember(self, facts: Mapping[str, object]) -> None:
        """Everything that the report needs besides times."""
        store = self._run.ledger.store
        store.write_kernels(one.facts for one in self._shop.known.values())
        store.write_steps(self._steps, self._cuts)
        store.note("facts", facts)


def _facts(
    tuning: Tuning,
    options: TuningOptions,
    described: GpuDescription | None,
    gpu: Gpu,
    not_measured: str,
    *,
    started: str,
) -> dict[str, object]:
    """The run's own facts."""
    return {
        "tuning": tuning.name,
        "question": tuning.question,
        "source": tuning.text,
        "command": options.command or shlex.join(["python", "-m", "lab", "tune", str(tuning.file)]),
        "started": started,
        "lab_version": __version__,
        "commit": environment.commit(),
        "python": environment.python(),
        "packages": dict(environment.packages()),
        "gpu": asdict(described) if described else None,
        "predicted_for": gpu.name,
        "peak_tflops": gpu.peak_tflops("float32"),
        "not_measured": not_measured,
        "baseline": "",
        "interrupted": False,
        "timing": tuning.timing.model_dump(),
        "types": {kind.label: asdict(kind) for kind in tuning.types},
        "final": {
            kind.label: {
                "ranges": [list(s) for g in tuning.groups if g.type == kind for s in g.final.ranges],
                "exact": [list(s) for g in tuning.groups if g.type == kind for s in g.final.exact],
            }
            for kind in tuning.types
        },
    }


def _failures(ledger: Ledger, shop: Workshop) -> list[str]:
    """What failed, a sentence a kernel."""
    found: dict[str, str] = {}
    for one in shop.known.values():
        if one.facts.failure:
            found[one.facts.name] = one.facts.failure
    names = {one.facts.id: one.facts.name for one in shop.known.values()}
    for times in ledger.times.values():
        for identity, sizes in times.items():
            for size, timed in sizes.items():
                if timed.failure and timed.kind is Kind.MEASURED and identity in names:
                    found.setdefault(names[identity], f"at {size}: {timed.failure}")
    return [f"{name}: {why}" for name, why in found.items()]


def _take_up(store: TuningStore, conditions: Mapping[str, object], *, resume: bool | None) -> None:
    """Keep what an earlier run left here if this one may go on with it, else forget it.

    Raises:
        StoreError: going on was asked for, and what is there was made under other conditions.
    """
    others = differing(store.noted("state"), conditions, resume=resume, folder=store.folder, made="times were taken")
    if others is None or others:
        store.clear()
