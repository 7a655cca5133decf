"""The cache of compiled kernels, keyed by PTX, counting and check options, and this engine's source."""

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
"""Packages whose source determines a kernel's machine code."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledKernel:
    """A kernel that can be executed as machine code.

    Attributes:
        code: Its metadata.
        native: The machine code.
    """

    code: KernelCode
    native: NativeCode


@dataclass(frozen=True, slots=True, eq=False)
class KernelMaker:
    """The maker of a kernel's machine code.

    Attributes:
        program: The kernel.
        symbols: Addresses of module variables.
        count: Instructions and traffic are counted.
        watched: The checks for races and reads of unwritten memory; None for no checks.
        folder: The cache folder; None for no cache.
        quick: Prefer fast code generation to fast code, for a few blocks.
    """

    program: Program
    symbols: dict[str, int]
    count: bool
    watched: Watched | None
    folder: Path | None
    quick: bool = False

    @property
    def key(self) -> str:
        """The hash of everything that determines the machine code."""
        watched = self.watched
        places = None if watched is None else sorted(watched.extents.items())
        watch_key = None if watched is None else (watched.shared, watched.global_, watched.copies, places)
        facts = (_engine(), _text_of(self.program), sorted(self.symbols.items()), self.count, watch_key, self.quick)
        return code_key(repr(facts))

    @property
    def ready(self) -> bool:
        """Return whether the machine code is cached."""
        return is_kept(self.key, self.folder)

    def write(self) -> KernelCode:
        """Generate the kernel's LLVM IR.

        Raises:
            NotCompiled: something is not supported.
        """
        return kernel_code(self.program, self.symbols, count=self.count, watched=self.watched)

    def make(self) -> CompiledKernel:
        """Compile the machine code, or load it from the cache.

        Raises:
            NotCompiled: something is not supported.
        """

        def write() -> tuple[str, str]:
            code = self.write()
            return code.text, code.about

        machine_code = native(self.key, self.folder, write, quick=self.quick)
        return CompiledKernel(KernelCode.from_about(machine_code.about), machine_code)


@lru_cache(maxsize=1)
def _engine() -> str:
    """Return the hash of the source files that determine machine code."""
    digest = hashlib.sha256()
    home = Path(__file__).parents[2]
    for room in _DECIDING:
        for file in sorted((home / room).rglob("*.py")):
            digest.update(str(file.relative_to(home)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _text_of(program: Program) -> str:
    """Return the hash of a program without line numbers, for the cache key."""
    functions = [
        (
            function.name,
            function.parameters,
            function.results,
            function.variables,
            function.labels,
            function.tables,
            function.directives,
        )
        for function in program.functions
    ]
    code = [
        (
            number,
            instruction.opcode,
            instruction.operands,
            instruction.predicate,
            instruction.negated,
            instruction.targets,
        )
        for number, instruction in program.code
    ]
    return hashlib.sha256(repr((functions, program.module.variables, code)).encode()).hexdigest()
