"""A bench for CUDA kernels: how a change affects the machine code, and whether it pays off.

::

    import lab

    done = lab.run("experiments/gemm_unroll.yaml", output="reports/mine")
    done.frame.sort_values("estimated_tflops")     # a pandas DataFrame, one row for each variant
    done.best, done.page

Importing this package is cheap: each function imports what it needs when it is called. A run starts worker processes,
which import the calling script: keep calls of `run` and `tune` under ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import os
import sys

from lab.base.importing import without

if sys.argv[:1] == ["-m"]:  # `python -m lab`, before any import that a local file could shadow
    sys.path[:] = without(os.getcwd(), sys.path)  # noqa: PTH109 - pathlib is not imported yet
    from lab.base.interrupts import end_at_once

    end_at_once()

import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lab.base import display
from lab.base.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

    from lab.base.expressions import Scalar
    from lab.cli.inspect import Inspection
    from lab.emulator.results import Emulation, EngineChoice
    from lab.judging.verdict import Judgement
    from lab.library import dispatch
    from lab.recorded.run_records import EmulationRecord
    from lab.runs.compare import Comparison
    from lab.runs.frame import ExperimentRun
    from lab.runs.observer import RunObserver
    from lab.tuning.run import TuningObserver, TuningOutcome

__all__ = ["compare", "dispatch", "emulate", "inspect", "judge", "load", "records", "run", "tune", "tune_kernel"]
__version__ = VERSION

display.use(lambda value: str(importlib.import_module("lab.cli.notebook").html_of(value)))

PathOrText = str | PathLike[str]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """Import `lab.dispatch`, the module that uses tuned libraries, on first access."""
    if name == "dispatch":
        return importlib.import_module("lab.library.dispatch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(
    experiment: PathOrText | Mapping[str, Any],
    *,
    output: PathOrText | None = None,
    jobs: int | None = None,
    gpu: bool = True,
    emulate: bool = True,
    archs: Iterable[str] = (),
    toolchains: Iterable[str] = (),
    max_variants: int | None = None,
    profile: bool | None = None,
    resume: bool | None = None,
    cluster: str = "",
    gpu_model: str = "",
    observer: RunObserver | None = None,
) -> ExperimentRun:
    """Run an experiment, as `lab run` does.

    Args:
        experiment: The experiment file, or a mapping with the keys of a plain kernel's file. In it, `source` may be
            CUDA text. An argument may be a NumPy array with an input's contents; a pair of text and array, ``("inout
            float32[n]", array)``; or a number. `reference` may be an array or a function, for all outputs, or a mapping
            with one for each. A function is passed the arguments named by its parameters and returns the expected
            outputs; it is called in this process, once per problem. Paths are relative to the working directory. The
            content of the mapping is written into the folder `input` of the run directory.
        output: Run directory; by default ``reports/<experiment>``, or ``reports/<kernel>`` for a mapping.
        jobs: Worker processes; the number of usable cores by default.
        gpu: Measure if there is a GPU.
        emulate: Emulate every variant, if the experiment gives a size for it.
        archs: Architectures that replace the experiment's: ``sm_90``.
        toolchains: Toolchains that replace the experiment's: ``nvrtc``.
        max_variants: Largest number of variants to accept; 1000 by default.
        profile: Read hardware counters of the best variants; by default as the experiment says.
        resume: Continue the run in the directory, or start over; by default continue an unfinished run.
        cluster: ``local`` measures on every GPU of this machine; the first one does by default.
        gpu_model: Part of the name of the GPUs to measure on: ``H200``.
        observer: Receives progress events; by default a board below the cell of a notebook, else none.

    Raises:
        UserError: the experiment is invalid.
        MissingToolError: no compiler or no disassembler is installed.
        StoreError: the run directory cannot be written, or is in use.
        KeyboardInterrupt: Ctrl-C was pressed; finished results are in the run directory.
    """
    from lab.api.running import place, run_mapping
    from lab.runs.frame import ExperimentRun
    from lab.runs.pipeline import RunOptions
    from lab.runs.pipeline import run as run_pipeline

    options = RunOptions(
        output=None if output is None else Path(output),
        max_variants=max_variants,
        jobs=jobs,
        measure=gpu,
        emulate=emulate,
        archs=tuple(archs),
        toolchains=tuple(toolchains),
        profile=profile,
        resume=resume,
        cluster=place(cluster),
        gpu_model=gpu_model,
    )
    with _notebook_progress() if observer is None else nullcontext(observer) as follower:
        if isinstance(experiment, Mapping):
            outcome = run_mapping(experiment, options, follower)
        else:
            outcome = run_pipeline(Path(experiment), options, follower)
    if outcome.interrupted:
        raise KeyboardInterrupt
    return ExperimentRun(outcome)


def tune(
    tuning: PathOrText,
    *,
    output: PathOrText | None = None,
    jobs: int | None = None,
    gpu: bool = True,
    arch: str = "",
    resume: bool | None = None,
    cluster: str = "",
    gpu_model: str = "",
    observer: TuningObserver | None = None,
) -> TuningOutcome:
    """Find the fastest kernel for each size, as `lab tune` does.

    Args:
        tuning: The tuning file.
        output: Folder of the run; ``reports/<tuning>`` by default.
        jobs: Worker processes; the number of usable cores by default.
        gpu: Measure if there is a GPU; else times are predicted.
        arch: Architecture that replaces the file's: ``sm_90``.
        resume: Continue the run in the folder, or start over; by default continue an unfinished run.
        cluster: ``local`` measures on every GPU of this machine; the first one does by default.
        gpu_model: Part of the name of the GPUs to measure on: ``H200``.
        observer: Receives progress events; none by default.

    Raises:
        UserError: the file is invalid, or no kernel is left after a step.
        MissingToolError: no compiler or no disassembler is installed.
        StoreError: the folder cannot be written, or is in use.
        KeyboardInterrupt: Ctrl-C was pressed; finished results are in the folder.
    """
    from lab.api.running import place
    from lab.tuning import run as tuning_run

    options = tuning_run.TuningOptions(
        output=None if output is None else Path(output),
        jobs=jobs,
        measure=gpu,
        arch=arch,
        cluster=place(cluster),
        gpu_model=gpu_model,
        resume=resume,
    )
    outcome = tuning_run.tune(Path(tuning), options, observer or cast("TuningObserver", _Silent()))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome


def tune_kernel(  # noqa: PLR0917 - the order of Kernel Tuner's arguments
    kernel_name: str,
    kernel_source: object,
    problem_size: object,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    grid_div_x: object = None,
    grid_div_y: object = None,
    grid_div_z: object = None,
    restrictions: object = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    verify: object = None,
    verbose: bool = False,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Mapping[str, Any] | None = None,
    cmem_args: object = None,
    texmem_args: object = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: object = None,
    log: object = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: str | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: PathOrText | None = None,
    metrics: Mapping[str, Any] | None = None,
    simulation_mode: bool = False,
    observers: Sequence[Any] | None = None,
    objective: str = "time",
    objective_higher_is_better: bool = False,
    *,
    emulate: bool | Mapping[str, Any] | None = None,
    output: PathOrText | None = None,
    jobs: int | None = None,
    gpu: bool = True,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run every setting of a kernel's parameters; takes the arguments of Kernel Tuner's function of this name.

    docs/reference/python.md lists the differences. Arguments that are not supported are rejected by name.

    Args:
        kernel_name: The kernel; ``add<float, block_size_x>`` instantiates a template.
        kernel_source: Path of a file, CUDA text, or a function from the parameters to CUDA text.
        problem_size: The domain that the grid covers: an int, an expression of the parameters as text, a tuple of up to
            three of these, or a function of the parameters.
        arguments: NumPy arrays and NumPy scalars, in the kernel's order.
        tune_params: Values of each parameter; every parameter is a macro of the source.
        grid_div_x: Divisor of the first size: a list of factors, or a function; the block size by default.
        grid_div_y: Divisor of the second size.
        grid_div_z: Divisor of the third size.
        restrictions: Expressions that must be true, or a function from the parameters to bool.
        answer: Expected arrays, with None for each argument that is not compared. Without it, outputs are compared
            with those of the first setting.
        atol: Absolute tolerance, as in ``numpy.allclose``.
        verify: Not supported.
        verbose: Ignored.
        lang: ``CUDA``.
        device: 0.
        platform: Ignored.
        smem_args: ``{"size": bytes}`` of dynamic shared memory.
        cmem_args: Contents of variables in constant memory: arrays and NumPy scalars by name.
        texmem_args: Not supported.
        compiler: Ignored.
        compiler_options: Options, such as ``["--use_fast_math"]``.
        defines: Not supported.
        log: Ignored.
        iterations: Ignored: samples are taken until they are steady.
        block_size_names: Parameters that hold the block size in x, y and z; ``block_size_x`` and so on by default, or
            256, 1 and 1 without such parameters.
        quiet: Do not print anything.
        strategy: ``brute_force`` or ``random_sample``.
        strategy_options: Options of the sample: ``fraction`` or ``max_fevals``.
        cache: Directory in which the run is stored and continued: ``results.json`` means the directory `results`.
        metrics: Figures of the parameters and `time` in milliseconds: expressions as text, or functions.
        simulation_mode: Read the run in the cache, and run nothing.
        observers: Ignored.
        objective: The figure by which ``env["best_config"]`` is chosen.
        objective_higher_is_better: Whether it is maximised.
        emulate: Problem to emulate: a smaller one, ``{"problem_size": …, "arguments": […], "answer": […]}``; True for
            the problem itself; False for none; by default the problem itself if it is small.
        output: Run directory; ``reports/<kernel>`` by default.
        jobs: Worker processes; the number of usable cores by default.
        gpu: Measure where there is a GPU.

    Returns:
        One dictionary per setting that ran, with its parameters, `time` in milliseconds, `times`, `compile_time` and
        the metrics; and a dictionary of the environment, in which `time` says whether times are `measured`,
        `predicted`, or only a `lower bound`, and `failed` lists the settings that did not run.

    Raises:
        UserError: An argument is invalid or not supported; the error names it.
        MissingToolError: no compiler or no disassembler is installed.
        StoreError: the run directory cannot be written, or is in use.
    """
    from lab.api.kernel_tuner.tune import TuneCall
    from lab.api.kernel_tuner.tune import tune as tune_settings
    from lab.runs.pipeline import RunOptions

    refused = {"verify": verify, "texmem_args": texmem_args, "defines": defines}
    ignored = {
        "verbose": verbose,
        "log": log,
        "compiler": compiler,
        "iterations": iterations != 7,  # noqa: PLR2004 - the default
        "observers": observers,
        "platform": platform,
    }
    call = TuneCall(
        kernel_name,
        kernel_source,
        problem_size,
        arguments,
        tune_params,
        (grid_div_x, grid_div_y, grid_div_z),
        restrictions,
        answer,
        atol,
        lang,
        device,
        smem_args,
        cmem_args,
        compiler_options,
        block_size_names,
        quiet,
        strategy,
        strategy_options,
        None if cache is None else Path(cache),
        metrics,
        simulation_mode,
        objective,
        objective_higher_is_better,
        emulate,
        None if output is None else Path(output),
        {**refused, **ignored},
    )
    return tune_settings(call, RunOptions(jobs=jobs, measure=gpu))


def judge(task: PathOrText, candidate: PathOrText, *, seed: int | None = None) -> Judgement:
    """Judge a kernel for a task, as `lab judge` does.

    Args:
        task: The task file.
        candidate: The candidate's file, or CUDA text.
        seed: Seed of everything that is drawn; by default a new one, which the verdict names.

    Raises:
        UserError: the task is invalid, or a file cannot be read.
        MissingToolError: a compiler for the candidate is missing.
    """
    from lab.api.given import is_code
    from lab.judging.judge import JudgeOptions, judge_file, judge_text
    from lab.judging.task import load_task

    options = JudgeOptions(seed=seed)
    if isinstance(candidate, str) and is_code(candidate):
        return judge_text(load_task(Path(task)), candidate, "candidate.cu", options)
    return judge_file(Path(task), Path(candidate), options)


def _notebook_progress() -> AbstractContextManager[RunObserver | None]:
    """Return the progress of a run below the cell of a notebook; outside of notebooks, a context of None."""
    if "IPython" not in sys.modules:
        return nullcontext()
    from lab.cli.notebook import progress

    return cast("AbstractContextManager[RunObserver | None]", progress() or nullcontext())


class _Silent:
    """An observer that ignores every event."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function of any arguments
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None


def emulate(
    file: PathOrText | Mapping[str, Any],
    arguments: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    kernel: str | None = None,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    shared_bytes: int = 0,
    seed: int | None = None,
    macros: Mapping[str, Scalar] | None = None,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    variant: str | None = None,
    parameters: Mapping[str, Scalar] | None = None,
    engine: EngineChoice = "auto",
    schedule: int | None = None,
) -> Emulation | EmulationRecord:
    """Emulate one kernel on the CPU, as `lab emulate` does, from a file, CUDA text, or an experiment.

    Args:
        file: A `.ptx` or `.cu` file or CUDA text, which take `arguments`; or an experiment, a file or a mapping as for
            `run`, whose first variant is emulated at the experiment's `emulate` size and compared with its reference.
        arguments: One per parameter, in order or, for CUDA, by name: a contiguous NumPy array (a device buffer, read
            and written in place), a NumPy scalar, or a text as on the command line, ``"f32[64]=normal"``.
        kernel: Name of the kernel; optional if there is only one. For CUDA, ``add<float, 128>`` instantiates.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        shared_bytes: Dynamic shared memory per block.
        seed: Seed of random buffers; by default 0, or the experiment's.
        macros: For CUDA: macros and their values.
        arch: For CUDA: the target architecture.
        options: For CUDA: further compiler options.
        variant: For an experiment: the id of a variant, or a prefix of it.
        parameters: For an experiment: parameter values; the first variant that has them is emulated.
        engine: For a file or CUDA: `compiled` runs the kernel as machine code, many times as fast, with the same
            checks. Unsupported kernels and launches with a fault still run in the interpreter; the result says which
            engine ran. `auto` uses machine code for long launches.
        schedule: For a file or CUDA: seed of another fair order of warps and blocks. A kernel without races gives the
            same results in every order, except for the rounding of atomic sums.

    Returns:
        Counts and findings; for an experiment also the comparison with the reference.

    Raises:
        UserError: there is no such file or kernel, or arguments or launch geometry do not match it.
        CompileError: the compiler rejected the source.
        ReaderError: the PTX cannot be parsed.
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    from lab.api import executing
    from lab.base.errors import UserError
    from lab.cli.inspect import execute_file

    source = not isinstance(file, Mapping) and executing.is_source(os.fspath(file))
    if isinstance(file, Mapping) or (not source and Path(file).suffix in (".yaml", ".yml")):
        if arguments is not None:
            raise UserError("an experiment has its own arguments", code="conflict", key="arguments", accepted="none")
        if schedule is not None:
            raise UserError(
                "an experiment is always emulated in program order",
                code="conflict",
                key="schedule",
                accepted="a file or CUDA",
            )
        chosen = file if isinstance(file, Mapping) else Path(file)
        return executing.execute_experiment(chosen, variant, parameters or {}, seed)
    if arguments is None:
        raise UserError(
            "the arguments are missing",
            code="missing-key",
            key="arguments",
            accepted="one for each parameter of the kernel",
        )
    if source:
        how = executing.KernelLaunch(
            kernel, grid, block, shared_bytes, seed or 0, macros or {}, arch, options, engine, schedule
        )
        return executing.execute_source(os.fspath(file), arguments, how)
    if isinstance(arguments, Mapping):
        raise UserError(
            "PTX does not preserve parameter names",
            code="unsupported",
            key="arguments",
            accepted="a list, in order",
        )
    return execute_file(
        Path(file),
        kernel,
        grid,
        block,
        arguments,
        dynamic_shared_bytes=shared_bytes,
        seed=seed or 0,
        engine=engine,
        schedule=schedule,
    )


def inspect(
    file: PathOrText | Mapping[str, Any],
    *,
    variant: str | None = None,
    arch: str = "sm_90",
    toolchain: str = "auto",
) -> Inspection:
    """Analyse the loops and the instruction mix of a file or of one variant, as `lab inspect` does.

    Args:
        file: A `.ptx`, `.cubin` or `.cu` file, CUDA text, or an experiment: a file, or a mapping as for `run`.
        variant: For an experiment: the id of a variant, or a prefix of it; optional if there is only one.
        arch: Target architecture of a `.cu` file.
        toolchain: Compiler of a `.cu` file: ``auto``, ``nvrtc`` or ``nvcc``.

    Raises:
        UserError: there is no such file or variant, or the file type is not supported.
        CompileError: the compiler rejected the source.
        ReaderError: the listing cannot be parsed.
        MissingToolError: no compiler or no disassembler is installed.
    """
    from lab.api import executing
    from lab.cli.inspect import SourceOptions, inspect_file, inspect_variant

    if (
        isinstance(file, Mapping)
        or executing.is_text(os.fspath(file))
        or (variant is None and Path(file).suffix in (".yaml", ".yml"))
    ):
        with executing.on_disk(file if isinstance(file, Mapping) else os.fspath(file)) as path:
            if path.suffix in (".yaml", ".yml"):
                return inspect_variant(path, variant or executing.only_variant(path), run_operator=False)
            return inspect_file(path, SourceOptions(arch, toolchain))
    if variant is not None:
        return inspect_variant(Path(file), variant)
    return inspect_file(Path(file), SourceOptions(arch, toolchain))


def compare(a: PathOrText, b: PathOrText, *, relative: bool = False) -> Comparison:
    """Compare two runs: which variants became faster or slower or stayed the same, and how their code changed.

    Args:
        a: A run directory.
        b: The run directory to compare with it.
        relative: Compare throughput relative to the baseline's.

    Raises:
        UserError: the runs have no variant in common.
        StoreError: a directory does not contain a run, or cannot be read.
    """
    from lab.runs.compare import compare_folders

    return compare_folders(Path(a), Path(b), relative=relative)


def load(folder: PathOrText) -> ExperimentRun:
    """Open the run in a directory, as returned by `run`.

    Args:
        folder: The run directory.

    Raises:
        StoreError: the directory holds no run, or cannot be read.
    """
    from lab.runs.frame import ExperimentRun

    return ExperimentRun.of(Path(folder))


def records(folder: PathOrText) -> pd.DataFrame:
    """Read the records of a run directory.

    Args:
        folder: The run directory.

    Returns:
        One row per variant, with the columns of `records.csv`; a column's name includes its unit.

    Raises:
        StoreError: the directory holds no run, or cannot be read.
    """
    from lab.runs.frame import read_frame

    return read_frame(Path(folder))
