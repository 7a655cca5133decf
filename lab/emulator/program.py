"""A kernel with everything that it can call, laid out flat for the interpreter."""

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
"""Bytes of a thread's stack for functions that call themselves again, and for `alloca`."""

_STACK_ALIGNMENT = 16
_HANDLE_BYTES = 8  # of a texture, a sampler or a surface
_TENSOR_STORE = re.compile(r"cp\.(reduce\.)?async\.bulk\.tensor\.\dd\.global\.")

MAX_SHARED_BYTES = 227 * 1024
"""Shared memory of a block on the largest of today's GPUs."""

MAX_GLOBAL_BYTES = 1 << 34
"""The largest variable in global or constant memory: more than this machine has is a mistake, not a plan."""

_LIMITS = {"shared": MAX_SHARED_BYTES, "local": 512 * 1024, "frame": 64 * 1024, "kernel-param": 32764}
"""Bytes by place (CUDA programming guide, "Technical specifications per compute capability")."""

_NAMES = {
    "shared": "the shared memory of a block",
    "local": "the local memory of a thread",
    "frame": "what calls pass",
    "kernel-param": "what the kernel takes",
}

FRAME_POINTER, STACK_POINTER = "%frame pointer", "%stack pointer"
"""Hidden registers, which no PTX text can spell: where a function's frame begins, and where the stack ends."""


RegisterName = tuple[int, str]
"""A register: the function that it belongs to, and its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable lies.

    Attributes:
        space: `shared`, `local`, `stack` (local memory from a function's frame on), `frame` (parameters of device
            functions and calls) or `kernel-param`.
        offset: Byte offset in its space.
        size: Bytes.
    """

    space: str
    offset: int
    size: int


def size_of(variable: Variable) -> int:
    """Return the bytes of a variable; 0 for an unsized array."""
    return _element_bytes(variable) * variable.vector * (variable.count or 0)


def _element_bytes(variable: Variable) -> int:
    found = DTYPES.get(variable.type)
    if found is not None:
        return found.itemsize
    return 16 if variable.type == "b128" else _HANDLE_BYTES


def align_of(variable: Variable) -> int:
    """Return the alignment of a variable in bytes."""
    return variable.align or _element_bytes(variable) * variable.vector


NO_TEXTURES = "textures and surfaces are read by hardware that the emulator does not have"


def _declaration(variable: Variable) -> str:
    """Return how a variable was declared, in short."""
    vector = f".v{variable.vector} " if variable.vector > 1 else ""
    extent = "" if variable.count == 1 else f"[{'' if variable.count is None else variable.count}]"
    return f".{variable.space} {vector}.{variable.type} {variable.name}{extent}"


class Program:
    """Functions, blocks and memory layout of one kernel.

    Attributes:
        kernel: The entry function.
        calls: Who calls whom.
        functions: The kernel and every function that it can call.
        code: All instructions; a function's start at `offsets`.
        blocks: All basic blocks.
        entries: First block of each function.
        shared_bytes: Static shared memory.
        local_bytes: Local memory of a thread.
        frame_bytes: Parameter memory of calls, for a thread.
        param_bytes: The kernel's parameters.
        stack_start: Where in local memory a thread's stack begins.
        frames: Functions that take room on the stack, to its bytes.
    """

    def __init__(self, module: Module, name: str) -> None:
        """Collect the functions and lay out code and memory.

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

        def put(number: int, variable: Variable, space: str) -> None:
            offset = -(-sizes[space] // align_of(variable)) * align_of(variable)
            self.places[number, variable.name] = Place(space, offset, size_of(variable))
            sizes[space] = offset + size_of(variable)
            if sizes[space] > _LIMITS[space]:
                why = f"{_NAMES[space]} takes {sizes[space]} bytes; at most {_LIMITS[space]} are accepted"
                raise UnsupportedInstruction(variable.line, _declaration(variable), why)

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
        self._lay_stack()

    def _check_variables(self) -> None:
        """Refuse what no memory holds, and textures and surfaces where the kernel may use them.

        Raises:
            UnsupportedInstruction: with the line of the declaration.
        """
        for _, _, variable in self.memory_variables():
            if size_of(variable) > MAX_GLOBAL_BYTES:
                why = f"a variable has at most {MAX_GLOBAL_BYTES} bytes here"
                raise UnsupportedInstruction(variable.line, _declaration(variable), why)
        for function in self.functions:
            for variable in (*function.parameters, *function.results, *function.variables):
                if variable.type.endswith("ref"):
                    raise UnsupportedInstruction(variable.line, _declaration(variable), NO_TEXTURES)

    def _lay_stack(self) -> None:
        """Lay the local variables of functions that call themselves again on the stack, one frame for each call."""
        self.stack_start = -(-self.local_bytes // _STACK_ALIGNMENT) * _STACK_ALIGNMENT
        self.frames: dict[int, int] = {}
        for number, function in enumerate(self.functions):
            grows = any(one.opcode.startswith(("alloca", "stack")) for one in function.instructions)
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
        """Return the name under which a variable in global or constant memory is known, as a function names it."""
        if any(one.name == name and one.space in ("global", "const") for one in self.functions[number].variables):
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
        """Yield what needs a place: its function (-1 for the module), the variable and the space it is laid in."""
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
        """The names that operands begin with: registers, symbols and numbers."""
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
        leaves = family in ("ret", "exit", "trap", "brkpt", "bra", "brx")
        if block.following >= 0 and (instruction.predicate or not leaves):
            targets.append(block.following)
        return targets

    @cached_property
    def loops(self) -> tuple[LoopMix, ...]:
        """The natural loops of every function."""
        return tuple(loop for function in self.functions for loop in kernel_mix("ptx", function).loops)

    @cached_property
    def definedness(self) -> Definedness:
        """Which registers may be read before they are written."""
        return Definedness(self)

    @cached_property
    def flag_reads(self) -> Mapping[int, FlagUse]:
        """The volatile reads of flags."""
        return flag_reads(self)

    @cached_property
    def guess_reads(self) -> frozenset[int]:
        """The plain loads whose value an atomicCAS checks."""
        return guess_reads(self)

    def sinks_of(self, position: int) -> frozenset[int] | None:
        """Return the stores and atomics that alone use the value of a load; None where something else may use it."""
        if position not in self._sinks:
            instruction = self.code[position][1]
            uses = uses_of(self, position) if instruction.opcode.startswith("ld.") else None
            self._sinks[position] = uses.only_sinks if uses is not None else None
        return self._sinks[position]

    def stored_floats(self, position: int) -> int:
        """Return the bits of the floats that a store writes; 0 for other values."""
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
        """Return `Definedness.decides`; few programs have a wait whose result is asked after, and need that table."""
        return self.definedness.decides(position)

    @cached_property
    def has_async_proxy(self) -> bool:
        """Whether the program has mbarriers, bulk copies, or matrix instructions that read shared memory."""
        words = ("mbarrier.", "cp.async.bulk.", "cp.reduce.async.bulk.", "wgmma.", "tcgen05.")
        return any(instruction.opcode.startswith(words) for _, instruction in self.code)

    @cached_property
    def most_registers(self) -> int:
        """The most registers that any `setmaxnreg` gives a thread; 0 without one."""
        return max((count for _, one in self.code if (count := given_registers(one)) is not None), default=0)

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

    @cached_property
    def wgmma_operands(self) -> tuple[tuple[RegisterName, ...], ...]:
        """Which of `wgmma_registers` each instruction names; each batch of each launch asks for all of them anew."""
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
        """Where the variables in shared memory lie, the dynamic ones included."""
        return self.variables_in("shared")

    def variables_in(self, space: str) -> list[Place]:
        """Return where the variables of a space lie."""
        return [place for place in self.places.values() if place.space == space]

    @cached_property
    def depends_on_order(self) -> bool:
        """Return whether the order of blocks and warps may decide results although nothing races.

        It may where threads learn what others did without a barrier between them: by an atomic's result, by a load
        stronger than a plain one, by the mask of active lanes.
        """
        strong = {"volatile", "relaxed", "acquire", "mmio"}
        for _, instruction in self.code:
            family, *words = instruction.opcode.split(".")
            if family in ("atom", "activemask") or (family == "ld" and not strong.isdisjoint(words)):
                return True
        return False

    @cached_property
    def has_grid_sync(self) -> bool:
        """Whether the whole grid may meet: cooperative groups find their memory for that in %envreg1 and %envreg2."""
        return any("%envreg2" in instruction.operands for _, instruction in self.code)

    @cached_property
    def approximate(self) -> tuple[Approximation, ...]:
        """The instructions whose results may be off by a documented error, in listing order."""
        return tuple(
            Approximation(position, one.line, one.opcode, own_line(one), own_calls(one))
            for position, (_, one) in enumerate(self.code)
            if bounds_of(one.opcode)
        )

    @cached_property
    def machine_registers(self) -> frozenset[str]:
        """The registers it reads in which the hardware's choices show, such as %smid (`operands.MACHINE`)."""
        return frozenset(
            part
            for _, instruction in self.code
            for operand in instruction.operands
            for part in operands.elements(operand)
            if part in operands.MACHINE
        )

    @property
    def asks_machine(self) -> bool:
        """Return whether it reads special registers that the hardware chooses, such as %smid."""
        return bool(self.machine_registers)

    @cached_property
    def declares_clusters(self) -> bool:
        """Whether the kernel itself says that its blocks are in clusters."""
        return bool({"reqnctapercluster", "explicitcluster"} & self.kernel.directives.keys())

    @cached_property
    def asks_for_cluster(self) -> bool:
        """Whether it asks where it is in its cluster, or for another block of it."""
        return any(
            instruction.opcode.startswith("mapa") or any(one.startswith("%cluster_") for one in instruction.operands)
            for _, instruction in self.code
        )

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
        """The smallest width in bytes in which global memory can be touched, at most 4.

        It is 1 with tensor copies: where a box ends is a matter of elements, whose size their map alone knows.
        """
        if any(_TENSOR_STORE.match(instruction.opcode) for _, instruction in self.code):
            return 1
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
        found=name,
        accepted=names,
        suggestion=did_you_mean(name, names),
    )
