"""A kernel with everything that it can call, laid out flat for the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import networkx as nx

from lab.base.errors import UserError, did_you_mean
from lab.emulator import operands
from lab.emulator.control import CodeBlock, split, weak_topological_order
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.opcodes import DTYPES
from lab.isa.mix import LoopMix, kernel_mix
from lab.isa.model import Function, Instruction, Module, Variable
from lab.isa.ptx.module import read_ptx

IGNORED_CALLS = ("vprintf",)
ASSERTION = "__assertfail"  # what a failed assert() calls


RegisterName = tuple[int, str]
"""A register: the function that it belongs to, and its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable lies.

    Attributes:
        space: `shared`, `local`, `frame` (parameters of device functions and calls) or `kernel-param`.
        offset: Byte offset in its space.
        size: Bytes.
    """

    space: str
    offset: int
    size: int


def size_of(variable: Variable) -> int:
    """Return the bytes of a variable; 0 for an unsized array."""
    return DTYPES[variable.type].itemsize * variable.vector * (variable.count or 0)


def align_of(variable: Variable) -> int:
    """Return the alignment of a variable in bytes."""
    return variable.align or DTYPES[variable.type].itemsize * variable.vector


def text_of(instruction: Instruction) -> str:
    """Return an instruction as PTX text."""
    guard = f"@{'!' if instruction.negated else ''}{instruction.predicate} " if instruction.predicate else ""
    return f"{guard}{instruction.opcode} {', '.join(instruction.operands)}".strip()


class Program:
    """Functions, blocks and memory layout of one kernel.

    Attributes:
        kernel: The entry function.
        functions: The kernel and every function that it can call, callees later.
        code: All instructions; a function's start at `offsets`.
        blocks: All basic blocks.
        entries: First block of each function.
        shared_bytes: Static shared memory.
        local_bytes: Local memory of a thread.
        frame_bytes: Parameter memory of calls, for a thread.
        param_bytes: The kernel's parameters.
    """

    def __init__(self, module: Module, name: str) -> None:
        """Collect the functions and lay out code and memory.

        Raises:
            UserError: no kernel has that name.
            UnsupportedInstruction: recursion, or an indirect call.
        """
        self.module = module
        self.kernel = _kernel(module, name)
        self.functions = self._reachable()
        self.code: list[tuple[int, Instruction]] = []
        self.offsets: list[int] = []
        self.blocks: list[CodeBlock] = []
        self.entries: list[int] = []
        self._lay_code()
        self._lay_memory()

    def _reachable(self) -> list[Function]:
        by_name = {function.name: function for function in self.module.functions}
        calls = nx.DiGraph()
        calls.add_node(self.kernel.name)
        todo = [self.kernel]
        while todo:
            function = todo.pop()
            for instruction in function.instructions:
                name = callee(instruction)
                if name is None or name in (*IGNORED_CALLS, ASSERTION):
                    continue
                if name not in by_name:
                    raise UnsupportedInstruction(
                        instruction.line, text_of(instruction), f"{name} is not defined in this PTX"
                    )
                if name not in calls:
                    todo.append(by_name[name])
                calls.add_edge(function.name, name)
        if not nx.is_directed_acyclic_graph(calls):
            raise UnsupportedInstruction(self.kernel.instructions[0].line, self.kernel.name, "recursive functions")
        return [by_name[name] for name in nx.topological_sort(calls)]

    def _lay_code(self) -> None:
        for number, function in enumerate(self.functions):
            self.offsets.append(len(self.code))
            self.entries.append(len(self.blocks))
            if function.instructions:
                self.blocks += split(function, number, len(self.blocks), len(self.code))
            self.code += [(number, instruction) for instruction in function.instructions]
        self.block_at = {block.first: block.index for block in self.blocks}

    def _lay_memory(self) -> None:
        self.places: dict[tuple[int, str], Place] = {}
        sizes = {"shared": 0, "local": 0, "frame": 0, "kernel-param": 0}

        def put(number: int, variable: Variable, space: str) -> None:
            offset = -(-sizes[space] // align_of(variable)) * align_of(variable)
            self.places[number, variable.name] = Place(space, offset, size_of(variable))
            sizes[space] = offset + size_of(variable)

        self.dynamic_shared: list[tuple[int, Variable]] = []
        for number, variable, space in self._variables():
            if space == "shared" and (variable.external or variable.count is None):
                self.dynamic_shared.append((number, variable))
            else:
                put(number, variable, space)
        self.static_shared_bytes = sizes["shared"]
        dynamic = -(-sizes["shared"] // 16) * 16
        for _, variable in self.dynamic_shared:
            dynamic = -(-dynamic // align_of(variable)) * align_of(variable)
        for number, variable in self.dynamic_shared:
            self.places[number, variable.name] = Place("shared", dynamic, 0)
        self.dynamic_offset = dynamic
        self.local_bytes, self.frame_bytes, self.param_bytes = sizes["local"], sizes["frame"], sizes["kernel-param"]

    def _variables(self) -> Iterator[tuple[int, Variable, str]]:
        """Yield what needs a place: its function (-1 for the module), the variable and the space it is laid in."""
        used = self._names_used
        for variable in self.module.variables:
            if variable.space == "shared" and (variable.external or variable.count is None or variable.name in used):
                yield -1, variable, "shared"
        for number, function in enumerate(self.functions):
            for variable in function.parameters:
                yield number, variable, "kernel-param" if function.entry else "frame"
            for variable in (*function.results, *function.variables):
                if variable.space in ("param", "shared", "local"):
                    yield number, variable, "frame" if variable.space == "param" else variable.space

    @cached_property
    def _names_used(self) -> set[str]:
        names: set[str] = set()
        for _, instruction in self.code:
            for operand in instruction.operands:
                for part in operands.elements(operand):
                    found = operands.address(part)
                    base = found.base if found else part.split("+")[0]
                    if base:
                        names.add(base)
        return names

    @cached_property
    def priority(self) -> list[int]:
        """Rank of each block in its function's weak topological order; blocks that are never reached come last."""
        ranks = [len(self.blocks)] * len(self.blocks)
        for number, entry in enumerate(self.entries):
            if not self.functions[number].instructions:
                continue
            graph = nx.DiGraph()
            for block in self.blocks:
                if block.function == number:
                    graph.add_node(block.index)
                    graph.add_edges_from((block.index, target) for target in self.successors(block))
            for rank, index in enumerate(weak_topological_order(graph, entry)):
                ranks[index] = rank
        return ranks

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the blocks of the same function that can follow a block."""
        if block.end is None:
            return [block.following] if block.following >= 0 else []
        number, instruction = self.code[block.end]
        targets = [
            self.block_at[self.offsets[number] + t]
            for t in instruction.targets
            if self.offsets[number] + t in self.block_at
        ]
        family = instruction.opcode.split(".")[0]
        leaves = family in ("ret", "exit", "trap", "bra", "brx")
        if block.following >= 0 and (instruction.predicate or not leaves):
            targets.append(block.following)
        return targets

    @cached_property
    def loops(self) -> tuple[LoopMix, ...]:
        """The natural loops of every function."""
        return tuple(loop for function in self.functions for loop in kernel_mix("ptx", function).loops)

    @cached_property
    def has_async_proxy(self) -> bool:
        """Whether the program has mbarriers, bulk copies, or matrix instructions that read shared memory."""
        words = ("mbarrier.", "cp.async.bulk.", "cp.reduce.async.bulk.", "wgmma.")
        return any(instruction.opcode.startswith(words) for _, instruction in self.code)

    @cached_property
    def wgmma_registers(self) -> frozenset[RegisterName]:
        """Registers that wgmma uses, and those that are copied from or to them."""
        found: set[RegisterName] = set()
        copies: list[tuple[RegisterName, RegisterName]] = []
        for number, instruction in self.code:
            if instruction.opcode.startswith("wgmma.mma_async."):
                for text in instruction.operands[:2]:
                    if text.startswith("{"):
                        found.update((number, name) for name in operands.elements(text))
            elif is_register_copy(instruction):
                target, source = instruction.operands
                copies.append(((number, target), (number, source)))
        before = -1 if found else 0
        while before != len(found):
            before = len(found)
            for pair in copies:
                if not found.isdisjoint(pair):
                    found.update(pair)
        return frozenset(found)

    @property
    def shared_variables(self) -> list[Place]:
        """Where the variables in shared memory lie, the dynamic ones included."""
        return [place for place in self.places.values() if place.space == "shared"]

    @cached_property
    def has_grid_sync(self) -> bool:
        """Whether the whole grid may meet: cooperative groups find their memory for that in %envreg1 and %envreg2."""
        return any("%envreg2" in instruction.operands for _, instruction in self.code)

    @cached_property
    def has_narrow_order(self) -> bool:
        """Whether some fence or atomic orders the threads of one block alone."""
        return any(
            "cta" in parts and family in ("ld", "st", "atom", "red", "fence", "membar")
            for _, instruction in self.code
            for family, *parts in [instruction.opcode.split(".")]
        )

    @cached_property
    def shared_granule(self) -> int:
        """The smallest width in bytes in which shared memory can be touched, at most 4."""
        return self._granule({"global", "param", "local", "const"})

    @cached_property
    def global_granule(self) -> int:
        """The smallest width in bytes in which global memory can be touched, at most 4."""
        return self._granule({"shared", "shared::cta", "shared::cluster", "param", "local", "const"})

    def _granule(self, others: set[str]) -> int:
        """Return the smallest width of accesses, at most 4, but of those to other spaces."""
        width = 4
        for _, instruction in self.code:
            family, *parts = instruction.opcode.split(".")
            if family not in ("ld", "st", "atom", "red", "wmma") or not others.isdisjoint(parts):
                continue
            width = min([width, *(DTYPES[part].itemsize for part in parts if part in DTYPES and part != "pred")])
        return width


def is_register_copy(instruction: Instruction) -> bool:
    """Return whether an instruction copies one register to another one, and does no more."""
    family, *words = instruction.opcode.split(".")
    if family != "mov" or len(words) != 1 or len(instruction.operands) != 2:  # noqa: PLR2004  target and source
        return False
    return all(text.startswith("%") and "." not in text for text in instruction.operands)


@lru_cache(maxsize=4)
def program_of(text: str, kernel: str) -> Program:
    """Return the program of one kernel of a PTX text; the last ones are kept, since a text is launched repeatedly.

    Raises:
        ReaderError: The text is not PTX.
        UserError: no kernel has that name.
        UnsupportedInstruction: recursion, or an indirect call.
    """
    return Program(_module_of(text), kernel)


@lru_cache(maxsize=1)
def _module_of(text: str) -> Module:
    return read_ptx(text)


def callee(instruction: Instruction) -> str | None:
    """Return the function that a call names; None for other instructions.

    Raises:
        UnsupportedInstruction: an indirect call.
    """
    if instruction.opcode.split(".")[0] != "call":
        return None
    names = [part for part in instruction.operands if not part.startswith("(")]
    if names[0].startswith("%"):
        raise UnsupportedInstruction(instruction.line, text_of(instruction), "an indirect call")
    return names[0]


def _kernel(module: Module, name: str) -> Function:
    for function in module.kernels:
        if function.name == name:
            return function
    names = [function.name for function in module.kernels]
    raise UserError(
        "the PTX has no such kernel",
        found=name,
        accepted=names,
        suggestion=did_you_mean(name, names),
    )
