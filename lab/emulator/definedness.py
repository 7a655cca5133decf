"""Definedness: a static analysis of the registers a program may read before writing them.

A PTX register is undefined until it is written. Compilers emit such reads where the value does not matter, so a read
alone is not a fault; a value with an effect is. This module finds the registers to watch: those that some path reaches
unwritten, and those computed from them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from lab.emulator.callgraph import CallGraph
from lab.emulator.control import CodeBlock
from lab.isa.model import Function, Instruction

_WORD = re.compile(r"(?<![\w$%.])[%$A-Za-z_][\w$]*")
_NUMBERED = re.compile(r"(.*?)(\d+)")
_WITHOUT_RESULT = frozenset({
    "st", "red", "bra", "brx", "ret", "exit", "trap", "nanosleep", "fence", "membar", "cp", "stmatrix", "prefetch",
    "prefetchu", "discard", "applypriority", "griddepcontrol", "setmaxnreg", "pmevent", "bar", "barrier", "tensormap",
})  # fmt: skip
_PASSES_ON = frozenset({
    "mov", "add", "sub", "mul", "mul24", "mad", "mad24", "fma", "div", "rem", "neg", "abs", "min", "max", "cvt", "cvta",
    "setp", "set", "selp", "slct", "shl", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh", "copysign",
    "popc", "clz", "testp", "not", "addc", "subc", "madc", "sad", "dp4a", "dp2a", "mma", "movmatrix", "redux",
})  # fmt: skip
"""Families whose result is undefined if any operand is."""

_PACKS = frozenset({"and", "or", "xor", "lop3", "shr", "shf", "prmt", "bfi", "bfe", "brev", "shfl"})
"""Families whose result is undefined only if all source registers are; others may discard undefined bits."""

_ELSEWHERE = ("global", "const")

PassesOn = Literal["never", "any", "all"]
"""The rule for an undefined result: never, if any operand is, or if all source registers are."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The registers of one instruction, by role.

    Attributes:
        writes: Destination registers.
        reads: Source registers, without guard and addresses.
        addresses: Registers in address operands.
        passes_on: The rule by which undefined sources make the result undefined.
    """

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    addresses: tuple[str, ...]
    passes_on: PassesOn


class Laid(Protocol):
    """The part of `lab.emulator.program.Program` that the analysis needs."""

    functions: list[Function]
    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]
    entries: list[int]
    calls: CallGraph
    local_bytes: int

    @property
    def shared_variables(self) -> Sequence[object]:
        """The variables in shared memory."""

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the successors of a block within its function."""


class Definedness:
    """The registers of a program to watch for undefined values.

    Attributes:
        unwritten: Function and name of each register that some path reads before a write.
        watched: These, registers loaded from shared or local memory, and registers computed from them.
    """

    def __init__(self, program: Laid) -> None:
        """Analyse every path of every function."""
        self._program = program
        self._registers = [_Declared(function) for function in program.functions]
        self._names: dict[tuple[int, str], tuple[str, ...]] = {}
        self._deciding: dict[int, bool] = {}
        self._roles: list[Roles] = [self._read_roles(number, instruction) for number, instruction in program.code]
        self.unwritten = self._find_unwritten()
        self.watched = self._spread()

    @property
    def needed(self) -> bool:
        """Return whether the program can read a register, or shared or local memory, before it is written."""
        program = self._program
        if self.unwritten or program.local_bytes > 0 or program.shared_variables:
            return True
        return any(instruction.opcode.startswith("shfl.") for _, instruction in program.code)

    def roles(self, position: int) -> Roles:
        """Return the register roles of an instruction."""
        return self._roles[position]

    def decides(self, position: int) -> bool:
        """Return whether an instruction's result has an effect: a branch, guard, store or other access.

        A value that is computed and never used has no effect. The answer is cached for the batches of all launches.
        """
        if position not in self._deciding:
            self._deciding[position] = self._decides(position)
        return self._deciding[position]

    def _decides(self, position: int) -> bool:
        affected = set(self._roles[position].writes)
        number = self._program.code[position][0]
        instructions = [
            (instruction.predicate, self._roles[at])
            for at, (function, instruction) in enumerate(self._program.code)
            if function == number and at != position
        ]
        while affected:
            derived: set[str] = set()
            for predicate, roles in instructions:
                if predicate in affected:
                    return True
                if affected.intersection(roles.reads) or affected.intersection(roles.addresses):
                    if not roles.writes:
                        return True
                    derived.update(roles.writes)
            if derived <= affected:
                return False
            affected |= derived
        return False

    # --- one instruction --------------------------------------------------------------------------------------

    def _names_in(self, number: int, text: str) -> tuple[str, ...]:
        """Return the registers in an operand."""
        names = self._names.get((number, text))
        if names is None:
            declared = self._registers[number]
            names = tuple(name for name in _WORD.findall(text) if name in declared)
            self._names[number, text] = names
        return names

    def _read_roles(self, number: int, instruction: Instruction) -> Roles:
        facts = _facts(instruction.opcode)
        writes: tuple[str, ...] = ()
        reads: tuple[str, ...] = ()
        addresses: tuple[str, ...] = ()
        passes = facts.passes_on
        for i, text in enumerate(instruction.operands):
            names = self._names.get((number, text))
            if names is None:
                names = self._names_in(number, text)
            first = text[0]
            if first == "[":
                addresses += names
            elif i == 0 and facts.has_result and (first == "(" or not facts.call):
                writes = names
            else:
                reads += names
        if facts.moves and instruction.operands and instruction.operands[-1][0] == "{":
            passes = "all"
        return Roles(writes, reads, addresses, passes)

    # --- all paths --------------------------------------------------------------------------------------------

    def _find_unwritten(self) -> frozenset[tuple[int, str]]:
        """Return the registers that some path from a function's entry reads before writing."""
        unwritten: set[tuple[int, str]] = set()
        for number, function in enumerate(self._program.functions):
            if function.instructions and not self._calls_itself(number):
                arguments = {variable.name for variable in function.parameters if variable.space == "reg"}
                unwritten |= {(number, name) for name in self._unwritten_in(number, arguments)}
        return frozenset(unwritten)

    def _calls_itself(self, number: int) -> bool:
        return self._program.calls.recursive[number] >= 0

    def follows(self, position: int) -> bool:
        """Return whether values an instruction loads, or receives from another lane, are tracked.

        Registers of recursive functions have one value per call, which is not tracked.
        """
        number, instruction = self._program.code[position]
        return follows(instruction) and not self._calls_itself(number)

    def _unwritten_in(self, number: int, arguments: set[str]) -> set[str]:
        """Return a function's registers that may be read unwritten, by forward dataflow on bit sets."""
        program = self._program
        bits: dict[str, int] = {}
        blocks = {block.index: block for block in program.blocks if block.function == number}
        exposed: dict[int, int] = {}  # registers read before they are written, by block
        definitions: dict[int, int] = {}
        for block in blocks.values():
            exposed[block.index], definitions[block.index] = self._block(block, bits)
        entry, everything = program.entries[number], (1 << len(bits)) - 1
        before = dict.fromkeys(blocks, everything)
        before[entry] = sum(bits[name] for name in arguments if name in bits)
        todo, visited = [entry], {entry}
        while todo:
            index = todo.pop()
            after = before[index] | definitions[index]
            for target in program.successors(blocks[index]):
                narrowed = before[target] & after
                if target not in visited or narrowed != before[target]:
                    visited.add(target)
                    before[target] = narrowed
                    todo.append(target)
        unwritten = 0
        for index in visited:
            unwritten |= exposed[index] & ~before[index]
        return {name for name, bit in bits.items() if unwritten & bit}

    def _block(self, block: CodeBlock, bits: dict[str, int]) -> tuple[int, int]:
        """Return the registers a block reads before writing, and those it writes; `bits` maps names to bits."""
        exposed = defined = 0
        for position in range(block.first, block.stop if block.end is None else block.end + 1):
            roles, guard = self._roles[position], self._program.code[position][1].predicate
            for name in (*roles.reads, *roles.addresses, *((guard,) if guard else ())):
                exposed |= bits.setdefault(name, 1 << len(bits)) & ~defined
            if guard is None:
                for name in roles.writes:
                    defined |= bits.setdefault(name, 1 << len(bits))
        return exposed, defined

    def _spread(self) -> frozenset[tuple[int, str]]:
        """Return the registers that may hold undefined values: a fixed point, independent of execution order."""
        watched = set(self.unwritten)
        passing: defaultdict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        for roles, (number, instruction) in zip(self._roles, self._program.code, strict=True):
            if self._calls_itself(number):
                continue
            if follows(instruction):
                watched.update((number, name) for name in roles.writes)
            if roles.passes_on != "never":
                targets = [(number, name) for name in roles.writes]
                for name in roles.reads:
                    passing[number, name] += targets
        todo = list(watched)
        while todo:
            for derived in passing.get(todo.pop(), ()):
                if derived not in watched:
                    watched.add(derived)
                    todo.append(derived)
        return frozenset(watched)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The roles of operands, by opcode.

    Attributes:
        has_result: The first operand, unless it is an address, is written.
        call: A call: the first operand is written if parenthesised.
        moves: A `mov`, which packs if its source is a list.
        passes_on: As in `Roles`.
        follows: It can load from shared or local memory, perhaps by a generic address, or read an absent lane.
    """

    has_result: bool
    call: bool
    moves: bool
    passes_on: PassesOn
    follows: bool


@lru_cache(maxsize=1 << 12)
def _facts(opcode: str) -> _Facts:
    family, *words = opcode.split(".")
    has_result = family not in _WITHOUT_RESULT or (family in ("bar", "barrier") and "red" in words)
    has_result &= family != "tcgen05" or words[:1] == ["ld"]
    passes: PassesOn = "never"
    if family in _PACKS:
        passes = "all"
    elif family in _PASSES_ON or (family in ("wmma", "wgmma") and ("mma" in words or "mma_async" in words)):
        passes = "any"
    return _Facts(
        has_result and not (family == "wmma" and "store" in words),
        family == "call",
        family == "mov",
        passes,
        (
            family in ("ld", "ldmatrix", "shfl")
            or (family == "wmma" and "load" in words)
            or (family == "wgmma" and "mma_async" in words)
        )
        and not any(word in _ELSEWHERE or word.startswith("param") for word in words),
    )


class _Declared:
    """The registers declared in a function."""

    def __init__(self, function: Function) -> None:
        registers = [v for v in (*function.variables, *function.parameters, *function.results) if v.space == "reg"]
        self._single = {variable.name for variable in registers if not variable.parameterised}
        self._numbered = {variable.name for variable in registers if variable.parameterised}

    def __contains__(self, name: str) -> bool:
        if name in self._single:
            return True
        match = _NUMBERED.fullmatch(name)
        return match is not None and match[1] in self._numbered


def follows(instruction: Instruction) -> bool:
    """Return whether an instruction can load from shared or local memory, or read an absent lane."""
    return _facts(instruction.opcode).follows
