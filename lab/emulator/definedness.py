"""Which registers a program may read before it has written them, as far as its text tells.

A register of PTX holds nothing defined until it is written. Compilers leave such reads in their output where a value
does not matter, so that a read alone is no fault; a value that decides something is. This module finds the registers
that have to be watched for that: those that some path reaches unwritten, and whatever is computed from them.
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
"""Families whose result is undefined where an operand is."""

_PACKS = frozenset({"and", "or", "xor", "lop3", "shr", "shf", "prmt", "bfi", "bfe", "brev", "shfl"})
"""Families whose result is undefined where all registers that they read are: others may well leave the undefined bits
behind."""

_ELSEWHERE = ("global", "const")

PassesOn = Literal["never", "any", "all"]
"""Whether a result is undefined: never, where any operand is, or where all registers among the operands are."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The registers of one instruction.

    Attributes:
        writes: Those that it writes.
        reads: Those whose values it reads, guard and addresses left out.
        addresses: Those that it computes addresses from.
        passes_on: Whether what it writes is undefined where what it reads is.
    """

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    addresses: tuple[str, ...]
    passes_on: PassesOn


class Laid(Protocol):
    """What is asked of a program: `lab.emulator.program.Program`."""

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
        """Return the blocks of the same function that can follow a block."""


class Definedness:
    """The registers of a program that have to be watched.

    Attributes:
        unwritten: Function and name of each register that some path reads before anything has written it.
        watched: These, and those loaded from shared or local memory or computed from them.
    """

    def __init__(self, program: Laid) -> None:
        """Look at every path of every function."""
        self._program = program
        self._registers = [_Declared(function) for function in program.functions]
        self._names: dict[tuple[int, str], tuple[str, ...]] = {}
        self._deciding: dict[int, bool] = {}
        self._roles: list[Roles] = [self._read_roles(number, instruction) for number, instruction in program.code]
        self.unwritten = self._find_unwritten()
        self.watched = self._spread()

    @property
    def needed(self) -> bool:
        """Whether the program can read a register, or a byte of shared or local memory, that nothing has written."""
        program = self._program
        if self.unwritten or program.local_bytes > 0 or program.shared_variables:
            return True
        return any(instruction.opcode.startswith("shfl.") for _, instruction in program.code)

    def roles(self, position: int) -> Roles:
        """Return what an instruction does with its registers."""
        return self._roles[position]

    def decides(self, position: int) -> bool:
        """Return whether what an instruction writes decides anything: a branch, a guard, a store, another access.

        What is only computed and never used decides nothing. Each batch of each launch asks anew.
        """
        if position not in self._deciding:
            self._deciding[position] = self._decides(position)
        return self._deciding[position]

    def _decides(self, position: int) -> bool:
        known = set(self._roles[position].writes)
        number = self._program.code[position][0]
        others = [
            (instruction.predicate, self._roles[at])
            for at, (function, instruction) in enumerate(self._program.code)
            if function == number and at != position
        ]
        while known:
            found: set[str] = set()
            for predicate, roles in others:
                if predicate in known:
                    return True
                if known.intersection(roles.reads) or known.intersection(roles.addresses):
                    if not roles.writes:
                        return True
                    found.update(roles.writes)
            if found <= known:
                return False
            known |= found
        return False

    # --- one instruction --------------------------------------------------------------------------------------

    def _names_in(self, number: int, text: str) -> tuple[str, ...]:
        """Return the registers that an operand names."""
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
        """Return what is read where some path from the function's entry has not written it."""
        found: set[tuple[int, str]] = set()
        for number, function in enumerate(self._program.functions):
            if function.instructions and not self._calls_itself(number):
                given = {variable.name for variable in function.parameters if variable.space == "reg"}
                found |= {(number, name) for name in self._unwritten_in(number, given)}
        return frozenset(found)

    def _calls_itself(self, number: int) -> bool:
        return self._program.calls.recursive[number] >= 0

    def follows(self, position: int) -> bool:
        """Return whether what an instruction loads, or gets from another lane, is followed.

        Registers of functions that call themselves have one value for each call, which is not followed.
        """
        number, instruction = self._program.code[position]
        return follows(instruction) and not self._calls_itself(number)

    def _unwritten_in(self, number: int, given: set[str]) -> set[str]:
        """Return the registers of a function that it may read unwritten, by a forward analysis on bit sets."""
        program = self._program
        bits: dict[str, int] = {}
        blocks = {block.index: block for block in program.blocks if block.function == number}
        exposed: dict[int, int] = {}  # what a block reads before it writes it
        made: dict[int, int] = {}
        for block in blocks.values():
            exposed[block.index], made[block.index] = self._block(block, bits)
        entry, everything = program.entries[number], (1 << len(bits)) - 1
        before = dict.fromkeys(blocks, everything)
        before[entry] = sum(bits[name] for name in given if name in bits)
        todo, seen = [entry], {entry}
        while todo:
            index = todo.pop()
            after = before[index] | made[index]
            for target in program.successors(blocks[index]):
                narrowed = before[target] & after
                if target not in seen or narrowed != before[target]:
                    seen.add(target)
                    before[target] = narrowed
                    todo.append(target)
        unwritten = 0
        for index in seen:
            unwritten |= exposed[index] & ~before[index]
        return {name for name, bit in bits.items() if unwritten & bit}

    def _block(self, block: CodeBlock, bits: dict[str, int]) -> tuple[int, int]:
        """Return what a block reads before it writes it, and what it writes; `bits` gives each name its bit."""
        exposed = made = 0
        for position in range(block.first, block.stop if block.end is None else block.end + 1):
            roles, guard = self._roles[position], self._program.code[position][1].predicate
            for name in (*roles.reads, *roles.addresses, *((guard,) if guard else ())):
                exposed |= bits.setdefault(name, 1 << len(bits)) & ~made
            if guard is None:
                for name in roles.writes:
                    made |= bits.setdefault(name, 1 << len(bits))
        return exposed, made

    def _spread(self) -> frozenset[tuple[int, str]]:
        """Return the registers that may hold something undefined: a fixed point, whatever the order of execution."""
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
    """What an opcode says of its operands.

    Attributes:
        has_result: The first operand, unless it is an address, is written.
        call: It is written where it stands in parentheses.
        moves: A `mov`, which packs where its source is a list.
        passes_on: As in `Roles`.
        follows: It can load from shared or local memory, by a generic address perhaps, or read an absent lane.
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
    """The registers that a function declares."""

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
    """Return whether an instruction can load from shared or local memory, or read a lane that is not there."""
    return _facts(instruction.opcode).follows
