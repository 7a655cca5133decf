"""The command line: each command is one call, a printed result and an exit code.

Exit codes: 0 all is well; 1 some variant is wrong, suspect, not executed or does not compile; 2 usage or input error; 3
the environment lacks what was asked for; 70 an error in lab itself; 130 interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from lab.base import shipped, terminal
from lab.base.errors import CompileError, LabError, MissingToolError, StoreError, UserError
from lab.base.machine_errors import fault_of
from lab.base.terminal import write
from lab.base.version import VERSION
from lab.cli import cluster as clusters
from lab.cli import library as libraries
from lab.cli.cluster import Insecure, Keys
from lab.cli.diff import diff

if TYPE_CHECKING:
    from lab.cli.terminal import Output
    from lab.runs.pipeline import RunOutcome
    from lab.templates.plain.draft import Guess

app = typer.Typer(
    name="lab",
    help="A bench for CUDA kernels: what did this change do to the machine code, and did it pay?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(clusters.commands)
app.add_typer(libraries.commands)

_OK, _VARIANT_FAILED, _INPUT, _ENVIRONMENT, _BUG, _INTERRUPTED = 0, 1, 2, 3, 70, 130

# typer brings a copy of click's exceptions in some versions and uses click's own in others; both derive BadParameter
# from UsageError, and typer exports it
_UsageError: Any = typer.BadParameter.__base__

Cluster = Annotated[
    str | None,
    typer.Option(
        help="local: every GPU of this machine measures; tls://host:8786: a Dask cluster.", show_default="the first GPU"
    ),
]
PredictedGpus = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu",
        help="GPU to predict for in place of the experiment's: 'RTX 4090'. May be repeated, one for each architecture.",
    ),
]
Archs = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        "--archs",
        help="Architecture in place of the experiment's: sm_90. May be repeated, or sm_80,sm_90.",
    ),
]
NoGpu = Annotated[bool, typer.Option("--no-gpu", help="Measure nothing, even where there is a GPU.")]
GpuModel = Annotated[
    str,
    typer.Option(help="Part of the name of the GPUs to measure on: H200. Models are never mixed.", show_default=False),
]
Serve = Annotated[bool, typer.Option("--serve", help="Show the progress on a local web page; its address is printed.")]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port of that page; implies --serve.", show_default="a free one"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def _stdout() -> Output:
    from lab.cli.terminal import stdout  # with rich, which takes longer to import than all of this

    return stdout()


def _stderr() -> Output:
    from lab.cli.terminal import stderr

    return stderr()


def _variant_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids of an experiment's variants that begin with a word, and their labels, for the shell."""
    named = context.params.get("file") or context.params.get("experiment")
    if named is None:
        return []
    from lab.cli.inspect import image_rows, variants
    from lab.toolchain.containers.images import is_container

    try:
        file = shipped.experiment(Path(named))
        if is_container(file):
            rows = [(str(image["variant"]), str(image["where"])) for image in image_rows(file)]
        else:
            rows = [(planned.variant, planned.label) for planned in variants(file)]
    except LabError:
        return []
    return [(variant, label) for variant, label in rows if variant.startswith(incomplete)]


def _version(*, requested: bool) -> None:
    if requested:
        from lab.base.environment import commit

        of, _, dirty = commit().partition("+")
        changes = " with uncommitted changes" if dirty else ""
        write(f"lab {VERSION}, {f'commit {of}{changes}' if of else 'unknown commit'}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda v: _version(requested=v), is_eager=True, help="Print version and commit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    experiment: Annotated[
        Path, typer.Argument(help="An experiment file, or the name of one that comes with lab.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run directory.", show_default="reports/<experiment>")
    ] = None,
    max_variants: Annotated[
        int | None, typer.Option(min=1, help="Largest sweep to accept.", show_default="1000")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes.", show_default="one for each core")
    ] = None,
    arch: Archs = None,
    toolchain: Annotated[
        list[str] | None, typer.Option(help="Toolchain in place of the experiment's: nvrtc. May be repeated.")
    ] = None,
    gpu: PredictedGpus = None,
    no_gpu: NoGpu = False,
    emulate: Annotated[
        Literal["small", "full"],
        typer.Option(help="Problem to emulate: the experiment's small one, or the full one, unchecked."),
    ] = "small",
    no_emulate: Annotated[bool, typer.Option("--no-emulate", help="Do not execute variants on the CPU.")] = False,
    profile: Annotated[
        bool | None,
        typer.Option(help="Read hardware counters of the best variants.", show_default="where the experiment says so"),
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option(help="Continue the run in the directory, or start over.", show_default="if it is unfinished"),
    ] = None,
    cluster: Cluster = None,
    keys: Keys = None,
    insecure: Insecure = False,
    gpu_model: GpuModel = "",
    repeat_check: Annotated[
        bool, typer.Option("--repeat-check", help="Run everything twice, in two processes, and report what differs.")
    ] = False,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Also write the times for Kernel Tuner: a cache file, or T4 results into a NAME.t4.json."),
    ] = None,
    serve: Serve = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Compile, inspect, predict, emulate and, with a GPU, measure every variant; write the report."""
    from lab.base import workers
    from lab.gpu.process import ahead

    if cluster in {None, clusters.LOCAL}:
        workers.prepare()  # while this process imports, too
        if not no_gpu:
            ahead.prepare()
    from lab.cli.live.run_account import RunAccount
    from lab.cli.live.serving import LivePage
    from lab.cli.progress import RunWatch
    from lab.runs.pipeline import RunOptions
    from lab.runs.pipeline import run as run_experiment

    options = RunOptions(
        output=output,
        max_variants=max_variants,
        jobs=jobs,
        measure=not no_gpu,
        gpus=tuple(gpu or ()),
        emulate=not no_emulate,
        whole=emulate == "full",
        archs=_words(arch),
        toolchains=tuple(toolchain or ()),
        profile=profile,
        resume=resume,
        command=shlex.join(["python", "-m", "lab", *sys.argv[1:]]),
        gpu_model=gpu_model,
        held=False,
    )
    account = RunAccount()
    with LivePage(account, _stderr(), serve=serve, port=port) as page:
        watch = RunWatch(account)
        with clusters.surroundings(cluster, keys, insecure=insecure, jobs=jobs) as (cluster_address, services):
            options = replace(options, cluster=cluster_address)
            if repeat_check:
                from lab.runs.repeat import run_twice

                if services is not None:
                    raise UserError(
                        "--repeat-check is not supported on a cluster",
                        code="unsupported",
                        key="--cluster",
                        found=cluster_address,
                    )
                outcome = run_twice(experiment, options, watch)
            else:
                with watch() as progress:
                    outcome = run_experiment(experiment, options, progress, services)
        for file in export or ():
            from lab.store.tuned import write_tuned

            write_tuned(file, outcome.run, outcome.records)
        page.ended(outcome.folder, interrupted=outcome.interrupted)
        code = _print_run(outcome, as_json=as_json)
        if not outcome.interrupted:
            page.stay()
    raise typer.Exit(code)


def _words(options: Sequence[str] | None) -> tuple[str, ...]:
    """Return the words of a repeated option that also takes several, separated by commas."""
    return tuple(word.strip() for words in options or () for word in words.split(","))


def _print_run(outcome: RunOutcome, *, as_json: bool = False, guesses: Sequence[Guess] = ()) -> int:
    """Print the answer, the best variants, the changes since the last run, and the report's path; return the exit code.

    Verdicts that rest on guesses do not count: nothing was shown.
    """
    from lab.cli.tables import print_advice_on_best, print_best, print_changes, print_outcome
    from lab.cli.terminal import print_flowing
    from lab.report.analysis import brief_answer
    from lab.report.ranking import ranking
    from lab.runs.compare import compare_folders

    console = _stderr()
    tables = console if as_json else _stdout()
    result = ranking(outcome.run, outcome.lean_records) if as_json else None
    if sentences := result["answer"] if result else brief_answer(outcome.run, outcome.lean_records):
        print_flowing(tables, " ".join(sentences), "bold")
    print_best(tables, outcome)
    print_advice_on_best(tables, outcome)
    if outcome.previous and not outcome.interrupted:
        with suppress(UserError, StoreError):  # nothing in common, or a run that another version of lab wrote
            print_changes(console, compare_folders(outcome.previous, outcome.folder, explain=False))
    print_outcome(console, outcome, guesses)
    if result:
        _print_json(result | {"folder": str(outcome.folder)})
        sys.stdout.flush()
    return _INTERRUPTED if outcome.interrupted else _VARIANT_FAILED if outcome.failed or guesses else _OK


@app.command()
def tune(
    tuning: Annotated[
        Path, typer.Argument(help="A tuning file, or the name of one that comes with lab.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the run.", show_default="reports/<tuning>")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes.", show_default="one for each core")
    ] = None,
    arch: Annotated[str, typer.Option(help="Architecture in place of the file's: sm_90.", show_default=False)] = "",
    gpu: Annotated[str, typer.Option(help="GPU to predict for in place of the file's: H200.", show_default=False)] = "",
    no_gpu: NoGpu = False,
    resume: Annotated[
        bool | None,
        typer.Option(help="Continue the run in the folder, or start over.", show_default="if it is unfinished"),
    ] = None,
    cluster: Cluster = None,
    keys: Keys = None,
    insecure: Insecure = False,
    gpu_model: GpuModel = "",
    serve: Serve = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Find the fastest kernel for each size by Tensile's protocol; write a report and a library."""
    from dataclasses import asdict

    from lab.gpu.process import ahead

    if not no_gpu and cluster in {None, clusters.LOCAL}:
        ahead.prepare()  # while this process imports
    from lab.cli.live.serving import LivePage
    from lab.cli.live.tune_account import TuneAccount
    from lab.cli.progress import TuneProgress
    from lab.cli.tables import print_tuned
    from lab.report.tuning.data import Champion, analyse
    from lab.store.tuning import TuningStore
    from lab.tuning.run import TuningOptions
    from lab.tuning.run import tune as run_tuning

    console = _stderr()
    command = shlex.join(["python", "-m", "lab", *sys.argv[1:]])
    options = TuningOptions(
        output=output,
        jobs=jobs,
        measure=not no_gpu,
        arch=arch,
        gpu=gpu,
        gpu_model=gpu_model,
        resume=resume,
        command=command,
    )
    account = TuneAccount()
    with LivePage(account, console, serve=serve, port=port) as page:
        with clusters.surroundings(cluster, keys, insecure=insecure, jobs=jobs) as (cluster_address, services):
            options = replace(options, cluster=cluster_address)
            with TuneProgress(console, account) as progress:
                outcome = run_tuning(tuning, options, progress, services)
        page.ended(outcome.folder, interrupted=outcome.interrupted)
        won: list[tuple[str, Champion]] = []
        with suppress(StoreError), TuningStore(outcome.folder) as store:  # an interrupted run may have no times yet
            won = [
                (problem_type.label, kernel) for problem_type in analyse(store).types for kernel in problem_type.kernels
            ]
            won.sort(key=lambda pair: -pair[1].wins)
        print_tuned(console, outcome, won)
        if as_json:
            _print_json(asdict(outcome) | {"winners": [{"type": label} | asdict(champion) for label, champion in won]})
            sys.stdout.flush()
        if not outcome.interrupted:
            page.stay()
    raise typer.Exit(_INTERRUPTED if outcome.interrupted else _VARIANT_FAILED if outcome.failed else _OK)


@app.command()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .ptx, .cubin, .cu, .cuh or .h file, a library, wheel or folder with such, or an experiment.",
            show_default=False,
        ),
    ],
    variant: Annotated[
        str | None,
        typer.Option(help="Id of one variant of the experiment, or image of the library.", autocompletion=_variant_ids),
    ] = None,
    arch: Annotated[str, typer.Option(help="Architecture that a .cu file is compiled for.")] = "sm_90",
    toolchain: Annotated[str, typer.Option(help="Compiler of a .cu file: auto, nvrtc or nvcc.")] = "auto",
    isa: Annotated[Literal["ptx", "sass"] | None, typer.Option(help="Listing to print, with --json.")] = None,
    max_variants: Annotated[int | None, typer.Option(min=1, help="Largest sweep to list.", show_default="1000")] = None,
    run_operator: Annotated[
        bool, typer.Option("--run-operator", help="Run the experiment's own operator, a Python file, in a worker.")
    ] = False,
    kernel: Annotated[
        str | None, typer.Option(help="Kernel, or instance of a template: 'scale<float>'.", show_default="all")
    ] = None,
    define: Annotated[list[str] | None, typer.Option("--define", "-D", help="Macro of a .cu file: TILE=32.")] = None,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")] = None,
    root: Annotated[
        Path | None, typer.Option(help="Highest folder of included files.", show_default="the project's")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show the source and whole listings, not only hot loops.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show registers, spills and the hot loop of each kernel: PTX, SASS and the instruction mix.

    Flags are read from compile_commands.json or a Makefile beside the source. On a terminal, a pager shows what is
    longer than the screen.
    """
    from dataclasses import asdict

    from lab.cli import inspect, tables
    from lab.cli.listing import print_inspection
    from lab.cli.live.work import work_progress
    from lab.cli.terminal import paged
    from lab.toolchain.containers.images import is_container

    console = _stdout()
    file = shipped.experiment(file)
    if file.suffix in (".yaml", ".yml") and variant is None:
        planned = inspect.variants(file, max_variants, run_operator=run_operator)
        if as_json:
            _print_json([inspect.variant_row(planned_variant) for planned_variant in planned])
        else:
            tables.print_variants(console, planned)
        return
    if is_container(file):
        with work_progress(_stderr()) as progress:
            image = inspect.inspect_image(file, variant, follow=progress.follow)
        if image is None and as_json:
            _print_json(inspect.image_rows(file))
        elif image is None:
            tables.print_images(console, inspect.image_rows(file))
        if image is None:
            return
        inspection = image
    elif file.suffix in (".yaml", ".yml") and variant is not None:
        inspection = inspect.inspect_variant(file, variant, max_variants, run_operator=run_operator)
    else:
        with work_progress(_stderr()) as progress:
            options = inspect.SourceOptions(arch, toolchain, kernel, root, tuple(include or ()), tuple(define or ()))
            inspection = inspect.inspect_file(file, options, follow=progress.follow)
    if as_json:
        _print_json(inspection.to_json(isa) | {"advice": inspection.advice and asdict(inspection.advice)})
    else:
        with paged(console):
            print_inspection(console, inspection, full=full)


@app.command()
def emulate(
    file: Annotated[Path, typer.Argument(help="A .ptx or .cu file.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Kernel arguments: i32=5, f32[64,32]=normal, f32[8]=out.", show_default=False),
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel to execute.", show_default="the only one")] = None,
    grid: Annotated[str, typer.Option(help="Number of blocks: 4 or 4,4,1.")] = "1",
    block: Annotated[str, typer.Option(help="Threads in a block: 256 or 16,16.")] = "32",
    shared: Annotated[int, typer.Option(min=0, help="Bytes of dynamic shared memory.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random buffers.")] = 0,
    schedule: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of another fair order of warps and blocks.", show_default="the program's order"),
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="Macro of a .cu file: block_size_x=128.")
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds after which the launch is stopped.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Execute one kernel of a PTX or CUDA file on the CPU: counts, memory behaviour and faults."""
    from dataclasses import asdict

    from lab.cli.inspect import emulate_words
    from lab.cli.live.work import work_progress
    from lab.cli.tables import print_advice, print_emulation
    from lab.cli.trial import macros_of
    from lab.gpu.process.hostmemory import within_free_memory

    with work_progress(_stderr()) as progress, within_free_memory():
        emulation, outputs, advice = emulate_words(
            file,
            kernel,
            (grid, block),
            arguments or [],
            dynamic_shared_bytes=shared,
            seed=seed,
            schedule=schedule,
            macros=macros_of(define or []),
            limit_s=limit,
            follow=progress.follow,
        )
    if as_json:
        _print_json(asdict(emulation) | {"outputs": outputs, "advice": asdict(advice)})
    else:
        print_emulation(_stdout(), emulation, outputs)
        print_advice(_stdout(), advice)
    raise typer.Exit(_OK if emulation.clean else _VARIANT_FAILED)


@app.command("map")
def map_(
    mapping: Annotated[
        str,
        typer.Argument(
            # a bracket would be markup
            help=r"'\[3] | \[2, 2] => \[i0, t1, t0]', or a shorthand: cyclic(width=4).",
            show_default=False,
        ),
    ],
    element_bytes: Annotated[int, typer.Option("--bytes", min=1, max=16, help="Bytes of an element.")] = 4,
    elements: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Elements of the data.", show_default="the tensor's")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="Blocks of a launch to check the mapping against: 4 or 4,4,1.")
    ] = None,
    block: Annotated[
        str | None, typer.Option(help="Threads in a block of that launch: 256 or 16,16.", show_default="32")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which thread touches which element, which writes race, how accesses coalesce, and the CUDA index."""
    from dataclasses import asdict

    from lab.cli.inspect import sizes_of_word
    from lab.cli.tables import print_mapping
    from lab.templates.mapping.mapping_facts import facts
    from lab.templates.mapping.scopes import LaunchShape
    from lab.templates.mapping.text import parse

    shape = None
    if grid or block:
        shape = LaunchShape(sizes_of_word(grid or "1", "--grid"), sizes_of_word(block or "32", "--block"))
    mapping_facts = facts(parse(mapping), element_bytes, elements, shape)
    if as_json:
        _print_json(asdict(mapping_facts))
    else:
        print_mapping(_stdout(), mapping_facts)


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(help="A directory of `lab run` or `lab tune`, or committed results.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the report; for committed results, the run directory to restore.",
            show_default="the directory; <folder>/full",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the report of a run directory again, from its records alone."""
    from lab.base.folder import Folder
    from lab.report.render import render
    from lab.report.tuning import render as tuning
    from lab.store import published
    from lab.store.database import Store
    from lab.store.tuning import FILE, TuningStore

    target = output or folder
    if published.is_published(folder):
        target = folder = _restored(folder, output or (Folder(folder) / published.FULL).make())
    elif output is not None:
        _make(output)
    elif folder.is_dir() and not os.access(folder, os.W_OK, effective_ids=True):
        raise StoreError(f"{folder} cannot be written; name another folder for the report with --output")
    if Folder(folder).check(FILE):
        with TuningStore(folder) as tuned:
            drawn = tuning.render(tuned, target)
    else:
        with Store(folder) as store:
            drawn = render(store, folder=target)
    if as_json:
        _print_json([str(path) for path in drawn])
        return
    for path in drawn:
        write(str(path))


def _restored(folder: Path, target: Path) -> Path:
    from lab.store import published

    published.restore(folder, target)
    return target


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}") from error


@app.command()
def compare(
    a: Annotated[
        str,
        typer.Argument(
            help="A run directory, committed results, a records.json, or one variant of these: RUN#ID.",
            show_default=False,
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(help="What to compare with the first; or the id of a variant of that run.", show_default=False),
    ],
    c: Annotated[
        str | None, typer.Argument(help="After an id, the id of the variant to compare it with.", show_default=False)
    ] = None,
    threshold: Annotated[float, typer.Option(min=0, help="Loss of throughput that counts as a regression.")] = 0.05,
    relative: Annotated[
        bool, typer.Option("--relative", help="Compare throughput relative to the baseline's.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two runs, or two variants: which are faster, slower, the same, and what differs in their code.

    The exit code is 1 if a variant broke, or is slower by more than the threshold beyond doubt.
    """
    from dataclasses import asdict

    from lab.cli.comparison import print_comparison
    from lab.runs.compare import compare_folders

    if c is not None:  # RUN id1 id2
        a, b = f"{a}#{b.removeprefix('#')}", f"{a}#{c.removeprefix('#')}"
    comparison = compare_folders(a, b, relative=relative)
    regressions = [change.variant_b for change in comparison.changes if change.regressed(threshold)]
    if as_json:
        changes = [asdict(change) | {"regression": change.regressed(threshold)} for change in comparison.changes]
        _print_json(asdict(comparison) | {"changes": changes, "counts": comparison.counts, "regressions": regressions})
    else:
        print_comparison(_stdout(), comparison, threshold)
    raise typer.Exit(_VARIANT_FAILED if regressions else _OK)


app.command()(diff)


@app.command()
def new(
    source: Annotated[
        Path, typer.Argument(help="A .cu file, a header, or a .py file with a Triton function.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Experiment file.", show_default="<source>.yaml")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel to measure.", show_default="the only one")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    define: Annotated[list[str] | None, typer.Option("--define", "-D", help="Macro of the source: TILE=32.")] = None,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")] = None,
    root: Annotated[
        Path | None, typer.Option(help="Highest folder of included files.", show_default="the project's")
    ] = None,
    execute: Annotated[
        bool,
        typer.Option(help="Execute the draft's first variant on the CPU, and say in the file why it does not run."),
    ] = True,
) -> None:
    """Write an experiment file from a kernel's body and its host code; what neither says is marked TODO."""
    from lab.base.files import write_atomically
    from lab.cli import guesses
    from lab.cli import new as drafts

    sources = drafts.SourceFolders(root, tuple(include or ()), tuple(define or ()))
    target, draft = drafts.write_draft(source, output, kernel, force=force, sources=sources)
    for line in (*draft.warnings, *map(guesses.announce, draft.guesses)):
        write(line, error=True)
    if execute:
        from lab.cli.rehearsal import rehearse

        with contextlib.suppress(MissingToolError):  # without a compiler, the draft stands as it is
            done = rehearse(target)
            write(f"executed on the CPU: {done.verdict(is_guess=bool(draft.guesses))}", error=True)
            if not done.runs:
                write_atomically(target, f"{done.heading}\n{draft.text}")
    marks = draft.text.count("TODO")
    marked = "1 line is marked TODO" if marks == 1 else f"{marks} lines are marked TODO"
    write(f"{target}: {marked}; then: lab run {shlex.quote(str(target))}")


@app.command()
def fix(
    experiment: Annotated[Path, typer.Argument(help="An experiment on a .cu file.", show_default=False)],
    variant: Annotated[
        str,
        typer.Option(
            help="Id of the variant, or its beginning.", show_default="the only one", autocompletion=_variant_ids
        ),
    ] = "",
    finding: Annotated[
        str, typer.Option(help="Rule of the finding to remove: 'bank conflict'.", show_default="the largest gain")
    ] = "",
    write_source: Annotated[bool, typer.Option("--write", help="Write the changed source.")] = False,
) -> None:
    """Propose the smallest change of the source that removes a performance finding, tried on the CPU.

    It pads arrays, aligns what is loaded, unrolls loops, changes launch bounds and more. The results must stay right
    and the predicted time must be no longer.
    """
    from lab.cli import fix as fixing
    from lab.cli.progress import run_progress
    from lab.cli.terminal import print_flowing

    with run_progress() as progress:
        outcome = fixing.propose(experiment, variant, fixing.rule_of(finding), progress)
    console, fix = _stdout(), outcome.fix
    for line in fixing.lines_of(outcome):
        print_flowing(console, line, indent=3)
    for line in fix.diff if fix is not None else ():
        write(line)
    if fix is not None and write_source:
        fix.write()
        write(f"written: {fix.source}")
    elif fix is not None:
        write("nothing was written; --write changes the source")
    raise typer.Exit(_VARIANT_FAILED if outcome.before.status.failed else _OK)


@app.command("try", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def try_kernel(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="A .cu file, a header, or a .py file with a Triton function.", show_default=False)
    ],
    define: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", help="Macro or constexpr and its values: block_size_x=128,256."),
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernel to run.", show_default="the only one")] = None,
    argument: Annotated[
        list[str] | None, typer.Option(help="An argument where the guess is wrong: 'bins=inout uint32[256] zeros'.")
    ] = None,
    reference: Annotated[list[str] | None, typer.Option(help="Expected content of an output: 'c=a + b'.")] = None,
    grid: Annotated[str | None, typer.Option(help="Blocks: 'ceil_div(n, block_size_x)'; 'x; y' for two.")] = None,
    block: Annotated[str | None, typer.Option(help="Threads of a block, likewise.")] = None,
    shared_bytes: Annotated[str | None, typer.Option(help="Dynamic shared memory of a block.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run directory.", show_default="reports/<kernel>")
    ] = None,
    gpu: PredictedGpus = None,
    no_gpu: NoGpu = False,
    emulate: Annotated[bool, typer.Option(help="Execute every variant's PTX on the CPU.")] = True,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")] = None,
    root: Annotated[
        Path | None, typer.Option(help="Highest folder of included files.", show_default="the project's")
    ] = None,
    arch: Archs = None,
    serve: Serve = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Run a kernel without an experiment file: lab try kernel.cu --n 10_000_000 -D block_size_x=128,256.

    Each size of the kernel is an option of its name. What is not given follows from the kernel's body, as in `lab new`;
    what is a guess is said first, and a verdict that rests on it does not count (exit code 1). The file that ran is in
    the folder input of the run directory.
    """
    from lab.api.running import run_mapping
    from lab.cli import guesses
    from lab.cli.live.run_account import RunAccount
    from lab.cli.live.serving import LivePage
    from lab.cli.new import SourceFolders
    from lab.cli.progress import run_progress
    from lab.cli.trial import Asked, try_draft
    from lab.runs.pipeline import RunOptions

    geometry = {"grid": grid, "block": block, "shared_bytes": shared_bytes}
    request = Asked(
        kernel,
        _named_options(context.args),
        tuple(define or ()),
        tuple(argument or ()),
        tuple(reference or ()),
        {name: words for name, words in geometry.items() if words is not None},
        SourceFolders(root, tuple(include or ())),
    )
    draft = try_draft(source, request)
    for line in (*draft.notes, *map(guesses.announce, draft.guesses)):
        write(line, error=True)
    doubts = (guesses.note(draft.guesses),) if draft.guesses else ()
    options = RunOptions(
        output=output,
        measure=not no_gpu,
        gpus=tuple(gpu or ()),
        emulate=emulate,
        archs=_words(arch),
        notes=(*doubts, *draft.notes),
    )
    account = RunAccount()
    with LivePage(account, _stderr(), serve=serve, port=port) as page:
        with run_progress(account, guesses.PROVISIONAL if draft.guesses else "") as progress:
            outcome = run_mapping(draft.experiment, options, progress)
        page.ended(outcome.folder, interrupted=outcome.interrupted)
        code = _print_run(outcome, as_json=as_json, guesses=draft.guesses)
        if not outcome.interrupted:
            page.stay()
    raise typer.Exit(code)


def _named_options(words: Sequence[str]) -> dict[str, str]:
    """Return ``--n 5 --m=6`` as names and values."""
    options: dict[str, str] = {}
    remaining = list(words)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        if not name.startswith("--") or not (equals or remaining):
            raise UserError(
                "expected an option with a value", code="syntax", key="try", found=name, accepted="--n 10_000_000"
            )
        options[name[2:]] = value if equals else remaining.pop(0)
    return options


@app.command()
def judge(
    task: Annotated[Path, typer.Argument(help="A task file.", show_default=False)],
    candidate: Annotated[
        Path, typer.Argument(help="A .cu or .ptx file, or a .py file with a Triton function.", show_default=False)
    ],
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of everything that is drawn; repeats a verdict.", show_default="a new one"),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print everything; by default at most 2 KB.")] = False,
) -> None:
    """Judge a kernel for a task, and print the verdict as JSON.

    The exit code is 0 for correct, 1 for wrong, 4 for unsafe, 5 for cheating and 6 for not judged.
    """
    from lab.judging.judge import JudgeOptions, judge_file

    verdict = judge_file(task, candidate, JudgeOptions(seed=seed))
    write(verdict.as_json(full=full))
    raise typer.Exit(verdict.exit_code)


@app.command()
def mcp(
    root: Annotated[Path, typer.Option(help="Folder that holds everything an agent may name.")] = Path(),
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP on 127.0.0.1 in place of stdio.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of --http.")] = 8765,
    python: Annotated[
        bool, typer.Option("--python", help="Files may name Python: references, and Triton functions.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1, help="Time of one call.")] = 120.0,
    megabytes: Annotated[int, typer.Option(min=2048, help="Address space of each process of a call.")] = 16_384,
) -> None:
    """Serve lab to agents by the Model Context Protocol.

    With --http, requests need the token in LAB_MCP_TOKEN, or the one that is printed on stderr.
    """
    import secrets

    from lab.base.executor import ProcessExecutor
    from lab.mcp.commands import CallLimits
    from lab.mcp.server import serve_http, serve_stdio
    from lab.mcp.tools import confined

    with ProcessExecutor(2) as executor:
        tools = confined(root, CallLimits(seconds, megabytes), executor, python=python)
        if not http:
            serve_stdio(tools)
            return
        token = os.environ.get("LAB_MCP_TOKEN", "")
        if not token:
            token = secrets.token_urlsafe(24)
            write(f"token: {token}", error=True)
        serve_http(tools, port, token)


@app.command()
def doctor(as_json: Json = False) -> None:
    """List what lab can use on this machine; for each missing thing, what it adds and how to install it."""
    from dataclasses import asdict

    from lab.cli.doctor import examine
    from lab.cli.tables import print_findings

    findings = examine()
    if as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        print_findings(_stdout(), findings)


@app.command()
def calibrate(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run this microbenchmark alone, and keep the other constants. May be repeated."),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--from", help="Derive from the runs in this folder in place of measuring.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="No microbenchmark starts later than this.")] = 270.0,
    show: Annotated[
        bool, typer.Option("--show", help="Print the constants that estimates use, and their origin.")
    ] = False,
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="With --show: the GPU, as A100. May be repeated.", show_default="calibrated ones and H200"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure this GPU's constants for estimates, in minutes; every later estimate for it uses them."""
    from lab.cli import calibrate as calibration

    if show:
        tables = calibration.shown(gpu or ())
        if as_json:
            _print_json(tables)
            return
        for model, table in tables.items():
            calibration.print_rows(_stdout(), model, table)
        return
    calibrated = calibration.calibrate(_stderr(), only=only or (), runs=runs, seconds=seconds)
    if as_json:
        _print_json(calibration.as_json(calibrated))
    else:
        calibration.print_rows(_stdout(), calibrated.model, calibration.rows(calibrated.gpu, calibrated.calibration))
        for name, reason in calibrated.missing.items():
            write(f"{name} was not measured: {reason}", error=True)
        write(f"{calibrated.file}: {len(calibrated.calibration.constants)} constants of {calibrated.model}")


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; standard output by default.")
    ] = None,
    of: Annotated[
        Literal["experiment", "task", "verdict"], typer.Option(help="Kind of file: those of lab run, or of lab judge.")
    ] = "experiment",
) -> None:
    """Write the JSON Schema of experiment files, with which editors complete and check them."""
    from lab.base.files import write_atomically
    from lab.cli.schemas import schema_of

    text = json.dumps(schema_of(of), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        write(text, end="")
    else:
        write_atomically(output, text)


def _print_json(value: object) -> None:
    # JSON has no infinity, which an error can be
    from pydantic_core import to_jsonable_python

    write(json.dumps(to_jsonable_python(value, inf_nan_mode="strings"), indent=1, ensure_ascii=False))


def main() -> NoReturn:
    """Run the command line, turning errors into messages and exit codes.

    A process that inherits an ignored SIGINT, as `nohup` and the shell's `&` arrange, keeps ignoring it: the user who
    presses Ctrl-C means another program.
    """
    atexit.register(gc.freeze)  # a process that ends need not look for cycles among all that it imported
    os.environ["PYTHONSAFEPATH"] = "1"  # processes that this one starts import nothing from the working directory
    terminal.prepare()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # a reader that went away is met here, not when Python ends
    except _UsageError as error:
        usage = io.StringIO()
        error.show(usage)
        _tell(usage.getvalue().rstrip("\n"))
        code = _INPUT
    except (typer.Abort, KeyboardInterrupt):
        _tell("interrupted")
        code = _INTERRUPTED
    except BrokenPipeError:
        # the reader of the output is gone, as with `| head`; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _OK
    except Exception as error:
        code, message = _ending(error)
        if code == _BUG and os.environ.get("LAB_TRACEBACK"):
            raise
        _tell(message)
    raise SystemExit(code if isinstance(code, int) else _OK)


def _ending(error: Exception) -> tuple[int, str]:
    """Return the exit code and the message of an error that ends a command."""
    if isinstance(error, LabError):
        log = f"\n{error.log}" if isinstance(error, CompileError) else ""
        return error.exit_code, f"error: {error}{log}"
    if fault := fault_of(error):
        return _ENVIRONMENT, f"error: {fault}"
    message = f"internal error: {type(error).__name__}: {error}"
    return _BUG, f"{message}\nThis is an error in lab itself; set LAB_TRACEBACK=1 to see where."


def _tell(message: str) -> None:
    """Print on stderr; where that fails on a full disk, the exit code must suffice."""
    try:
        write(message, error=True)
    except OSError:
        # Python would try to write what is buffered once more when it ends, and end with its own code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
