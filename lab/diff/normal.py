"""A kernel's machine code in a form that can be compared: places, symbols and constants by meaning.

An instruction keeps its opcode, its guard, its operands and its scheduling bits. Constants of the banks that all
kernels share become the variable that they name, addresses of code become distances, and the kernel's own symbol
becomes `<kernel>`, so that moving a function or adding a variable changes nothing. The contents of the variables that
the code names are part of it.

A listing that lacks instructions of the code raises an error: otherwise two listings that were not understood would be
equal.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from lab.base.errors import Location, ReaderError
from lab.diff.demangle import stable_symbol
from lab.diff.image import OF_CODE, CubinImage
from lab.isa.model import Function, Instruction, InstructionClass, Module, SourceLocation
from lab.isa.sass.control import BYTES
from lab.toolchain.cubin.image import CubinKernel

CONTROL_BITS: Final = 105 - 64
"""First scheduling bit in the second word of an instruction (`lab.isa.sass.control`)."""
_CONTROL_MASK: Final = (1 << 21) - 1

_CONSTANT = re.compile(r"\bc\[0x([0-9a-f]+)\]\[((?:[^\[\]]|\[[^\]]*\])*)\]")
_PLAIN_OFFSET = re.compile(r"0x[0-9a-f]+\Z")
_SYMBOL = re.compile(r"<[^<>]*>|[A-Za-z_$.][\w$.@]{3,}")
_BY_REGISTER = re.compile(r"c\[0x4\]\[(U?R\d+)\]")
_ZEROS: Final = ("RZ", "URZ")
_VARIABLES: Final = 3
"""The constant bank of ``__constant__`` variables."""
_ADDRESSES: Final = 4
"""The constant bank of addresses of variables and functions."""
_SHORTEST: Final = 4
"""Characters of the shortest symbol that is looked up: shorter ones are registers."""
_NEAR: Final = 64
"""Instructions to look back for the offset that indexes the bank of addresses."""
_NOPS = (b"\x18\x79",)
_LABELLED: Final = frozenset({"BRA", "BSSY", "CALL", "JMP", "WARPSYNC", "BRX", "BRXU", "BREAK"})


@dataclass(frozen=True, slots=True)
class NormalInstruction:
    """One instruction in comparable form.

    Attributes:
        opcode: With every modifier.
        guard: `@!P0`; empty without one.
        operands: Operands with constants and symbols by meaning and code addresses as distances, `+3`.
        control: The 21 scheduling bits.
        encoding: The 128 bits of the instruction without the scheduling bits.
        source: Source line, or None.
    """

    opcode: str
    guard: str
    operands: tuple[str, ...]
    control: int
    encoding: int
    source: SourceLocation | None

    @property
    def text(self) -> str:
        """The instruction as a listing shows it."""
        return f"{self.guard}{' ' if self.guard else ''}{self.opcode} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class NormalKernel:
    """A kernel with everything that decides its behaviour.

    Attributes:
        symbol: Its symbol.
        arch: Its architecture.
        instructions: Its own code, then that of the device functions it calls.
        attributes: Launch bounds, parameters and other attributes of the image, as name and value.
        data: Contents of the variables and constant banks it reads, by name.
        names: Variables of its image, read or not.
        resources: Registers, stack, shared memory, barriers and cluster.
        function: The kernel in the instruction model, for loops and mix.
        code: Its machine code.
    """

    symbol: str
    arch: str
    instructions: tuple[NormalInstruction, ...]
    attributes: tuple[tuple[str, str], ...]
    data: Mapping[str, str]
    names: frozenset[str]
    resources: CubinKernel
    function: Function = field(repr=False)
    code: bytes = field(repr=False)


def normalise(image: CubinImage, module: Module, symbol: str) -> NormalKernel:
    """Return a kernel in comparable form.

    Args:
        image: The cubin.
        module: Its disassembly.
        symbol: The kernel.

    Raises:
        ReaderError: The listing lacks the kernel, or instructions of its machine code.
    """
    functions = {function.name: function for function in module.functions}
    if symbol not in functions or not image.code(symbol):
        raise ReaderError("the listing has no machine code of this kernel", Location(symbol))
    data: dict[str, str] = {}
    instructions: list[NormalInstruction] = []
    pending, done = [symbol], set[str]()
    while pending:
        name = pending.pop(0)
        if name in done or name not in functions:
            continue
        done.add(name)
        reader = _Reader(image, functions[name], symbol)
        instructions += reader.instructions()
        data.update(reader.data)
        pending += sorted(reader.functions)
    for bank, content in image.own_banks(symbol).items():
        named = image.relocations(f".nv.constant{bank}.{symbol}")
        data[f"constant bank {bank}"] = f"{content.hex()} {_stable_relocations(named)}"
    return NormalKernel(
        symbol=symbol,
        arch=module.target,
        instructions=tuple(instructions),
        attributes=image.attributes(symbol),
        data=data,
        names=frozenset(map(stable_symbol, image.variables)),
        resources=image.resources[symbol],
        function=functions[symbol],
        code=image.code(symbol),
    )


def lasting_attributes(kernel: NormalKernel) -> tuple[tuple[str, str], ...]:
    """Return the attributes without lists of places in the code."""
    return tuple((name, value) for name, value in kernel.attributes if name not in OF_CODE)


def _stable_relocations(named: Mapping[int, tuple[str, int]]) -> str:
    return repr(sorted((offset, stable_symbol(name), addend) for offset, (name, addend) in named.items()))


def _before(listed: Sequence[Instruction], instruction: Instruction) -> Iterator[Instruction]:
    """Yield the instructions before another, the nearest first."""
    for place in range(instruction.index - 1, max(-1, instruction.index - _NEAR), -1):
        yield listed[place]


class _Reader:
    """A single pass over one function; collects the data and functions that it names."""

    def __init__(self, image: CubinImage, function: Function, kernel: str) -> None:
        self._image, self._function, self._kernel = image, function, kernel
        self._code = image.code(function.name)
        self.data: dict[str, str] = {}
        self.functions: set[str] = set()

    def instructions(self) -> Iterator[NormalInstruction]:
        listed = self._function.instructions
        end = BYTES * len(listed)
        rest = range(end, len(self._code), BYTES)
        # the reader drops the branch to itself behind the last exit
        unlisted = [at for at in rest if self._code[at : at + 2] not in _NOPS]
        if not listed or len(self._code) % BYTES or len(unlisted) > 1:
            raise ReaderError(
                f"the listing has {len(listed)} of {len(self._code) // BYTES} instructions",
                Location(self._function.name),
            )
        for instruction in listed:
            low, high = struct.unpack_from("<QQ", self._code, instruction.address or 0)
            control = high >> CONTROL_BITS & _CONTROL_MASK
            encoding = low | (high & ~(_CONTROL_MASK << CONTROL_BITS)) << 64
            guard = "" if instruction.predicate is None else f"@{'!' * instruction.negated}{instruction.predicate}"
            operands = tuple(self._operand(instruction, operand) for operand in instruction.operands)
            if instruction.index in self._offsets:
                operands = (operands[0], f"&&{self._variable(4, self._offsets[instruction.index])}")
            yield NormalInstruction(instruction.opcode, guard, operands, control, encoding, instruction.source)

    @cached_property
    def _indices(self) -> dict[int, int]:
        """Map each load from the bank of addresses by a register to the `MOV` that sets the register."""
        moves: dict[int, int] = {}
        listed = self._function.instructions
        for instruction in listed:
            for operand in instruction.operands if instruction.opcode.startswith("LDC") else ():
                match = _BY_REGISTER.fullmatch(operand)
                setter = (
                    next((i for i in _before(listed, instruction) if i.operands[:1] == (match[1],)), None)
                    if match
                    else None
                )
                if setter and setter.opcode.startswith(("MOV", "UMOV")) and _PLAIN_OFFSET.match(setter.operands[-1]):
                    moves[instruction.index] = setter.index
        return moves

    @cached_property
    def _offsets(self) -> dict[int, int]:
        """Map those `MOV` instructions to the offset in the bank that they set."""
        listed = self._function.instructions
        return {place: int(listed[place].operands[-1], 16) for place in self._indices.values()}

    def _operand(self, instruction: Instruction, operand: str) -> str:
        operand = operand.replace(".reuse", "")  # a scheduling bit
        if instruction.cls is InstructionClass.BRANCH:
            if operand == self._kernel:
                return "<kernel>"
            if _PLAIN_OFFSET.match(operand) and instruction.opcode.partition(".")[0] in _LABELLED:
                return f"{(int(operand, 16) - (instruction.address or 0)) // BYTES:+d}"
        if instruction.index in self._indices and "c[0x4]" in operand:
            return f"c[&{self._variable(4, self._offsets[self._indices[instruction.index]])}]"
        if "c[0x" in operand:
            operand = _CONSTANT.sub(self._constant, operand)
        return _SYMBOL.sub(self._symbol, operand) if len(operand) >= _SHORTEST else operand

    def _constant(self, match: re.Match[str]) -> str:
        bank, place = int(match[1], 16), match[2]
        if bank not in (_VARIABLES, _ADDRESSES):
            return match[0]
        sign = "&" if bank == _ADDRESSES else ""
        if place in _ZEROS or _PLAIN_OFFSET.match(place):
            return f"c[{sign}{self._variable(bank, 0 if place in _ZEROS else int(place, 16))}]"
        base = re.search(r"\+(0x[0-9a-f]+)\Z", place)
        if "-" in place or bank == _ADDRESSES:  # any variable of the bank
            return f"c[{sign}{self._whole_bank(bank)}][{place}]"
        return f"c[{self._variable(bank, int(base[1], 16) if base else 0)}][{place.partition('+')[0]}]"

    def _variable(self, bank: int, offset: int) -> str:
        """Return the name of the variable at a place of a bank, and add its contents to the data."""
        named = self._image.variable_at(bank, offset)
        return self._named(*named) if named is not None else f"{self._whole_bank(bank)}+{offset:#x}"

    def _whole_bank(self, bank: int) -> str:
        name = f".nv.constant{bank}"
        content, named = self._image.shared_banks.get(name, b""), self._image.relocations(name)
        self.data[name] = f"{content.hex()} {_stable_relocations(named)}"
        for variable, distance in named.values():
            self._named(variable, distance)
        return name

    def _named(self, name: str, distance: int) -> str:
        if name == self._kernel:
            label = "kernel"
        elif name in self._image.variables:
            variable = self._image.variables[name]
            # texts of printf are numbered by their order in the module
            label = f"text {variable.digest}" if name.startswith("$str") else stable_symbol(name)
            if label not in self.data:
                pointers = self._image.pointers_in(variable)
                self.data[label] = f"{variable.digest} {_stable_relocations(pointers)}"
                for target, addend in pointers.values():
                    self._named(target, addend)
        else:
            label = stable_symbol(name)
            if self._image.code(name):
                self.functions.add(name)
        return f"<{label}>{f'+{distance:#x}' if distance else ''}"

    def _symbol(self, match: re.Match[str]) -> str:
        name = match[0]
        if name.startswith("<"):
            return name
        if name in self._image.variables or self._image.code(name):
            return self._named(name, 0)
        own = f"${self._kernel}$"  # a device function within the kernel's section
        return f"<$kernel${stable_symbol(name[len(own) :])}>" if name.startswith(own) else stable_symbol(name)
