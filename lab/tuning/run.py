"""A tuning run from its file to its folder: steps, times, library, report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from lab.base import environment, interrupts, workers
from lab.base.elements import arithmetic_of
from lab.base.errors import UserError
from lab.base.sizes import Size
from lab.base.version import VERSION
from lab.gpu.device import describe
from lab.gpu.process.cards import Card, Cards
from lab.hardware.calibration import calibrated
from lab.hardware.gpus import Gpu, from_description, gpu_for
from lab.measured.card_comparison import CardRecord
from lab.measured.timing import GpuDescription
from lab.report.tuning import render as report
from lab.runs.services import Services
from lab.store.previous import keep_tuning, kept
from lab.store.resume import differing
from lab.store.tuning import TuningStore
from lab.store.tuning_model import FinalSizes, KernelFacts, ProtocolStep, TimingFacts, TimingStage, TuningFacts
from lab.toolchain.base import Toolchain
from lab.toolchain.select import toolchain
from lab.tuning.bench import Bench, Ledger, MeasuredBench, PredictedBench
from lab.tuning.candidate_builds import Workshop
from lab.tuning.file.load import Tuning, load
from lab.tuning.protocol_steps import Work
from lab.tuning.race import TuningContext
from lab.tuning.watched import SizeLeader, SizeNews, WatchedBench


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """Command-line options of a tuning run.

    Attributes:
        output: Folder of the run; ``reports/<tuning>`` by default.
        jobs: Build processes; the number of usable cores by default.
        measure: Use a GPU where there is one.
        arch: Architecture in place of the file's; empty keeps the file's.
        cluster: Where it runs: ``local`` takes every GPU of this machine; empty takes the first one.
        gpu_model: Part of the name of the model to measure on; needed where there are several.
        gpu: GPU to predict for in place of the file's, unless empty.
        resume: Continue the run that is in the folder; by default where that run is unfinished.
        command: Command that repeats the run, for the record.
    """

    output: Path | None = None
    jobs: int | None = None
    measure: bool = True
    arch: str = ""
    cluster: str = ""
    gpu_model: str = ""
    gpu: str = ""
    resume: bool | None = None
    command: str = ""


class TuningObserver(Protocol):
    """An interface that shows a tuning run's progress."""

    def began(self, tuning: Tuning, gpu: str, *, measured: bool = True) -> None:
        """Start a run: `gpu` is the GPU's name, or the reason for predicted times if they are not `measured`."""

    def resumed(self, points: int) -> None:
        """Resume an unfinished run with `points` times kept."""

    def built(self, facts: KernelFacts) -> None:
        """Report a kernel that was built, or failed to build."""

    def asked(self, what: str, sizes: int) -> None:
        """Report that kernels will be timed at some sizes, for `what`; earlier requests are done."""

    def timed(self, size: Size, points: int, leader: SizeLeader | None = None) -> None:
        """Report a timed size: `points` of the times are new, and `leader` is the fastest kernel there."""

    def stepped(self, step: ProtocolStep) -> None:
        """Report a completed step of the protocol."""

    def drawing(self) -> None:
        """Report that all steps are done or Ctrl-C was pressed; rendering of the report starts."""


@dataclass(frozen=True)
class TuningOutcome:
    """The result of a tuning run.

    Attributes:
        folder: Its folder.
        pages: The report's files.
        libraries: Folders of the libraries.
        kernels: Number of kernels that were built, failed builds included.
        failed: A sentence for each kernel that could not be built, or whose result was wrong at some size.
        interrupted: Ctrl-C ended the run early.
        not_measured: Why nothing was measured; empty where something was.
        previous: Folder of the last finished run of the same folder, or None.
    """

    folder: Path
    pages: tuple[Path, ...]
    libraries: tuple[Path, ...]
    kernels: int
    failed: tuple[str, ...]
    interrupted: bool
    not_measured: str
    previous: Path | None = None


@dataclass(frozen=True)
class _Setting:
    """The configuration of a run, fixed before it starts.

    Attributes:
        tuning: The tuning file.
        options: What the command line adds.
        services: The run's surroundings.
        cards: The GPUs that measure, all of one model; none where all times are predicted.
        not_measured: Why; empty where there is a GPU.
        arch: Architecture of the kernels.
        gpu: The GPU that measures, or that predictions are for.
        tool: The compiler.
    """

    tuning: Tuning
    options: TuningOptions
    services: Services
    cards: tuple[Card, ...]
    not_measured: str
    arch: str
    gpu: Gpu
    tool: Toolchain

    @property
    def described(self) -> GpuDescription | None:
        """Description of the GPUs; None without a GPU."""
        return self.cards[0].description if self.cards else None

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.options.output or Path("reports") / self.tuning.name

    @property
    def jobs(self) -> int:
        """Number of build processes."""
        return self.options.jobs or workers.cores()


def tune(
    file: Path, options: TuningOptions, observer: TuningObserver, services: Services | None = None
) -> TuningOutcome:
    """Run a tuning file. Ctrl-C ends the run early; its report has the times taken so far.

    Args:
        file: The tuning file.
        options: What the command line adds to it.
        observer: What shows progress.
        services: The run's surroundings; this machine's by default.

    Raises:
        UserError: the file is wrong, or no kernel is left after a step.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the folder cannot be written, or is in use.
    """
    services = services or Services()
    services.prepare()
    setting = _setting(load(file), options, services)
    conditions = _conditions(setting)
    with TuningStore(setting.folder, create=True) as store:
        points = _take_up(store, conditions, resume=options.resume)
        facts = _facts(setting, store)
        store.note("state", {"conditions": conditions, "finished": False})
        store.write_facts(facts)
        gpu = setting.described.name if setting.described else setting.not_measured
        observer.began(setting.tuning, gpu, measured=setting.described is not None)
        if points:
            observer.resumed(points)
        outcome = _work(setting, store, facts, observer)
        store.note("state", {"conditions": conditions, "finished": not outcome.interrupted})
        return outcome


def _setting(tuning: Tuning, options: TuningOptions, services: Services) -> _Setting:
    """Find the GPU and the compiler.

    Raises:
        UserError: the compiler does not know the architecture.
    """
    cards, not_measured = services.find_cards(
        measure=options.measure, every=bool(options.cluster), model=options.gpu_model
    )
    described = cards[0].description if cards else None
    arch = describe.resolve(options.arch or tuning.arch, described, key="arch", write=f"`arch: sm_90` in {tuning.file}")
    gpu = calibrated(from_description(described) if described else gpu_for(options.gpu or tuning.gpu or arch))
    tool = toolchain(tuning.toolchain)
    if not tool.supports(arch):
        raise UserError(f"{tool.name} {tool.version} cannot target {arch}", code="unsupported", key="arch", found=arch)
    return _Setting(tuning, options, services, cards, not_measured, arch, gpu, tool)


def _conditions(setting: _Setting) -> dict[str, JsonValue]:
    """Return everything that affects a time besides kernel and size; times under equal conditions can be reused."""
    tuning, described, tool = setting.tuning, setting.described, setting.tool
    return {
        "toolchain": f"{tool.name} {tool.version}",
        "GPU": f"{described.name}, driver {described.driver}" if described else f"predicted for {setting.gpu.name}",
        "timing": tuning.timing.model_dump(),
        "halving": tuning.halving.model_dump() if tuning.halving else None,
        "seed": tuning.seed,
        "lab": VERSION,
        "commit": environment.commit(),
        "Python": environment.python(),
        "packages": dict(environment.packages()),
    }


def _take_up(store: TuningStore, conditions: dict[str, JsonValue], *, resume: bool | None) -> int:
    """Continue an earlier run if allowed, else start anew and keep the last finished run beside it.

    Returns:
        How many times are kept.

    Raises:
        StoreError: `resume` asks to continue it, and it was made under other conditions.
    """
    differences = differing(store.state(), conditions, resume=resume, folder=store.folder, content="times were taken")
    if differences is None or differences:
        keep_tuning(store)
        store.clear()
    return sum(len(own) for stage in TimingStage for own in store.times(stage).values())


def _facts(setting: _Setting, store: TuningStore) -> TuningFacts:
    """Return the run's facts at its start."""
    tuning, described = setting.tuning, setting.described
    earlier = store.known_facts()
    damage = (store.damage,) if store.damage else ()
    return TuningFacts(
        tuning=tuning.name,
        question=tuning.question,
        source=tuning.text,
        command=setting.options.command or shlex.join(["python", "-m", "lab", "tune", str(tuning.file)]),
        started=earlier.started if earlier else datetime.now(UTC).isoformat(timespec="seconds"),
        lab_version=VERSION,
        commit=environment.commit(),
        python=environment.python(),
        packages=environment.packages(),
        gpu=described,
        predicted_for=setting.gpu.name,
        peaks={kind.dtype: setting.gpu.peak_tflops(arithmetic_of(kind.dtype)) for kind in tuning.types},
        not_measured=setting.not_measured,
        baseline="",
        interrupted=False,
        timing=TimingFacts(**tuning.timing.model_dump()),
        types={kind.label: kind for kind in tuning.types},
        final={
            kind.label: FinalSizes(
                ranges=tuple(size for group in tuning.groups if group.type == kind for size in group.final.ranges),
                exact=tuple(size for group in tuning.groups if group.type == kind for size in group.final.exact),
            )
            for kind in tuning.types
        },
        notes=(*(earlier.notes if earlier else ()), *damage),
    )


def _work(setting: _Setting, store: TuningStore, facts: TuningFacts, observer: TuningObserver) -> TuningOutcome:
    """Run the steps and render the report."""
    tuning, services, ledger, interrupted = setting.tuning, setting.services, Ledger(store), False
    news = SizeNews(ledger, observer)
    with ExitStack() as stack:
        bench: Bench
        cards: Cards | None = None
        if setting.cards:
            cards = stack.enter_context(services.cards(setting.cards))
            bench = MeasuredBench(ledger, cards, tuning.timing, tuning.seed, news.timed)
        else:
            bench = PredictedBench(ledger, setting.gpu, news.timed)
        executor = stack.enter_context(services.executor(setting.jobs))
        shop = Workshop(setting.tool, setting.arch, setting.gpu, executor, observer.built, services.build)
        work = Work(
            TuningContext(tuning, WatchedBench(bench, news), ledger, setting.gpu), shop, observer.stepped, store.folder
        )
        try:
            with interrupts.stoppable(lambda: any(work.context.ledger.times.values())):
                work.everything()
        except KeyboardInterrupt:
            interrupted = True
        observer.drawing()
        card_records = bench.standing() if isinstance(bench, MeasuredBench) else ()
        notes = (*facts.notes, *_on_cards(card_records), *(cards.notes if cards is not None else ()))
        facts = replace(facts, interrupted=interrupted, notes=tuple(dict.fromkeys(notes)), cards=card_records)
        completed_facts = work.remember(facts)
        return TuningOutcome(
            folder=store.folder,
            pages=report.render(store),
            libraries=tuple(store.folder / name for name in completed_facts.libraries),
            kernels=len(shop.known),
            failed=work.failures(),
            interrupted=interrupted,
            not_measured=setting.not_measured,
            previous=kept(store),
        )


def _on_cards(cards: Sequence[CardRecord]) -> tuple[str, ...]:
    return tuple(
        f"{card.label} differs from the other cards: {card.differs}. At each size all kernels and cuBLAS were timed on "
        f"one card, so that they compare; times at different sizes do not, where one of them is of {card.label}."
        for card in cards
        if card.differs
    )
