"""Execute a kernel on the CPU: of a `.ptx` or `.cu` file, of CUDA text, or of an experiment on a plain kernel."""

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
    """How one kernel is launched.

    Attributes:
        kernel: Its name, in C++; None where there is one kernel.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        seed: Of random buffers.
        macros: Macros of a source.
        arch: Architecture that a source is compiled for.
        options: Further compiler options.
        engine: What executes it, as in `lab.emulator.api.launch`.
        schedule: Seed of another fair order of warps and blocks; None for the order of the program.
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
    """Whether this is CUDA text and not the path of a file."""
    return isinstance(file, str) and is_code(file)


@contextmanager
def on_disk(given: str | Path | Mapping[str, Any]) -> Iterator[Path]:
    """Give CUDA text or a mapping a file for a while; a file is itself.

    Raises:
        UserError: Something in the mapping is wrong.
    """
    if not isinstance(given, Mapping) and not is_text(given):
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        if isinstance(given, Mapping):
            yield written(given, Path(folder), measured=False)
        else:
            file = Path(folder) / "kernel.cu"
            file.write_text(str(given), encoding="utf-8")
            yield file


def only_variant(file: Path) -> str:
    """Return the id of an experiment's variant where it has one.

    Raises:
        UserError: It has several.
    """
    loaded = load(file, run_operator=False)
    planned = planned_variants(loaded)
    return (planned[0] if len(planned) == 1 else _variant(planned, "", {}, file)).variant


def planned_variants(loaded: Experiment) -> Plan:
    """Return the variants of an experiment in their order; where it names no architecture, for the default one."""
    archs = [arch for arch in loaded.archs if arch not in ("auto", "native")] or [DEFAULT_ARCH]
    loaded = on(loaded, archs)
    return plan(loaded, expand(loaded).points, toolchains(loaded), archs)


def is_source(file: str | Path) -> bool:
    """Whether this is CUDA: a file by its name, or text."""
    return is_text(file) or Path(file).suffix in _SOURCES


def execute_source(file: str | Path, arguments: Sequence[Any] | Mapping[str, Any], how: KernelLaunch) -> Emulation:
    """Compile a kernel and execute it on the CPU.

    Args:
        file: A `.cu` file, or CUDA text.
        arguments: In the kernel's order, or by the names of its parameters.
        how: The launch.

    Raises:
        UserError: There is no such file or kernel, or arguments or a geometry do not fit it.
        CompileError: The compiler refused the source.
        UnsupportedInstruction: The emulator does not support an instruction.
    """
    return compile_and_execute(file, arguments, how).emulation


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
        options = [*how.options, *(f"-D{one}" for one in unit.flags.macros if one.partition("=")[0] not in how.macros)]
    found = read_kernels(inlined(*gather(text, tree)))
    chosen = _chosen(found, how.kernel, title)
    source, included = gather(with_macros(text, how.macros, title) if how.macros else text, tree)
    compiler = toolchain("auto")
    if compiler.name == "nvrtc":  # which refuses host code
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


def _chosen(found: Sequence[SourceKernel], wanted: str | None, file: Path) -> SourceKernel:
    names = [one.qualified_name for one in found]
    if wanted is None:
        if len(found) == 1:
            return found[0]
        message = "the source has several kernels" if found else "the source has no kernel"
        raise UserError(message, at=Location(file), key="kernel", accepted=names or "a __global__ function")
    base = wanted.partition("<")[0].strip()
    for one in found:
        if base in (one.name, one.qualified_name):
            return one
    suggestion = did_you_mean(base, [*names, *(one.name for one in found)])
    raise UserError(
        "no such kernel", at=Location(file), key="kernel", found=wanted, accepted=names, suggestion=suggestion
    )


def _values(arguments: Sequence[Any] | Mapping[str, Any], kernel: SourceKernel, seed: int, file: Path) -> list[Any]:
    """Arguments in the kernel's order; texts become what they describe."""
    names = [one.name for one in kernel.parameters]
    if isinstance(arguments, Mapping):
        for name in arguments:
            if name not in names:
                suggestion = did_you_mean(str(name), names)
                raise UserError(
                    "the kernel has no such parameter",
                    at=Location(file),
                    key=f"arguments.{name}",
                    accepted=kernel.signature,
                    suggestion=suggestion,
                )
        for name in names:
            if name not in arguments:
                raise UserError(
                    "an argument is missing", at=Location(file), key=f"arguments.{name}", accepted=kernel.signature
                )
        arguments = [arguments[name] for name in names]
    made = iter(arguments_from_words([one for one in arguments if isinstance(one, str)], seed))
    return [next(made) if isinstance(one, str) else one for one in arguments]


def execute_experiment(
    experiment: Path | Mapping[str, Any], variant: str | None, parameters: Mapping[str, Scalar], seed: int | None
) -> EmulationRecord:
    """Execute one variant of an experiment on the CPU, at its `emulate` size, or at its own where it has none.

    Args:
        experiment: The file, or the mapping in place of it.
        variant: Its id, or the beginning of it; the first that has the parameters by default.
        parameters: Values that the variant must have.
        seed: Of the inputs; the experiment's by default.

    Raises:
        UserError: The experiment is wrong, or has no such variant.
        CompileError: It does not compile.
    """
    with on_disk(experiment) as file:
        return _execute(file, variant, parameters, seed)


def _execute(file: Path, variant: str | None, parameters: Mapping[str, Scalar], seed: int | None) -> EmulationRecord:
    loaded = load(file)
    planned = _variant(planned_variants(loaded), variant, parameters, file)
    made = build(planned.toolchain, planned.request).build
    point = planned.point
    given = point.problem.emulate or point.problem.values
    problem = loaded.operator.for_parameters(given, point.parameters)
    known = built(loaded, planned, made, None).known
    launches = Instance(point.kernel.template, point.parameters, problem).launches.built(known)
    unchecked = not loaded.operator.has_reference
    own = ReferenceLaunch(made.ptx, launches, dict(problem)) if unchecked else None
    seed = loaded.seed if seed is None else seed
    whole = point.problem.whole
    task = EmulationTask(launches, loaded.operator_reference, dict(problem), seed, {}, own, whole=whole)
    if ".py" in loaded.operator_reference:  # a Python file of the user's runs in a worker
        with Services().executor(1) as executor:
            record: EmulationRecord = executor.submit(emulate, task, made.ptx, timeout_s=_MOST_SECONDS).result()
    else:
        record = emulate(task, made.ptx)
    return replace(record, verification=None) if unchecked else record


def _variant(planned: Sequence[Planned], variant: str | None, parameters: Mapping[str, Scalar], file: Path) -> Planned:
    """The variant with this id, or the first with these parameters."""
    found = [
        one
        for one in planned
        if (variant is None or one.variant.startswith(variant))
        and all(one.point.parameters.get(name) == value for name, value in parameters.items())
    ]
    if not found or (variant is not None and len(found) > 1):
        known = [f"{one.variant} {one.label}".strip() for one in planned[:_MOST_LISTED]]
        message = "several variants begin with this id" if variant else "the experiment has several variants"
        message = message if found else "no variant is like this"
        wanted = variant or dict(parameters) or None
        raise UserError(message, at=Location(file), key="variant", found=wanted, accepted="\n    ".join(["", *known]))
    return found[0]
