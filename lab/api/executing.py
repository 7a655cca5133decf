"""Emulation of a kernel from a `.ptx` or `.cu` file, CUDA text, or a plain-kernel experiment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.api.given import is_code
from lab.api.mapping import written
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.emulator.api import launch
from lab.emulator.arguments import arguments_from_words
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.results import Emulation, EngineChoice
from lab.experiment.load import load
from lab.experiment.machine import on
from lab.experiment.model import Experiment
from lab.experiment.space import expand
from lab.experiment.variants import Plan, Planned, plan, toolchains
from lab.gpu.device.describe import DEFAULT_ARCH
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.recorded.run_records import EmulationRecord
from lab.runs.services import Services
from lab.stages.emulate import EmulationTask, ReferenceLaunch, emulate
from lab.stages.record import built
from lab.templates.instance import Instance
from lab.templates.plain.macros import with_macros
from lab.templates.plain.template import device_unit
from lab.templates.plain.unit import SUFFIXES, read_unit
from lab.toolchain.base import CompileRequest
from lab.toolchain.includes import Tree, gather, inlined, read_source
from lab.toolchain.select import Compiled, build, toolchain

_MOST_BYTES = 64 * 2**20
_MOST_SECONDS = 600.0
_MOST_LISTED = 20
_SOURCES = SUFFIXES


@dataclass(frozen=True)
class KernelLaunch:
    """The launch of one kernel.

    Attributes:
        kernel: Its C++ name; None if the source has only one kernel.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory per block.
        seed: Seed of random buffers.
        macros: Macros of a source.
        arch: Architecture that a source is compiled for.
        options: Further compiler options.
        engine: The engine, as in `lab.emulator.api.launch`.
        schedule: Seed of another fair order of warps and blocks; None for program order.
        monitor: The time limit; None for none.
        trace: Take down addresses, as in `lab.emulator.api.launch`.
    """

    kernel: str | None
    grid: int | Sequence[int]
    block: int | Sequence[int]
    shared_bytes: int
    seed: int
    macros: Mapping[str, Scalar]
    arch: str
    options: Sequence[str]
    engine: EngineChoice = "auto"
    schedule: int | None = None
    monitor: LaunchMonitor | None = None
    trace: bool = False


@dataclass(frozen=True)
class SourceExecution:
    """One launch of a compiled kernel on the CPU.

    Attributes:
        emulation: The launch.
        ptx: The module that was executed.
        built: What the compiler made.
    """

    emulation: Emulation
    ptx: Module
    built: Compiled


def is_text(file: str | Path) -> bool:
    """Return whether this is CUDA text rather than the path of a file."""
    return isinstance(file, str) and is_code(file)


@contextmanager
def on_disk(source: str | Path | Mapping[str, Any]) -> Iterator[Path]:
    """Write CUDA text or a mapping to a temporary file; yield the path, or that of an existing file.

    Raises:
        UserError: The mapping is invalid.
    """
    if not isinstance(source, Mapping) and not is_text(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        if isinstance(source, Mapping):
            yield written(source, Path(folder), measured=False)
        else:
            file = Path(folder) / "kernel.cu"
            file.write_text(str(source), encoding="utf-8")
            yield file


def only_variant(file: Path) -> str:
    """Return the id of an experiment's only variant.

    Raises:
        UserError: It has several variants.
    """
    loaded = load(file, run_operator=False)
    planned = planned_variants(loaded)
    return (planned[0] if len(planned) == 1 else _variant(planned, "", {}, file)).variant


def planned_variants(loaded: Experiment) -> Plan:
    """Return the variants of an experiment in order, for the default architecture if it names none."""
    archs = [arch for arch in loaded.archs if arch not in ("auto", "native")] or [DEFAULT_ARCH]
    loaded = on(loaded, archs)
    return plan(loaded, expand(loaded).points, toolchains(loaded), archs)


def is_source(file: str | Path) -> bool:
    """Return whether this is CUDA: a file with a CUDA suffix, or text."""
    return is_text(file) or Path(file).suffix in _SOURCES


def execute_source(
    file: str | Path, arguments: Sequence[Any] | Mapping[str, Any], launch_options: KernelLaunch
) -> Emulation:
    """Compile a kernel and emulate it.

    Args:
        file: A `.cu` file, or CUDA text.
        arguments: In the kernel's order, or by parameter name.
        launch_options: The launch.

    Raises:
        UserError: There is no such file or kernel, or arguments or launch geometry do not match it.
        CompileError: The compiler rejected the source.
        UnsupportedInstruction: The emulator does not support an instruction.
    """
    return compile_and_execute(file, arguments, launch_options).emulation


def compile_and_execute(
    file: str | Path, arguments: Sequence[Any] | Mapping[str, Any], how: KernelLaunch
) -> SourceExecution:
    """Do the same as `execute_source`, and return what was compiled with the launch."""
    title = Path("kernel.cu") if is_text(file) else Path(file)
    if is_text(file):
        text, tree, options = str(file), Tree.of(Path()), how.options
    else:
        unit = read_unit(title)
        text, tree = read_source(title, _MOST_BYTES), unit.tree
        options = [
            *how.options,
            *(f"-D{macro}" for macro in unit.flags.macros if macro.partition("=")[0] not in how.macros),
        ]
    found = read_kernels(inlined(*gather(text, tree)))
    chosen = _chosen(found, how.kernel, title)
    source, included = gather(with_macros(text, how.macros, title) if how.macros else text, tree)
    compiler = toolchain("auto")
    if compiler.name == "nvrtc":  # which rejects host code
        source, included = device_unit(source, included)
    name = how.kernel or chosen.qualified_name
    request = CompileRequest(source, title.name, how.arch, tuple(options), tuple(included.items()), (name,))
    built = build(compiler, request)
    module, values = read_ptx(built.build.ptx, str(title)), _values(arguments, chosen, how.seed, title)
    done = launch(
        module,
        built.build.symbols.get(name, name),
        how.grid,
        how.block,
        values,
        dynamic_shared_bytes=how.shared_bytes,
        engine=how.engine,
        schedule=how.schedule,
        trace=how.trace,
        monitor=how.monitor,
    )
    return SourceExecution(done, module, built)


def _chosen(kernels: Sequence[SourceKernel], kernel_name: str | None, file: Path) -> SourceKernel:
    names = [candidate.qualified_name for candidate in kernels]
    if kernel_name is None:
        if len(kernels) == 1:
            return kernels[0]
        message = "the source has several kernels" if kernels else "the source has no kernel"
        raise UserError(
            message, code="unsupported", at=Location(file), key="kernel", accepted=names or "a __global__ function"
        )
    base = kernel_name.partition("<")[0].strip()
    for kernel in kernels:
        if base in (kernel.name, kernel.qualified_name):
            return kernel
    suggestion = did_you_mean(base, [*names, *(candidate.name for candidate in kernels)])
    raise UserError(
        "no such kernel",
        code="unknown-name",
        at=Location(file),
        key="kernel",
        found=kernel_name,
        accepted=names,
        suggestion=suggestion,
    )


def _values(arguments: Sequence[Any] | Mapping[str, Any], kernel: SourceKernel, seed: int, file: Path) -> list[Any]:
    """Return the arguments in the kernel's order, with texts replaced by the values they describe."""
    names = [parameter.name for parameter in kernel.parameters]
    if isinstance(arguments, Mapping):
        for name in arguments:
            if name not in names:
                suggestion = did_you_mean(str(name), names)
                raise UserError(
                    "the kernel has no such parameter",
                    code="unknown-name",
                    at=Location(file),
                    key=f"arguments.{name}",
                    accepted=kernel.signature,
                    suggestion=suggestion,
                )
        for name in names:
            if name not in arguments:
                raise UserError(
                    "an argument is missing",
                    code="missing-key",
                    at=Location(file),
                    key=f"arguments.{name}",
                    accepted=kernel.signature,
                )
        arguments = [arguments[name] for name in names]
    parsed = iter(arguments_from_words([argument for argument in arguments if isinstance(argument, str)], seed))
    return [next(parsed) if isinstance(argument, str) else argument for argument in arguments]


def execute_experiment(
    experiment: Path | Mapping[str, Any], variant: str | None, parameters: Mapping[str, Scalar], seed: int | None
) -> EmulationRecord:
    """Emulate one variant of an experiment, at its `emulate` size if it has one, else at its own size.

    Args:
        experiment: The file, or a mapping.
        variant: Its id or a prefix of it; by default the first variant with the parameters.
        parameters: Values that the variant must have.
        seed: Seed of the inputs; the experiment's by default.

    Raises:
        UserError: The experiment is invalid, or has no such variant.
        CompileError: It does not compile.
    """
    with on_disk(experiment) as file:
        return _execute(file, variant, parameters, seed)


def _execute(file: Path, variant: str | None, parameters: Mapping[str, Scalar], seed: int | None) -> EmulationRecord:
    loaded = load(file)
    planned = _variant(planned_variants(loaded), variant, parameters, file)
    compiled = build(planned.toolchain, planned.request).build
    point = planned.point
    problem_values = point.problem.emulate or point.problem.values
    problem = loaded.operator.for_parameters(problem_values, point.parameters)
    build_facts = built(loaded, planned, compiled, None).known
    launches = Instance(point.kernel.template, point.parameters, problem).launches.built(build_facts)
    unchecked = not loaded.operator.has_reference
    own = ReferenceLaunch(compiled.ptx, launches, dict(problem)) if unchecked else None
    seed = loaded.seed if seed is None else seed
    full_problem = point.problem.whole
    task = EmulationTask(launches, loaded.operator_reference, dict(problem), seed, {}, own, whole=full_problem)
    if ".py" in loaded.operator_reference:  # a user's Python file runs in a worker
        with Services().executor(1) as executor:
            record: EmulationRecord = executor.submit(emulate, task, compiled.ptx, timeout_s=_MOST_SECONDS).result()
    else:
        record = emulate(task, compiled.ptx)
    return replace(record, verification=None) if unchecked else record


def _variant(planned: Sequence[Planned], variant: str | None, parameters: Mapping[str, Scalar], file: Path) -> Planned:
    """Return the variant with this id, or the first with these parameters."""
    matches = [
        candidate
        for candidate in planned
        if (variant is None or candidate.variant.startswith(variant))
        and all(candidate.point.parameters.get(name) == value for name, value in parameters.items())
    ]
    if not matches or (variant is not None and len(matches) > 1):
        listed = [f"{candidate.variant} {candidate.label}".strip() for candidate in planned[:_MOST_LISTED]]
        message = "several variants begin with this id" if variant else "the experiment has several variants"
        message = message if matches else "no variant matches"
        requested = variant or dict(parameters) or None
        raise UserError(
            message,
            code="mismatch",
            at=Location(file),
            key="variant",
            found=requested,
            accepted="\n    ".join(["", *listed]),
        )
    return matches[0]
