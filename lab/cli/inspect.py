"""Listings and instruction mixes `lab inspect` shows, of a file or of one variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.advice.advise import advise
from lab.advice.evidence import Evidence, of_emulation
from lab.advice.finding import Advice
from lab.api import executing
from lab.base import yamlfile
from lab.base.collecting import uncollected
from lab.base.display import Displayed
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.base.files import read_regular
from lab.base.yamlfile import decoded
from lab.cli.live.snapshot import Stage
from lab.emulator.api import launch
from lab.emulator.arguments import arguments_from_words
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.results import Buffer, Emulation, EngineChoice
from lab.experiment.load import load
from lab.experiment.machine import on
from lab.experiment.space import expand
from lab.experiment.triton_entry import TRITON
from lab.experiment.variants import Plan, Planned, plan, toolchains
from lab.gpu.device.describe import DEFAULT_ARCH
from lab.isa.cuda.kernels import SourceKernel
from lab.isa.mix import KernelMix, kernel_mix, to_json
from lab.isa.model import Isa, Module
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass
from lab.templates.plain.building import compile_unit
from lab.templates.plain.unit import SUFFIXES as SOURCES
from lab.templates.plain.unit import no_instance, read_unit
from lab.toolchain.base import CompileRequest, Disassembly, Resources, Toolchain
from lab.toolchain.containers.images import SUFFIXES as CONTAINERS
from lab.toolchain.containers.images import DeviceImage, device_images
from lab.toolchain.disassembly.nvdisasm import disassemble
from lab.toolchain.project import of_words
from lab.toolchain.select import Compiled, build

SUFFIXES = (".ptx", ".cubin", *SOURCES, ".yaml", ".yml")
MOST_BYTES = 64 * 2**20
"""Largest `.ptx`, `.cubin` or `.cu` file to read, in bytes."""
_VALUES_SHOWN: Final = 8
"""Number of values of an output to print."""


@dataclass(frozen=True)
class InspectedListing:
    """One listing and the instruction mix of its kernels.

    Attributes:
        isa: `ptx` or `sass`.
        text: The listing.
        kernels: Mix of every kernel in it; `lines` of their loops refer to `text`.
    """

    isa: Isa
    text: str
    kernels: tuple[KernelMix, ...]


@dataclass(frozen=True)
class Inspection(Displayed):
    """Everything known about one file or variant.

    Attributes:
        title: The file, or the variant with its parameters.
        source: CUDA source, where there is one.
        listings: PTX before SASS, as far as they exist.
        log: The compiler's log; may be empty.
        resources: Of each kernel, by its symbol; empty where no compiler has run.
        titles: Names of kernels in C++, by their symbols, as far as they are known.
        notes: What lab decided for the user: flags of a Makefile, another compiler, assumed types.
        advice: Performance findings of the texts alone; None where nobody looked.
    """

    title: str
    source: str | None
    listings: tuple[InspectedListing, ...]
    log: str = ""
    resources: Mapping[str, Resources] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: Advice | None = None

    def to_json(self, isa: Isa | None = None) -> dict[str, object]:
        """Return the mix as values JSON can hold.

        Args:
            isa: The listing; the first one by default.

        Raises:
            UserError: there is no such listing.
        """
        for listing in self.listings:
            if isa in (None, listing.isa):
                return to_json(self.title, listing.isa, listing.kernels)
        raise UserError(
            f"{self.title} has no {isa}", code="unsupported", accepted=[listing.isa for listing in self.listings]
        )


Follow = Callable[[Callable[[], Sequence[Stage]]], None]
"""Follows a part of the work by a function that returns its progress: `WorkAccount.follow`."""


def _alone(look: Callable[[], Sequence[Stage]]) -> None:
    """Ignore the progress of a part of the work."""


@dataclass(frozen=True)
class SourceOptions:
    """Compilation settings of an inspected CUDA source.

    Attributes:
        arch: The architecture.
        toolchain: The compiler.
        kernel: A kernel, or an instance of a template; None means all.
        root: The highest folder of which the source may include files.
        search: Further folders of headers.
        macros: `NAME` or `NAME=value`.
    """

    arch: str = DEFAULT_ARCH
    toolchain: str = "auto"
    kernel: str | None = None
    root: Path | None = None
    search: tuple[Path, ...] = ()
    macros: tuple[str, ...] = ()


def inspect_file(file: Path, options: SourceOptions | None = None, *, follow: Follow = _alone) -> Inspection:
    """Inspect a `.ptx` or `.cubin` file, or a CUDA source.

    Args:
        file: The file.
        options: How a CUDA source is compiled.
        follow: Who watches the progress.

    Raises:
        UserError: the file does not exist, or is of another kind.
        CompileError: the compiler refused the source.
        ReaderError: the listing cannot be read.
        MissingToolError: no compiler, or no disassembler.
    """
    options = options or SourceOptions()
    if file.suffix not in SUFFIXES[:-2]:
        raise UserError(
            "lab cannot inspect this kind of file",
            code="unsupported",
            at=Location(file),
            found=file.suffix,
            accepted=(*SUFFIXES, *CONTAINERS, "a folder"),
        )
    if file.suffix in SOURCES:
        return _inspect_source(file, options, follow)
    if file.suffix == ".cubin":
        disassembly = disassemble(read_regular(file, MOST_BYTES, "the cubin"))
        sass, listing = _sass(disassembly, str(file), follow)
        shown = Inspection(str(file), None, (listing,), advice=advise(Evidence(sass=sass)))
    else:
        text = yamlfile.read_text(file, MOST_BYTES)
        ptx, listing = _ptx(text, str(file), follow)
        shown = Inspection(str(file), None, (listing,), advice=advise(Evidence(ptx=ptx)))
    return _only(shown, [options.kernel], file) if options.kernel is not None else shown


def _inspect_source(file: Path, options: SourceOptions, follow: Follow) -> Inspection:
    of_words(options.search, options.macros)
    unit = read_unit(file, root=options.root, search=options.search, macros=options.macros)
    if options.kernel is not None:
        kernels: tuple[str, ...] = unit.named(options.kernel)
    else:
        kernels = tuple(instance.expression for instance in unit.instances)
    guesses = (
        {instance.expression for instance in unit.instances if instance.assumed}
        if options.kernel is None
        else set[str]()
    )
    made = compile_unit(unit, options.arch, kernels, options.toolchain, guesses)
    build_, notes = made.compiled.build, list(made.notes)
    if unit.flags.file is not None:
        notes.insert(0, f"flags of {unit.flags.file}: {unit.flags.words}")
    notes += [
        f"{instance.expression}: assumed {', '.join(instance.assumed)}"
        for instance in unit.instances
        if instance.expression in build_.symbols and instance.assumed
    ]
    titles = {symbol: expression for expression, symbol in build_.symbols.items() if expression in kernels}
    shown = replace(_compiled(str(file), unit.text, made.compiled, follow=follow), titles=titles)
    if not any(listing.kernels for listing in shown.listings):
        if templates := [kernel for kernel in unit.kernels if kernel.template is not None]:
            raise no_instance(templates, file)
        notes.append("the source defines no kernel")
    shown = replace(shown, titles=_titles(shown, unit.kernels))
    launched = {instance.kernel for instance in unit.instances}
    if options.kernel is not None:
        shown = _only(shown, [build_.symbols.get(kernel, kernel) for kernel in kernels], file)
    elif left := [kernel.title for kernel in unit.kernels if kernel.template is not None and kernel not in launched]:
        notes.append(f"not compiled, since nothing launches an instance: {', '.join(left)}; name one by --kernel")
    return replace(shown, notes=tuple(notes))


def _titles(shown: Inspection, kernels: Sequence[SourceKernel]) -> dict[str, str]:
    """Return the names in C++ of an inspection's kernels, by their symbols."""
    titles = dict(shown.titles)
    for mix in shown.listings[0].kernels:
        names = {
            kernel.qualified_name
            for kernel in kernels
            if kernel.template is None and (mix.name == kernel.name or f"{len(kernel.name)}{kernel.name}" in mix.name)
        }
        if len(names) == 1:
            titles.setdefault(mix.name, *names)
    counted = Counter(titles.values())
    return {symbol: title for symbol, title in titles.items() if counted[title] == 1}


def _only(shown: Inspection, symbols: Sequence[str], file: Path) -> Inspection:
    """Return an inspection of some of its kernels.

    Raises:
        UserError: It has none of them.
    """
    names = [mix.name for listing in shown.listings for mix in listing.kernels]
    if not set(symbols) & set(names):
        raise UserError(
            "no such kernel",
            code="unknown-name",
            at=Location(file),
            key="--kernel",
            found=", ".join(symbols),
            accepted=list(dict.fromkeys(names)),
            suggestion=did_you_mean(symbols[0], names),
        )
    listings = tuple(
        replace(listing, kernels=tuple(kernel for kernel in listing.kernels if kernel.name in symbols))
        for listing in shown.listings
    )
    return replace(shown, listings=listings)


def inspect_image(file: Path, image: str | None = None, *, follow: Follow = _alone) -> Inspection | None:
    """Inspect the PTX or the cubin of a library, a fat binary, a wheel or a folder.

    Args:
        file: The container.
        image: The beginning of an image's id; None for the only PTX and cubin.
        follow: Who watches the progress.

    Returns:
        The inspection, or None where `image` is None and the container has several images of one kind.

    Raises:
        UserError: The container cannot be read, holds no device code, or has no such image.
    """
    images = device_images(file)
    if not images:
        accepted = "a file or folder with PTX or cubins; lab inspect takes .cu, .ptx and .cubin as they are"
        raise UserError("the file holds no device code", code="wrong-value", at=Location(file), accepted=accepted)
    chosen = [one for one in images if image is None or one.id.startswith(image)]
    if image is None and (len({image.isa for image in images}) < len(images)):
        return None
    if not chosen or (image is not None and len({one.id for one in chosen}) > 1):
        raise UserError(
            "no image has this id" if not chosen else "several images begin with this id",
            code="unknown-name",
            at=Location(file),
            key="--variant",
            found=image,
            accepted="\n    ".join(["", *(f"{one.id} {one.where}" for one in images[:50])]),
            suggestion=did_you_mean(image or "", [image.id for image in images]),
        )
    for one in chosen:
        if not one.entry.is_listing:
            why = one.entry.refused or f"lab does not read {one.entry.kind}"
            raise UserError(why, code="wrong-value", at=Location(file), found=one.where, accepted="PTX or a cubin")
    parts = {one.isa: _image_listing(one, follow) for one in sorted(chosen[:2], key=lambda one: one.isa)}
    modules = {isa: module for isa, (module, _) in parts.items()}
    return Inspection(
        f"{file} {chosen[0].where}" if image is not None and chosen[0].where != file.name else str(file),
        None,
        tuple(listing for _, listing in parts.values()),
        advice=advise(Evidence(modules.get("ptx"), modules.get("sass"))),
    )


def _image_listing(image: DeviceImage, follow: Follow) -> tuple[Module, InspectedListing]:
    if image.isa == "ptx":
        return _ptx(decoded(image.entry.data, image.where, "the PTX"), image.where, follow)
    return _sass(disassemble(image.entry.data), image.where, follow)


def image_rows(file: Path) -> list[dict[str, object]]:
    """Return what `lab inspect` says of each image of a container."""
    return [
        {
            "variant": image.id,
            "where": image.where,
            "kind": image.entry.kind,
            "arch": image.entry.arch,
            "kernels": list(image.kernels),
            "refused": image.entry.refused,
        }
        for image in device_images(file)
    ]


def emulate_words(
    file: Path,
    kernel: str | None,
    geometry: tuple[str, str],
    arguments: Sequence[str],
    *,
    dynamic_shared_bytes: int = 0,
    seed: int = 0,
    schedule: int | None = None,
    macros: Mapping[str, Scalar] | None = None,
    limit_s: float | None = None,
    follow: Follow = _alone,
) -> tuple[Emulation, tuple[str, ...], Advice]:
    """Execute one kernel, given as texts, on the CPU; return the emulation and a line per written buffer.

    Args:
        file: A `.ptx` file, or a CUDA source, which is compiled first.
        kernel: Name of the kernel; None means the only one.
        geometry: Grid and block as text: `4,4`.
        arguments: Texts in the form that `lab.emulator.arguments` describes.
        dynamic_shared_bytes: Dynamic shared memory of a block.
        seed: Seed of random buffers.
        schedule: Seed of another fair order of warps and blocks; None for the order of the program.
        macros: Of a CUDA source: macros and their values.
        limit_s: Seconds after which the launch is stopped; None for no limit.
        follow: Receives the progress.

    Returns:
        The launch, a line for each buffer that it wrote to, and advice on its performance.

    Raises:
        UserError: there is no such file or kernel, or an argument is malformed.
        CompileError: the compiler refused the source.
        ReaderError: the PTX cannot be read.
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    grid, block = (sizes_of_word(word, key) for word, key in zip(geometry, ("--grid", "--block"), strict=True))
    values = arguments_from_words(arguments, seed)
    monitor = None if limit_s is None else LaunchMonitor(limit_s)
    if monitor is not None:
        follow(lambda: _stages(monitor))
    before = [value.array.copy() if isinstance(value, Buffer) else None for value in values]
    if executing.is_source(file):
        kernel_launch = executing.KernelLaunch(
            kernel,
            grid,
            block,
            dynamic_shared_bytes,
            seed,
            macros or {},
            DEFAULT_ARCH,
            (),
            schedule=schedule,
            monitor=monitor,
            trace=True,
        )
        source = executing.compile_and_execute(file, values, kernel_launch)
        emulation, built = source.emulation, source.built
        resources = built.build.resources.get(emulation.kernel)
        disassembly = built.disassembly
        sass = read_sass(disassembly.text, disassembly.lines, "kernel.sass") if not disassembly.lacking else None
        evidence = of_emulation(emulation, source.ptx, grid, block, sass=sass, resources=resources)
    elif macros:
        raise UserError(
            "macros require a CUDA source",
            code="unsupported",
            at=Location(file),
            key="-D",
            found=list(macros),
            accepted="a .cu file",
        )
    else:
        module, name = _kernel_of(file, kernel)
        emulation = launch(
            module,
            name,
            grid,
            block,
            values,
            dynamic_shared_bytes=dynamic_shared_bytes,
            engine="auto",
            schedule=schedule,
            trace=True,
            monitor=monitor,
        )
        evidence = of_emulation(emulation, module, grid, block)
    outputs = []
    for word, value, old in zip(arguments, values, before, strict=True):
        if old is not None and (value.output or not np.array_equal(old, value.array, equal_nan=old.dtype.kind == "f")):
            outputs.append(_output(word, value.array))
    return emulation, tuple(outputs), advise(evidence)


def _stages(monitor: LaunchMonitor) -> list[Stage]:
    """Return the progress of a launch, with its faults so far."""
    faults = Counter[str]()
    for finding in monitor.findings():
        faults[finding.kind] += finding.count
    return [
        Stage(f"blocks ({monitor.engine or 'not begun'})", monitor.finished, monitor.blocks or None),
        *([Stage("instructions interpreted", monitor.steps)] if monitor.steps else []),
        *(Stage(kind, number) for kind, number in faults.items()),
    ]


def _output(word: str, array: NDArray[Any]) -> str:
    """Describe a buffer after a launch: its first values, its range, and the count of non-finite values."""
    flat = array.ravel()
    first = " ".join(f"{value:.6g}" for value in flat[:_VALUES_SHOWN])
    ellipsis = " …" if flat.size > _VALUES_SHOWN else ""
    numbers = flat[np.isfinite(flat)] if flat.dtype.kind == "f" else flat
    span = f"; {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}" if numbers.size else ""
    bad = f"; {flat.size - numbers.size} of {flat.size} are not finite" if numbers.size < flat.size else ""
    return f"{word.partition('=')[0]}: {first}{ellipsis}{span}{bad}"


def execute_file(
    file: Path,
    kernel: str | None,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    *,
    dynamic_shared_bytes: int = 0,
    seed: int = 0,
    engine: EngineChoice = "auto",
    schedule: int | None = None,
    monitor: LaunchMonitor | None = None,
) -> Emulation:
    """Execute one kernel of a `.ptx` file on the CPU.

    Args:
        file: The file.
        kernel: Name of the kernel; None means the only one.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        arguments: One for each parameter: what `lab.emulator.api.launch` takes, or a text in the form that
            `lab.emulator.arguments` describes.
        dynamic_shared_bytes: Dynamic shared memory of a block.
        seed: Seed of random buffers.
        engine: The engine, as in `lab.emulator.api.launch`.
        schedule: Seed of another fair order of warps and blocks; None for the order of the program.
        monitor: The time limit; None for none.

    Raises:
        UserError: there is no such file or kernel, or an argument is malformed.
        ReaderError: the PTX cannot be read.
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    module, name = _kernel_of(file, kernel)
    parsed = iter(arguments_from_words([argument for argument in arguments if isinstance(argument, str)], seed))
    values = [next(parsed) if isinstance(argument, str) else argument for argument in arguments]
    return launch(
        module,
        name,
        grid,
        block,
        values,
        dynamic_shared_bytes=dynamic_shared_bytes,
        engine=engine,
        schedule=schedule,
        monitor=monitor,
    )


def _kernel_of(file: Path, kernel: str | None) -> tuple[Module, str]:
    """Return a file's module and the name of its kernel; None means the only one.

    Raises:
        UserError: there is no such file or kernel.
        ReaderError: the PTX cannot be read.
    """
    module = read_ptx(yamlfile.read_text(file, MOST_BYTES), str(file))
    names = [function.name for function in module.kernels]
    if kernel is None and len(names) != 1:
        raise UserError(
            "the file does not hold exactly one kernel; name one",
            code="out-of-range",
            at=Location(file),
            key="--kernel",
            accepted=names or "a PTX kernel",
        )
    if kernel is not None and kernel not in names:
        raise UserError(
            "no such kernel in the file",
            code="unknown-name",
            at=Location(file),
            key="--kernel",
            found=kernel,
            accepted=names,
            suggestion=did_you_mean(kernel, names),
        )
    return module, kernel or names[0]


def sizes_of_word(word: str, key: str) -> tuple[int, int, int]:
    """Return the sizes along x, y, z an option gives; missing ones are 1.

    Raises:
        UserError: it is not one to three integers from 1.
    """
    parts = word.split(",")
    if not 1 <= len(parts) <= 3 or not all(size.strip().isdecimal() and int(size) for size in parts):  # noqa: PLR2004
        raise UserError(
            "this is not a size", code="syntax", key=key, found=word, accepted="one to three integers ≥ 1: 16,16"
        )
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def inspect_variant(
    file: Path, variant: str, max_variants: int | None = None, *, run_operator: bool = False
) -> Inspection:
    """Inspect one variant of an experiment, by its id or a prefix of it; see `variants`.

    Raises:
        UserError: the experiment is wrong, or has no such variant.
        CompileError: the variant does not compile.
    """
    everything = variants(file, max_variants, run_operator=run_operator)
    matches = [planned for planned in everything if planned.variant.startswith(variant)]
    if len(matches) != 1:
        titles = [_title(planned) for planned in everything]
        raise UserError(
            "no variant has this id" if not matches else "several variants begin with this id",
            code="unknown-name",
            at=Location(file),
            found=variant,
            accepted="\n    ".join(["", *titles[:50], *(["…"] if len(titles) > 50 else [])]),  # noqa: PLR2004 - a screenful
            suggestion=did_you_mean(variant, [planned.variant for planned in everything]),
        )
    planned = matches[0]
    if planned.toolchain.name == TRITON and not run_operator:
        raise UserError(
            "compiling a Triton function runs its Python file; this command requires explicit permission",
            code="refused",
            at=planned.instance.template.document.at("source"),
            key="source",
            found=planned.instance.template.name,
            suggestion="read the file, then pass --run-operator",
        )
    return _compile(_title(planned), planned.toolchain, planned.request, only=planned.launches.entries)


def _title(planned: Planned) -> str:
    return f"{planned.variant} {planned.point.kernel.name} {planned.label}".strip()


def variants(file: Path, max_variants: int | None = None, *, run_operator: bool = False) -> Plan:
    """Return every variant of an experiment, for its named architectures, or for `DEFAULT_ARCH` without any.

    Args:
        file: The experiment.
        max_variants: Largest sweep to accept.
        run_operator: An operator of the user's own may run, in a worker; else an experiment with one is refused.

    Raises:
        UserError: the experiment is wrong, or has more than `max_variants` variants, by default
            `DEFAULT_MAX_VARIANTS`.
    """
    experiment = load(file, run_operator=run_operator)
    tools = toolchains(experiment)
    archs = [arch for arch in experiment.archs if arch not in ("auto", "native")] or [DEFAULT_ARCH]
    experiment = on(experiment, archs)
    return plan(experiment, expand(experiment, max_variants=max_variants).points, tools, archs)


def variant_row(planned: Planned) -> dict[str, object]:
    """Return the row of a variant for `lab inspect --json`."""
    return {
        "variant": planned.variant,
        "kernel": planned.point.kernel.name,
        "label": planned.label,
        "parameters": dict(planned.point.parameters),
        "toolchain": planned.toolchain.name,
        "toolchain_version": planned.toolchain.version,
        "arch": planned.request.arch,
    }


def _compile(
    title: str, compiler: Toolchain, request: CompileRequest, only: tuple[str, ...] = (), follow: Follow = _alone
) -> Inspection:
    return _compiled(title, request.source, build(compiler, request), only, follow)


def _compiled(
    title: str, source: str, built: Compiled, only: tuple[str, ...] = (), follow: Follow = _alone
) -> Inspection:
    ptx, listing = _ptx(built.build.ptx, "kernel.ptx", follow)
    sass, listings = None, [listing]
    if not built.disassembly.lacking:
        sass, listing = _sass(built.disassembly, "kernel.sass", follow)
        listings.append(listing)
    if only:
        listings = [
            InspectedListing(listing.isa, listing.text, tuple(k for k in listing.kernels if k.name in only))
            for listing in listings
        ]
    used = [one for name, one in built.build.resources.items() if not only or name in only]
    # of several kernels each has its own resources
    evidence = Evidence(ptx, sass, resources=used[0] if len(used) == 1 else None, entries=frozenset(only))
    log = "\n".join(filter(None, (built.build.log, built.disassembly.lacking)))
    return Inspection(title, source, tuple(listings), log, built.build.resources, advice=advise(evidence))


def _ptx(text: str, file: str, follow: Follow = _alone) -> tuple[Module, InspectedListing]:
    module = _read(text, file, follow)
    return module, _listing(module, text, follow)


def _sass(disassembly: Disassembly, file: str, follow: Follow = _alone) -> tuple[Module, InspectedListing]:
    module = read_sass(disassembly.text, disassembly.lines, file)
    return module, _listing(module, disassembly.text, follow)


def _read(text: str, file: str, follow: Follow) -> Module:
    lines = text.count("\n") + 1
    return read_ptx(text, file, lambda line: follow(lambda: [Stage("lines of PTX", line(), lines)]))


def _listing(module: Module, text: str, follow: Follow) -> InspectedListing:
    kernels, mixes = module.kernels, list[KernelMix]()
    follow(lambda: [Stage(f"kernels of {module.isa.upper()}", len(mixes), len(kernels))])
    with uncollected():
        mixes.extend(kernel_mix(module.isa, kernel) for kernel in kernels)
    return InspectedListing(module.isa, text, tuple(mixes))
