"""A kernel with all its callees, laid out flat for the interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lab.base.errors import UserError, did_you_mean
from lab.emulator import operands
from lab.emulator.approximations import Approximation, bounds_of
from lab.emulator.callgraph import CallGraph
from lab.emulator.control import CodeBlock, split, weak_topological_order
from lab.emulator.definedness import Definedness
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.flags import FlagUse, flag_reads, guess_reads
from lab.emulator.opcodes import DTYPES
from lab.emulator.rounding import stored_floats
from lab.emulator.sources import own_calls, own_line
from lab.emulator.uses import uses_of
from lab.emulator.vectors import with_vectors_expanded
from lab.isa.mix import LoopMix, kernel_mix
from lab.isa.model import Function, Instruction, Module, Variable
from lab.isa.ptx.module import read_ptx
from lab.isa.roles import given_registers

STACK_BYTES = 16384
"""Stack bytes per thread for recursive functions and `alloca`."""

_STACK_ALIGNMENT = 16
_HANDLE_BYTES = 8  # of a texture, a sampler or a surface
_TENSOR_STORE = re.compile(r"cp\.(reduce\.)?async\.bulk\.tensor\.\dd\.global\.")

MAX_SHARED_BYTES = 227 * 1024
"""The largest shared memory per block of current GPUs."""

MAX_GLOBAL_BYTES = 1 << 34
"""The largest variable in global or constant memory: more than the host has is a mistake."""

_LIMITS = {"shared": MAX_SHARED_BYTES, "local": 512 * 1024, "frame": 64 * 1024, "kernel-param": 32764}
"""Size limits by place (CUDA programming guide, "Technical specifications per compute capability")."""

_NAMES = {
    "shared": "the shared memory of a block",
    "local": "the local memory of a thread",
    "frame": "the parameter space of calls",
    "kernel-param": "the kernel's parameter space",
}

FRAME_POINTER, STACK_POINTER = "%frame pointer", "%stack pointer"
"""Hidden registers, not expressible in PTX: a function's frame pointer and the stack pointer."""


RegisterName = tuple[int, str]
"""A register: its function's number and its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a variable.

    Attributes:
        space: `shared`, `local`, `stack` (local memory at a function's frame), `frame` (parameters of device
            functions and calls) or `kernel-param`.
        offset: Byte offset in its space.
        size: Bytes.
    """

    space: str
    offset: int
    size: int


def size_of(variable: Variable) -> int:
    """Return a variable's size in bytes; 0 for an unsized array."""
    return _element_bytes(variable) * variable.vector * (variable.count or 0)


def _element_bytes(variable: Variable) -> int:
    dtype = DTYPES.get(variable.type)
    if dtype is not None:
        return dtype.itemsize
    return 16 if variable.type == "b128" else _HANDLE_BYTES


def align_of(variable: Variable) -> int:
    """Return a variable's alignment in bytes."""
    return variable.align or _element_bytes(variable) * variable.vector


NO_TEXTURES = "textures and surfaces need hardware that the emulator does not have"


def _declaration(variable: Variable) -> str:
    """Return a variable's declaration in short form."""
    vector = f".v{variable.vector} " if variable.vector > 1 else ""
    extent = "" if variable.count == 1 else f"[{'' if variable.count is None else variable.count}]"
    return f".{variable.space} {vector}.{variable.type} {variable.name}{extent}"


class Program:
    """Functions, blocks and memory layout of one kernel.

    Attributes:
        kernel: The entry function.
        calls: The call graph.
        functions: The kernel and every function it can call.
        code: All instructions; a function's start at `offsets`.
        blocks: All basic blocks.
        entries: First block of each function.
        shared_bytes: Static shared memory.
        local_bytes: Local memory of a thread.
        frame_bytes: Parameter memory of calls, for a thread.
        param_bytes: The kernel's parameters.
        stack_start: Offset of a thread's stack in local memory.
        frames: Stack bytes of each function that has a stack frame.
    """

    def __init__(self, module: Module, name: str) -> None:
        """Collect the functions, and lay out code and memory.

        Raises:
            UserError: no kernel has that name.
            UnsupportedInstruction: a function is called that is neither defined nor provided.
        """
        self.module = module
        self.kernel = _kernel(module, name)
        self.calls = CallGraph(module, self.kernel)
        self.functions = [with_vectors_expanded(function) for function in self.calls.functions]
        self.kernel = self.functions[0]
        self.code: list[tuple[int, Instruction]] = []
        self.offsets: list[int] = []
        self.blocks: list[CodeBlock] = []
        self.entries: list[int] = []
        self._lay_code()
        self._lay_memory()
        self._check_variables()

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

        def place_variable(number: int, variable: Variable, space: str) -> None:
            offset = -(-sizes[space] // align_of(variable)) * align_of(variable)
            self.places[number, variable.name] = Place(space, offset, size_of(variable))
            sizes[space] = offset + size_of(variable)
            if sizes[space] > _LIMITS[space]:
                reason = f"{_NAMES[space]} takes {sizes[space]} bytes; at most {_LIMITS[space]} are accepted"
                raise UnsupportedInstruction(variable.line, _declaration(variable), reason)

        self.dynamic_shared: list[tuple[int, Variable]] = []
        for number, variable, space in self._variables():
            if space == "shared" and (variable.external or variable.count is None):
                self.dynamic_shared.append((number, variable))
            else:
                place_variable(number, variable, space)
        self.static_shared_bytes = sizes["shared"]
        dynamic = -(-sizes["shared"] // 16) * 16
        for _, variable in self.dynamic_shared:
            dynamic = -(-dynamic // align_of(variable)) * align_of(variable)
        for number, variable in self.dynamic_shared:
            self.places[number, variable.name] = Place("shared", dynamic, 0)
        self.dynamic_offset = dynamic
        self.local_bytes, self.frame_bytes, self.param_bytes = sizes["local"], sizes["frame"], sizes["kernel-param"]
        self._lay_stack()

    def _check_variables(self) -> None:
        """Reject variables too large for any memory, and textures and surfaces the kernel may use.

        Raises:
            UnsupportedInstruction: with the line of the declaration.
        """
        for _, _, variable in self.memory_variables():
            if size_of(variable) > MAX_GLOBAL_BYTES:
                reason = f"a variable has at most {MAX_GLOBAL_BYTES} bytes here"
                raise UnsupportedInstruction(variable.line, _declaration(variable), reason)
        for function in self.functions:
            for variable in (*function.parameters, *function.results, *function.variables):
                if variable.type.endswith("ref"):
                    raise UnsupportedInstruction(variable.line, _declaration(variable), NO_TEXTURES)

    def _lay_stack(self) -> None:
        """Lay the local variables of recursive functions on the stack, one frame per call."""
        self.stack_start = -(-self.local_bytes // _STACK_ALIGNMENT) * _STACK_ALIGNMENT
        self.frames: dict[int, int] = {}
        for number, function in enumerate(self.functions):
            grows = any(instruction.opcode.startswith(("alloca", "stack")) for instruction in function.instructions)
            if self.calls.recursive[number] < 0:
                if grows and number:
                    self.frames[number] = 0
                continue
            size = 0
            for variable in function.variables:
                if variable.space == "local":
                    offset = -(-size // align_of(variable)) * align_of(variable)
                    self.places[number, variable.name] = Place("stack", offset, size_of(variable))
                    size = offset + size_of(variable)
                elif variable.space == "reg" and variable.type != "pred":
                    size += size_of(variable)  # on hardware, a call saves its registers there
            self.frames[number] = -(-max(size, 1) // _STACK_ALIGNMENT) * _STACK_ALIGNMENT
        allocates = any(instruction.opcode.startswith(("alloca", "stack")) for _, instruction in self.code)
        self.has_stack = bool(self.frames) or allocates
        if self.has_stack:
            self.local_bytes = self.stack_start + STACK_BYTES

    def symbol(self, number: int, name: str) -> str:
        """Return the unique name of a variable in global or constant memory, from a function's name for it."""
        if any(
            variable.name == name and variable.space in ("global", "const")
            for variable in self.functions[number].variables
        ):
            return f"{self.functions[number].name}::{name}"
        return name

    def memory_variables(self) -> Iterator[tuple[str, int, Variable]]:
        """Yield the variables in global and constant memory: name, function (-1 for the module) and declaration."""
        for variable in self.module.variables:
            if variable.space in ("global", "const"):
                yield variable.name, -1, variable
        for number, function in enumerate(self.functions):
            for variable in function.variables:
                if variable.space in ("global", "const"):
                    yield f"{function.name}::{variable.name}", number, variable

    def _variables(self) -> Iterator[tuple[int, Variable, str]]:
        """Yield variables that need a place: function (-1 for the module), variable and space."""
        used = self.names_used
        for variable in self.module.variables:
            if variable.space == "shared" and (variable.external or variable.count is None or variable.name in used):
                yield -1, variable, "shared"
        for number, function in enumerate(self.functions):
            for variable in function.parameters:
                if variable.space == "param":
                    yield number, variable, "kernel-param" if number == 0 else "frame"
            for variable in (*function.results, *function.variables):
                if variable.space == "local" and self.calls.recursive[number] >= 0:
                    continue
                if variable.space in ("param", "shared", "local"):
                    yield number, variable, "frame" if variable.space == "param" else variable.space

    @cached_property
    def names_used(self) -> set[str]:
        """The base names in operands: registers, symbols and numbers."""
        names: set[str] = set()
        for _, instruction in self.code:
            for operand in instruction.operands:
                for element in operands.elements(operand):
                    parsed = operands.address(element)
                    base = parsed.base if parsed else element.split("+")[0]
                    if base:
                        names.add(base)
        return names

    @cached_property
    def priority(self) -> list[int]:
        """The rank of each block in its function's weak topological order; unreachable blocks rank last."""
        import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

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
        """Return the successors of a block within its function."""
        if block.end is None:
            return [block.following] if block.following >= 0 else []
        number, instruction = self.code[block.end]
        targets = [
            self.block_at[self.offsets[number] + t]
            for t in instruction.targets
            if self.offsets[number] + t in self.block_at
        ]
        family = instruction.opcode.split(".")[0]
        leaves = family in ("ret", "exit", "trap", "brkpt", "bra", "brx")
        if block.following >= 0 and (instruction.predicate or not leaves):
            targets.append(block.following)
        return targets

    @cached_property
    def loops(self) -> tuple[LoopMix, ...]:
        """The natural loops of all functions."""
        return tuple(loop for function in self.functions for loop in kernel_mix("ptx", function).loops)

    @cached_property
    def definedness(self) -> Definedness:
        """The analysis of registers that may be read before they are written."""
        return Definedness(self)

    @cached_property
    def flag_reads(self) -> Mapping[int, FlagUse]:
        """The volatile reads of flags."""
        return flag_reads(self)

    @cached_property
    def guess_reads(self) -> frozenset[int]:
        """The plain loads whose value a later atomicCAS checks."""
        return guess_reads(self)

    def sinks_of(self, position: int) -> frozenset[int] | None:
        """Return the stores and atomics that use a load's value; None if it may have other uses."""
        if position not in self._sinks:
            instruction = self.code[position][1]
            uses = uses_of(self, position) if instruction.opcode.startswith("ld.") else None
            self._sinks[position] = uses.only_sinks if uses is not None else None
        return self._sinks[position]

    def stored_floats(self, position: int) -> int:
        """Return the bit width of the floats a store writes; 0 for other values."""
        if position not in self._floats:
            self._floats[position] = stored_floats(self, position)
        return self._floats[position]

    @cached_property
    def _floats(self) -> dict[int, int]:
        return {}

    @cached_property
    def _sinks(self) -> dict[int, frozenset[int] | None]:
        return {}

    def decides(self, position: int) -> bool:
        """Return `Definedness.decides`, whose analysis runs only for programs that need it."""
        return self.definedness.decides(position)

    @cached_property
    def has_async_proxy(self) -> bool:
        """Return whether the program has mbarriers, bulk copies or matrix instructions on shared memory."""
        words = ("mbarrier.", "cp.async.bulk.", "cp.reduce.async.bulk.", "wgmma.", "tcgen05.")
        return any(instruction.opcode.startswith(words) for _, instruction in self.code)

    @cached_property
    def most_registers(self) -> int:
        """The largest register count of any `setmaxnreg`; 0 without one."""
        return max(
            (count for _, instruction in self.code if (count := given_registers(instruction)) is not None), default=0
        )

    @cached_property
    def wgmma_registers(self) -> frozenset[RegisterName]:
        """The registers wgmma uses, and those copied from or to them."""
        registers: set[RegisterName] = set()
        copies: list[tuple[RegisterName, RegisterName]] = []
        for number, instruction in self.code:
            if instruction.opcode.startswith("wgmma.mma_async."):
                for text in instruction.operands[:2]:
                    if text.startswith("{"):
                        registers.update((number, name) for name in operands.elements(text))
            elif is_register_copy(instruction):
                target, source = instruction.operands
                copies.append(((number, target), (number, source)))
        before = -1 if registers else 0
        while before != len(registers):
            before = len(registers)
            for pair in copies:
                if not registers.isdisjoint(pair):
                    registers.update(pair)
        return frozenset(registers)

    @cached_property
    def wgmma_operands(self) -> tuple[tuple[RegisterName, ...], ...]:
        """The `wgmma_registers` in each instruction's operands."""
        shared = self.wgmma_registers
        return tuple(
            tuple(
                (number, name)
                for text in instruction.operands
                for name in operands.elements(text)
                if (number, name) in shared
            )
            for number, instruction in self.code
        )

    @cached_property
    def tensor_registers(self) -> frozenset[RegisterName]:
        """Registers that tcgen05.ld writes, and those that are computed from them."""
        held: set[RegisterName] = set()
        loads = [at for at, (_, one) in enumerate(self.code) if one.opcode.startswith("tcgen05.ld.")]
        for at in loads:
            held.update((self.code[at][0], name) for name in self.definedness.roles(at).writes)
        before = -1 if held else 0
        while before != len(held):
            before = len(held)
            for at, (number, _) in enumerate(self.code):
                roles = self.definedness.roles(at)
                if any((number, name) in held for name in roles.reads):
                    held.update((number, name) for name in roles.writes)
        return frozenset(held)

    def tensor_operands(self, position: int) -> tuple[tuple[RegisterName, ...], tuple[RegisterName, ...]]:
        """Return which of `tensor_registers` an instruction reads, and which it writes."""
        number, roles = self.code[position][0], self.definedness.roles(position)
        reads, writes = (
            tuple(name for text in texts if (name := (number, text)) in self.tensor_registers)
            for texts in ((*roles.reads, *roles.addresses), roles.writes)
        )
        return reads, writes

    @property
    def shared_variables(self) -> list[Place]:
        """The places of variables in shared memory, dynamic ones included."""
        return self.variables_in("shared")

    def variables_in(self, space: str) -> list[Place]:
        """Return the places of the variables in a space."""
        return [place for place in self.places.values() if place.space == space]

    @cached_property
    def depends_on_order(self) -> bool:
        """Return whether results may depend on the order of blocks and warps without a race.

        They may where threads observe others without a barrier: by an atomic's result, by a strong load, or by the mask
        of active lanes.
        """
        strong = {"volatile", "relaxed", "acquire", "mmio"}
        for _, instruction in self.code:
            family, *words = instruction.opcode.split(".")
            if family in ("atom", "activemask") or (family == "ld" and not strong.isdisjoint(words)):
                return True
        return False

    @cached_property
    def has_grid_sync(self) -> bool:
        """Return whether the kernel may sync the whole grid: cooperative groups use %envreg1 and %envreg2."""
        return any("%envreg2" in instruction.operands for _, instruction in self.code)

    @cached_property
    def approximate(self) -> tuple[Approximation, ...]:
        """The instructions with a documented result error, in listing order."""
        return tuple(
            Approximation(position, instruction.line, instruction.opcode, own_line(instruction), own_calls(instruction))
            for position, (_, instruction) in enumerate(self.code)
            if bounds_of(instruction.opcode)
        )

    @cached_property
    def machine_registers(self) -> frozenset[str]:
        """The registers read that show hardware choices, such as %smid (`operands.MACHINE`)."""
        return frozenset(
            element
            for _, instruction in self.code
            for operand in instruction.operands
            for element in operands.elements(operand)
            if element in operands.MACHINE
        )

    @property
    def asks_machine(self) -> bool:
        """Return whether the program reads special registers the hardware chooses, such as %smid."""
        return bool(self.machine_registers)

    @cached_property
    def declares_clusters(self) -> bool:
        """Return whether the kernel declares its own cluster size."""
        return bool({"reqnctapercluster", "explicitcluster"} & self.kernel.directives.keys())

    @cached_property
    def asks_for_cluster(self) -> bool:
        """Return whether the program reads cluster registers or maps addresses of other blocks."""
        return any(
            instruction.opcode.startswith("mapa")
            or any(operand.startswith("%cluster_") for operand in instruction.operands)
            for _, instruction in self.code
        )

    @cached_property
    def has_narrow_order(self) -> bool:
        """Return whether some fence or atomic has block scope."""
        return any(
            "cta" in parts and family in ("ld", "st", "atom", "red", "fence", "membar")
            for _, instruction in self.code
            for family, *parts in [instruction.opcode.split(".")]
        )

    @cached_property
    def shared_granule(self) -> int:
        """The smallest access width to shared memory in bytes, at most 4."""
        return self._granule({"global", "param", "local", "const"})

    @cached_property
    def global_granule(self) -> int:
        """The smallest access width to global memory in bytes, at most 4.

        It is 1 with tensor copies: a box ends at an element boundary, and only the tensor map has the element size.
        """
        if any(_TENSOR_STORE.match(instruction.opcode) for _, instruction in self.code):
            return 1
        return self._granule({"shared", "shared::cta", "shared::cluster", "param", "local", "const"})

    def _granule(self, other_spaces: set[str]) -> int:
        """Return the smallest access width, at most 4, without accesses to other spaces."""
        width = 4
        for _, instruction in self.code:
            family, *parts = instruction.opcode.split(".")
            if family not in ("ld", "st", "atom", "red", "wmma") or not other_spaces.isdisjoint(parts):
                continue
            width = min(
                [width, *(DTYPES[modifier].itemsize for modifier in parts if modifier in DTYPES and modifier != "pred")]
            )
        return width


def is_register_copy(instruction: Instruction) -> bool:
    """Return whether an instruction is a plain register copy."""
    family, *words = instruction.opcode.split(".")
    if family != "mov" or len(words) != 1 or len(instruction.operands) != 2:  # noqa: PLR2004  target and source
        return False
    return all(text.startswith("%") and "." not in text for text in instruction.operands)


@lru_cache(maxsize=4)
def program_of(text: str, kernel: str) -> Program:
    """Return the program of a kernel in a PTX text, from a small cache: texts are launched repeatedly.

    Raises:
        ReaderError: The text is not PTX.
        UserError: no kernel has that name.
        UnsupportedInstruction: a function is called that is neither defined nor provided.
    """
    return Program(_module_of(text), kernel)


@lru_cache(maxsize=1)
def _module_of(text: str) -> Module:
    return read_ptx(text)


def _kernel(module: Module, name: str) -> Function:
    for function in module.kernels:
        if function.name == name:
            return function
    names = [function.name for function in module.kernels]
    raise UserError(
        "the PTX has no such kernel",
        code="unknown-name",
        found=name,
        accepted=names,
        suggestion=did_you_mean(name, names),
    )
