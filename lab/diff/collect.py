"""Collect the machine code of a side: sources are compiled, PTX is assembled, containers are opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lab.base.errors import CompileError, Location, UserError
from lab.base.files import read_regular
from lab.base.yamlfile import decoded
from lab.diff.side import CodeSide, SideImage, is_side, read_json
from lab.templates.plain.building import compile_unit
from lab.templates.plain.unit import SUFFIXES as SOURCES
from lab.templates.plain.unit import SourceUnit, read_unit
from lab.toolchain.base import CompileRequest
from lab.toolchain.containers.images import DeviceImage, device_images, is_container
from lab.toolchain.ptx import targets
from lab.toolchain.select import Compiled, build, toolchain

DEFAULT_ARCHS: Final = ("sm_90",)
"""Architectures that sources are compiled for where nobody names any."""
MOST_BYTES: Final = 256 << 20
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """Options for compiling sources and keeping images.

    Attributes:
        archs: Architectures. Sources and PTX are compiled for each; of cubins, the others are left out. Empty means
            `DEFAULT_ARCHS` for sources, its own target for PTX, and every cubin.
        toolchains: Compilers by name, such as `nvrtc==12.9`.
        kernels: Kernels to instantiate, as C++ expressions; empty means all kernels and launched instances.
        root: The highest folder of which a source may include files.
        include: Further folders of headers.
        macros: `NAME` or `NAME=value`.
        options: Further compiler options.
    """

    archs: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ("auto",)
    kernels: tuple[str, ...] = ()
    root: Path | None = None
    include: tuple[Path, ...] = ()
    macros: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def collect(path: Path, options: CollectOptions, name: str | None = None) -> CodeSide:
    """Collect one side.

    Args:
        path: A CUDA source, PTX, a cubin, a container (`lab.toolchain.containers.images`), a folder of these, such as
            Triton's cache or a run directory, or the JSON of a collected side.
        options: How to compile.
        name: The side's name; by default the path.

    Raises:
        UserError: It does not exist, is of another kind, or has no machine code.
        MissingToolError: A compiler is not on this machine.
    """
    name = name or str(path)
    if is_side(path):
        side = read_json(path)
    elif path.suffix in SOURCES and not path.is_dir():
        side = _of_source(path, options)
    elif path.suffix == ".ptx":
        side = _of_ptx(decoded(read_regular(path, MOST_BYTES, "the PTX"), path), path.name, options)
    elif path.suffix == ".cubin":
        side = CodeSide(name, (SideImage("", read_regular(path, MOST_BYTES, "the cubin")),))
    elif is_container(path):
        side = _of_container(path, options)
    else:
        raise UserError(
            "lab diff cannot read this kind of file" if path.exists() else "there is no such file or revision",
            code="unsupported" if path.exists() else "missing-file",
            at=Location(path),
            found=path.suffix or path.name,
            accepted=".cu, .ptx, .cubin, .fatbin, .so, .whl, .json of --collect, a folder, or a git revision",
        )
    if not side.images and not side.failures:
        raise UserError(
            "this side has no machine code",
            code="nothing-left",
            at=Location(path),
            found="; ".join(side.notes[:3]) or None,
            accepted="at least one kernel: a comparison of nothing would find no difference",
        )
    return replace(side, name=name)


def _of_source(path: Path, options: CollectOptions) -> CodeSide:
    unit = read_unit(path, root=options.root, search=options.include, macros=options.macros)
    if options.options:
        unit = replace(unit, flags=replace(unit.flags, more=options.options))
    images: list[SideImage] = []
    notes: list[str] = []
    failures: list[tuple[str, str]] = []
    for compiler in options.toolchains:
        for arch in options.archs or DEFAULT_ARCHS:
            try:
                image, more = _compiled(unit, arch, compiler, options.kernels)
            except CompileError as error:
                failures.append((f"{path.name} for {arch} by {compiler}", str(error).splitlines()[0]))
                continue
            images.append(image)
            notes += [f"{path.name}: {note}" for note in more]
    return CodeSide(str(path), tuple(images), tuple(dict.fromkeys(notes)), tuple(failures))


def _compiled(unit: SourceUnit, arch: str, compiler: str, kernels: Sequence[str]) -> tuple[SideImage, tuple[str, ...]]:
    wanted = tuple(expression for kernel in kernels for expression in unit.named(kernel))
    guesses = set[str]() if wanted else {i.expression for i in unit.instances if i.assumed}
    expressions = wanted or tuple(instance.expression for instance in unit.instances)
    unit_build = compile_unit(unit, arch, expressions, compiler, guesses)
    return _image_of(unit_build.compiled, unit.flags.options, expressions), unit_build.notes


def _image_of(compiled: Compiled, options: Sequence[str], expressions: Sequence[str] = ()) -> SideImage:
    result = compiled.build
    return SideImage(
        where="",
        cubin=result.cubin,
        toolchain=f"{result.toolchain} {result.version}",
        options=tuple(options),
        titles={symbol: expression for expression, symbol in result.symbols.items() if expression in expressions},
        spills={name: (used.spill_store_bytes, used.spill_load_bytes) for name, used in result.resources.items()},
        disassembly=compiled.disassembly,
    )


def _of_ptx(text: str, name: str, options: CollectOptions) -> CodeSide:
    match = _TARGET.search(text)
    target = match[1] if match else ""
    images: list[SideImage] = []
    failures: list[tuple[str, str]] = []
    for arch in options.archs or ((target,) if target else ()):
        if not targets(arch, target):
            failures.append((f"{name} for {arch}", f"it is PTX for {target or 'an unknown target'}"))
            continue
        try:
            request = CompileRequest(text, name, arch, options.options)
            images.append(_image_of(build(toolchain("ptx"), request), options.options))
        except CompileError as error:
            failures.append((f"{name} for {arch}", str(error).splitlines()[0]))
    return CodeSide(name, tuple(images), (), tuple(failures))


def _of_container(path: Path, options: CollectOptions) -> CodeSide:
    images: list[SideImage] = []
    notes: list[str] = []
    failures: list[tuple[str, str]] = []
    contents = device_images(path)
    if path.is_dir() and not contents:
        return _of_sources(path, options)
    with_cubins = {image.where.rpartition(".")[0] for image in contents if image.isa == "sass"}
    texts = [image for image in contents if image.isa == "ptx" and image.entry.is_listing]
    for image in contents:
        where = "" if image.where == path.name else image.where
        if not image.entry.is_listing:
            notes.append(f"{image.where}: {image.entry.refused or f'{image.entry.kind} is not read'}")
        elif image.isa == "sass":
            if not options.archs or not image.entry.arch or image.entry.arch in options.archs:
                images.append(SideImage(where, image.entry.data))
        elif image.where.endswith(".ptx") and image.where.rpartition(".")[0] not in with_cubins:
            side = _assembled(image, where, options)
            images += side.images
            failures += side.failures
    if texts and not images:
        sides = [_assembled(image, image.where, options) for image in texts]
        images = [assembled for side in sides for assembled in side.images]
        failures = [failure for side in sides for failure in side.failures]
    elif skipped := sum(not text.where.endswith(".ptx") for text in texts):
        notes.append(f"{skipped} PTX images beside cubins are not compared")
    return CodeSide(str(path), tuple(images), tuple(dict.fromkeys(notes)), tuple(failures))


def _assembled(image: DeviceImage, where: str, options: CollectOptions) -> CodeSide:
    """Assemble PTX of a container."""
    side = _of_ptx(decoded(image.entry.data, image.where, "the PTX"), image.where, options)
    return replace(side, images=tuple(replace(assembled, where=where) for assembled in side.images))


def _of_sources(folder: Path, options: CollectOptions) -> CodeSide:
    """Compile every CUDA source of a folder that holds no machine code."""
    files = sorted(file for file in folder.rglob("*.cu") if file.is_file())
    images: list[SideImage] = []
    notes: list[str] = []
    failures: list[tuple[str, str]] = []
    for file in files:
        where = file.relative_to(folder).as_posix()
        side = _of_source(file, replace(options, root=options.root or folder))
        images += [replace(image, where=where) for image in side.images]
        notes += side.notes
        failures += [(f"{where}: {place}", reason) for place, reason in side.failures]
    return CodeSide(str(folder), tuple(images), tuple(notes), tuple(failures))
