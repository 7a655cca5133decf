"""A kernel's machine code, by everything that decides it: its PTX, what is counted and watched, and this engine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lab.emulator.compiled.kernel_code import KernelCode, kernel_code
from lab.emulator.compiled.native import NativeCode, code_key, is_kept, native
from lab.emulator.compiled.shadows import Watched
from lab.emulator.program import Program

_DECIDING = ("base", "emulator", "hardware", "isa")
"""Rooms whose text decides what machine code a kernel has."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledKernel:
    """A kernel that can be executed as machine code.

    Attributes:
        code: What is known about it.
        native: The code.
    """

    code: KernelCode
    native: NativeCode


@dataclass(frozen=True, slots=True, eq=False)
class KernelMaker:
    """What makes a kernel's machine code.

    Attributes:
        program: The kernel.
        symbols: Addresses of module variables.
        count: Instructions and traffic are counted.
        watched: What is watched for races and reads of unwritten memory; None for nothing.
        folder: Where machine code is kept; None to keep none.
        quick: Generate code quickly rather than quick code, for a few blocks.
    """

    program: Program
    symbols: dict[str, int]
    count: bool
    watched: Watched | None
    folder: Path | None
    quick: bool = False

    @property
    def key(self) -> str:
        """The hash of everything that decides the machine code."""
        watched = self.watched
        places = None if watched is None else sorted(watched.extents.items())
        seen = None if watched is None else (watched.shared, watched.global_, watched.copies, places)
        facts = (_engine(), _text_of(self.program), sorted(self.symbols.items()), self.count, seen, self.quick)
        return code_key(repr(facts))

    @property
    def ready(self) -> bool:
        """Whether the machine code was made before."""
        return is_kept(self.key, self.folder)

    def write(self) -> KernelCode:
        """Write the kernel's LLVM IR.

        Raises:
            NotCompiled: something is not supported.
        """
        return kernel_code(self.program, self.symbols, count=self.count, watched=self.watched)

    def make(self) -> CompiledKernel:
        """Make the machine code, or load it.

        Raises:
            NotCompiled: something is not supported.
        """

        def write() -> tuple[str, str]:
            code = self.write()
            return code.text, code.about

        made = native(self.key, self.folder, write, quick=self.quick)
        return CompiledKernel(KernelCode.from_about(made.about), made)


@lru_cache(maxsize=1)
def _engine() -> str:
    """Return the hash of the files that decide what machine code a kernel has."""
    found = hashlib.sha256()
    home = Path(__file__).parents[2]
    for room in _DECIDING:
        for file in sorted((home / room).rglob("*.py")):
            found.update(str(file.relative_to(home)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


@lru_cache(maxsize=8)
def _text_of(program: Program) -> str:
    """Return everything of a program that decides its machine code, but its line numbers."""
    functions = [
        (one.name, one.parameters, one.results, one.variables, one.labels, one.tables, one.directives)
        for one in program.functions
    ]
    code = [(number, one.opcode, one.operands, one.predicate, one.negated, one.targets) for number, one in program.code]
    return hashlib.sha256(repr((functions, program.module.variables, code)).encode()).hexdigest()
