"""Compile a source that was written for nvcc, by whatever compiler of this machine takes it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.base.errors import CompileError, MissingToolError
from lab.templates.plain.unit import SourceUnit
from lab.toolchain.base import Toolchain, title
from lab.toolchain.select import Compiled, build, toolchain

_REFUSED = re.compile(r'Input name expression was: "([^"\n]*)"')


@dataclass(frozen=True)
class BuiltUnit:
    """A build of a source.

    Attributes:
        compiled: The build.
        notes: What was done otherwise than asked.
    """

    compiled: Compiled
    notes: tuple[str, ...] = ()


def compile_unit(
    unit: SourceUnit, arch: str, kernels: Sequence[str], compiler: str = "auto", guesses: Collection[str] = ()
) -> BuiltUnit:
    """Compile a source. Where `auto` means NVRTC and that refuses the source, nvcc compiles it, if it is installed.

    Args:
        unit: The source.
        arch: The target.
        kernels: Kernels as C++ expressions. Of several, those that a compiler cannot resolve are left out.
        compiler: Name of a toolchain.
        guesses: Those of the kernels that may not compile, since a type is assumed.

    Raises:
        CompileError: The compiler refuses the source, and nvcc does so, too, or is not here.
        MissingToolError: A tool is not on this machine.
    """
    first = toolchain(compiler)
    has_stand_in = compiler == "auto" and first.name == "nvrtc"
    try:
        made = _compile(unit, arch, kernels, first, guesses)
    except CompileError as error:
        other = _by_nvcc(unit, arch, [] if guesses else kernels) if has_stand_in else None
        if other is None:
            raise
        return _said(other, f"NVRTC refused it: {str(error).splitlines()[0]}")
    if has_stand_in and unit.kernels and not made.compiled.build.resources:
        other = _by_nvcc(unit, arch, [])
        if other is not None and other.compiled.build.resources:
            return _said(other, "it instantiates the templates that the host launches")
    return made


def _by_nvcc(unit: SourceUnit, arch: str, kernels: Sequence[str]) -> BuiltUnit | None:
    """Return a build by nvcc, which instantiates by itself what the host launches; None where it makes none."""
    try:
        return _compile(unit, arch, kernels, toolchain("nvcc"), ())
    except (MissingToolError, CompileError):
        return None


def _said(made: BuiltUnit, reason: str) -> BuiltUnit:
    return BuiltUnit(made.compiled, (f"compiled by nvcc {made.compiled.build.version}: {reason}", *made.notes))


def _compile(
    unit: SourceUnit, arch: str, kernels: Sequence[str], compiler: Toolchain, guesses: Collection[str]
) -> BuiltUnit:
    device_only = compiler.name == "nvrtc"
    try:
        return BuiltUnit(build(compiler, unit.request(arch, kernels, device_only=device_only)))
    except CompileError as error:
        refused = {_plain(one) for one in _REFUSED.findall(error.log)}
        left = [kernel for kernel in kernels if (_plain(kernel) not in refused if refused else kernel not in guesses)]
        if len(left) in (0, len(kernels)):
            raise
    made = build(compiler, unit.request(arch, left, device_only=device_only))
    gone = ", ".join(kernel for kernel in kernels if kernel not in left)
    return BuiltUnit(made, (f"{title(compiler)} cannot instantiate {gone}",))


def _plain(expression: str) -> str:
    return re.sub(r"\s+", "", expression).removeprefix("::")
