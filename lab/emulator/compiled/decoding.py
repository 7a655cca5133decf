"""Decoding of a program for the code generator: forms, registers, liveness and unsupported features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.emulator import operands
from lab.emulator.batch import make_batch
from lab.emulator.binding import CARRY, SINK, OperandBinder, Storage
from lab.emulator.callgraph import call_of
from lab.emulator.control import CodeBlock
from lab.emulator.errors import UnsupportedInstruction, text_of
from lab.emulator.instructions import decoded_operands
from lab.emulator.memory.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign
from lab.emulator.operations.spaces import take_space
from lab.emulator.operations.table import ALU
from lab.emulator.program import Program
from lab.emulator.registers import RegisterFile
from lab.emulator.special import StepClock, special_registers
from lab.isa.model import Instruction
from lab.isa.ptx.constants import integer

_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "unified", "L1::evict_normal", "L1::evict_unchanged",
    "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip
_NOTHING = ("prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "membar", "pmevent", "fence")
_REGISTER = re.compile(r"[%\w$.]+")
_WIDEST = 16
_COMMUTATIVE = {
    "add": ("u32", "s32", "u64", "s64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
"""Commutative atomic operations, whose result does not depend on their order."""


class NotCompiled(Exception):  # noqa: N818  the launch goes to the interpreter
    """Raised when a launch needs a feature the compiled engine lacks."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on registers.

    Attributes:
        alu: The operation.
        outs: Destinations.
        ins: Sources.
    """

    alu: Alu
    outs: tuple[str, ...]
    ins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A load, a store or an atomic operation without a result.

    Attributes:
        kind: `load`, `store` or `atomic`.
        space: `global`, `shared`, `local`, `const`, `generic` or `kernel-param`.
        address: The address operand.
        registers: Destinations, or sources.
        t: PTX type of an element.
        update: The atomic operation: a key of `_COMMUTATIVE`.
    """

    kind: str
    space: str
    address: str
    registers: tuple[str, ...]
    t: str
    update: str = ""


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """One cp.async, executed synchronously.

    Attributes:
        target: Address operand in shared memory.
        source: Address operand in global memory.
        size: Bytes of a lane's copy.
        read: Operand with the number of bytes to read, the rest being zeros; None for all.
    """

    target: str
    source: str
    size: int
    read: str | None


@dataclass(frozen=True, slots=True)
class WarpOperation:
    """A shuffle, vote or `activemask`.

    Attributes:
        kind: `up`, `down`, `bfly`, `idx`; `all`, `any`, `uni`, `ballot`; or `active`.
        outs: Destination, and the predicate after it if there is one.
        ins: Sources: value, lane and clamp of a shuffle; the predicate of a vote.
        members: Operand with the lanes that take part.
    """

    kind: str
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    members: str


@dataclass(frozen=True, slots=True)
class CopyGroups:
    """A commit or wait of cp.async groups. It has no effect on values, as copies are synchronous.

    Attributes:
        commits: It commits the copies since the last group.
        left: The number of groups that may stay pending after the wait; None where it does not wait.
    """

    commits: bool
    left: int | None


@dataclass(frozen=True, slots=True)
class Nothing:
    """An instruction without an effect on values."""


Decoded = Operation | MemoryAccess | AsyncCopy | CopyGroups | WarpOperation | Nothing


class Decoder:
    """The decoded instructions of one kernel.

    Attributes:
        program: The kernel.
        decoded: All instructions except terminators, by position.
        live: For each block, the live registers at its entry.
        loose: Registers that only hold loose floats, see `Form`.
        ordered: A sum of floats depends on the order of blocks.
    """

    def __init__(self, program: Program, symbols: dict[str, int]) -> None:
        """Decode every reachable instruction.

        Args:
            program: The kernel.
            symbols: Addresses of module variables.

        Raises:
            NotCompiled: something is not supported.
        """
        self.program = program
        batch = make_batch((1, 1, 1), (1, 1, 1), 0, 1)
        self._registers = RegisterFile(program, 1)
        self.special = special_registers(batch, 0, 0)
        self._storage = Storage(program, batch, self._registers, self.special, symbols, StepClock())
        self._symbols = symbols
        if len(program.functions) != 1 or any(call_of(instruction) for _, instruction in program.code):
            raise NotCompiled("calls of functions")
        if any(variable.space in ("global", "const") for variable in program.kernel.variables):
            raise NotCompiled("variables of the kernel in global or constant memory")
        self.blocks = [block for block in program.blocks if program.priority[block.index] < len(program.blocks)]
        self.ordered = False
        self._read: set[str] = set()
        for block in self.blocks:
            for position in (*range(block.first, block.stop), *([] if block.end is None else [block.end])):
                self._note_reads(program.code[position][1])
        self.decoded: dict[int, Decoded] = {}
        for block in self.blocks:
            for position in range(block.first, block.stop):
                self.decoded[position] = self._decode(position)
            self._check_end(block)
        self.live = self._liveness()
        self.loose = self._loose()

    # --- names ------------------------------------------------------------------------------------------------

    def type_of(self, name: str) -> str | None:
        """Return a register's declared type; None for other names."""
        if name == CARRY:
            return "pred"
        if name in self.special:
            return None
        return self._registers.type_of(0, name)

    def binder(self, position: int) -> OperandBinder:
        """Return the binder for an instruction's literals and symbols."""
        return self._storage.at(position)

    def constant(self, position: int, text: str, t: str) -> int:
        """Return the bits of a literal or a symbol's address in type t.

        Raises:
            NotCompiled: it is neither.
        """
        if text in operands.CLOCKS:
            raise self._refused(position, f"operand {text}")
        try:
            array, _ = self.binder(position).array(text, t)
        except (UnknownForm, UnsupportedInstruction) as error:
            raise NotCompiled(str(error)) from error
        if t == "pred":
            return int(array[0])
        return int(np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")[0])

    def place(self, position: int, text: str) -> tuple[str | None, int, str | None]:
        """Return an address operand's base register (or None), offset and, for symbols, state space.

        The offset includes the symbol's address in its own space.
        """
        parsed = operands.address(text)
        if parsed is None:
            raise self._refused(position, f"address {text}")
        if parsed.base is None:
            return None, parsed.offset, None
        if parsed.base in self.special:
            raise self._refused(position, f"address {text}")
        if self.type_of(parsed.base) is not None:
            return parsed.base, parsed.offset, None
        for scope in (0, -1):
            place = self.program.places.get((scope, parsed.base))
            if place is not None:
                return None, place.offset + parsed.offset, place.space
        if parsed.base not in self._symbols:
            raise self._refused(position, f"address {text}")
        return None, self._symbols[parsed.base] + parsed.offset, "global"

    def _refused(self, position: int, reason: str) -> NotCompiled:
        instruction = self.program.code[position][1]
        return NotCompiled(f"PTX line {instruction.line}: {text_of(instruction)}: {reason}")

    def _note_reads(self, instruction: Instruction) -> None:
        """Record the names an instruction reads; over-approximating is safe."""
        family = instruction.opcode.split(".")[0]
        skip = 0 if family in ("st", "red", "bar", "barrier") else 1
        for text in instruction.operands[skip:]:
            self._read.update(_REGISTER.findall(text))

    # --- instructions -----------------------------------------------------------------------------------------

    def _decode(self, position: int) -> Decoded:
        instruction = self.program.code[position][1]
        op = Opcode(instruction.opcode)
        try:
            if op.family in ("ld", "ldu", "st"):
                return self._access(position, instruction, op)
            if op.family in ("atom", "red"):
                return self._atomic(position, instruction, op)
            if op.family == "cp":
                return _copy(instruction, op)
            if op.family in ("shfl", "vote", "activemask"):
                return _of_warp(instruction, op)
            if op.family in _NOTHING or instruction.opcode in ("bar.warp.sync", "barrier.warp.sync"):
                return Nothing()
            return _operation(instruction, op)
        except UnknownForm as error:
            raise self._refused(position, str(error)) from error
        except (ValueError, IndexError) as error:
            raise self._refused(position, "unexpected operands") from error

    def _access(self, position: int, instruction: Instruction, op: Opcode) -> MemoryAccess:
        if len(instruction.operands) != 2:  # noqa: PLR2004  register and address
            raise UnknownForm("a cache policy")
        load = op.family != "st"
        value, address = instruction.operands if load else instruction.operands[::-1]
        if op.flag("volatile") or op.flag("relaxed") or op.flag("acquire") or op.flag("release"):
            raise UnknownForm("a volatile or ordered access")
        space = self.binder(position).parameter_space(address, take_space(op))
        for hint in _HINTS:
            op.flag(hint)
        count = int(op.one_of(("v2", "v4"), "v1")[1:])
        t = op.type()
        op.finish()
        registers = operands.elements(value)
        if len(registers) != count or count * DTYPES[t].itemsize > _WIDEST or t == "pred":
            raise UnknownForm(f"{len(registers)} registers")
        if space not in ("global", "shared", "local", "const", "generic", "kernel-param"):
            raise UnknownForm(f".{space}")
        base, _, own = self.place(position, address)
        if space == "kernel-param" and (base is not None or not load):
            raise UnknownForm("a parameter at an address in a register")
        if space == "generic" and own not in (None, "global"):
            raise UnknownForm("a generic access to a variable")
        return MemoryAccess("load" if load else "store", space, address, registers, t)

    def _atomic(self, position: int, instruction: Instruction, op: Opcode) -> MemoryAccess:
        texts = list(instruction.operands)
        result = texts.pop(0) if op.family == "atom" else SINK
        if result != SINK and result in self._read:
            raise UnknownForm("the result of an atomic depends on the order of threads")
        for word in ("relaxed", "gpu", "sys"):
            op.flag(word)
        narrow = op.flag("cta")
        space = take_space(op)
        if narrow and space != "shared":
            raise UnknownForm("a block-scoped update of global memory")
        update = op.one_of(tuple(_COMMUTATIVE))
        floats = ("f32", "f64") if update == "add" else ()
        t = op.one_of((*_COMMUTATIVE[update], *floats))
        if t in floats:
            self._take_order(position)
        op.finish()
        if len(texts) != 2 or space not in ("global", "shared"):  # noqa: PLR2004  address and value
            raise UnknownForm(f".{space}")
        return MemoryAccess("atomic", space, texts[0], (texts[1],), t, update)

    def _take_order(self, position: int) -> None:
        """Record that the order of blocks matters: both engines use one order for updates done at most once.

        Raises:
            UnknownForm: it may execute repeatedly, or there is more than one.
        """
        if self.ordered:
            raise UnknownForm("a second sum of floats, which depends on the order of threads")
        block = next(block for block in self.blocks if block.first <= position < block.stop)
        todo, visited = [*self.program.successors(block)], set[int]()
        while todo:
            number = todo.pop()
            if number not in visited:
                visited.add(number)
                todo += self.program.successors(self.program.blocks[number])
        if block.index in visited:
            raise UnknownForm("a sum of floats in a loop, which depends on the order of threads")
        self.ordered = True

    def _check_end(self, block: CodeBlock) -> None:
        if block.end is None:
            return
        instruction = self.program.code[block.end][1]
        family, *parts = instruction.opcode.split(".")
        if family in ("bar", "barrier"):
            plain = [modifier for modifier in parts if modifier not in ("cta", "aligned")] == ["sync"]
            if not plain or len(instruction.operands) != 1 or operands.literal(instruction.operands[0]) is None:
                raise self._refused(block.end, "this form of barrier")
            if block.following < 0:
                raise self._refused(block.end, "a barrier at the end")
        elif family not in ("bra", "ret", "exit", "trap"):
            raise self._refused(block.end, "this terminator")

    # --- what registers hold ----------------------------------------------------------------------------------

    def names_in(self, texts: Iterable[str]) -> list[str]:
        """Return the registers in some operands."""
        names = [name for text in texts for name in _REGISTER.findall(text)]
        return [name for name in names if name not in self.special and self.type_of(name) is not None]

    def reads(self, position: int) -> list[str]:
        """Return the registers that an instruction reads, guard included."""
        instruction = self.program.code[position][1]
        guard = [instruction.predicate] if instruction.predicate else []
        decoded = self.decoded.get(position)
        if isinstance(decoded, Operation):
            return self.names_in((*guard, *decoded.ins))
        if isinstance(decoded, MemoryAccess):
            sources = () if decoded.kind == "load" else decoded.registers
            return self.names_in((*guard, decoded.address, *sources))
        if isinstance(decoded, AsyncCopy):
            return self.names_in((*guard, decoded.target, decoded.source, decoded.read or ""))
        if isinstance(decoded, WarpOperation):
            return self.names_in((*guard, *decoded.ins, decoded.members))
        return self.names_in(guard)

    def writes(self, position: int) -> tuple[str, ...]:
        """Return the registers that an instruction writes."""
        decoded = self.decoded.get(position)
        if isinstance(decoded, Operation | WarpOperation):
            outs: Sequence[str] = decoded.outs
        elif isinstance(decoded, MemoryAccess) and decoded.kind == "load":
            outs = decoded.registers
        else:
            return ()
        return tuple(out for out in outs if out != SINK)

    def _liveness(self) -> dict[int, frozenset[str]]:
        used: dict[int, set[str]] = {}
        killed: dict[int, set[str]] = {}
        for block in self.blocks:
            use, kill = set[str](), set[str]()
            for position in (*range(block.first, block.stop), *([] if block.end is None else [block.end])):
                use.update(name for name in self.reads(position) if name not in kill)
                if self.program.code[position][1].predicate is None:
                    kill.update(self.writes(position))
                else:
                    use.update(name for name in self.writes(position) if name not in kill)
            used[block.index], killed[block.index] = use, kill
        follow = {block.index: self.program.successors(block) for block in self.blocks}
        live = {block.index: frozenset(used[block.index]) for block in self.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                after = frozenset[str]().union(*(live.get(s, frozenset()) for s in follow[block.index]))
                new = frozenset(used[block.index] | (after - killed[block.index]))
                if new != live[block.index]:
                    live[block.index], changed = new, True
        return live

    def live_after(self, block: CodeBlock) -> frozenset[str]:
        """Return the registers live after a block."""
        after = (self.live.get(s, frozenset()) for s in self.program.successors(block))
        return frozenset[str]().union(*after)

    def _loose(self) -> frozenset[str]:
        """Return the registers written only by operations with loose results, or by copies of such registers."""
        loose = {name for position in self.decoded for name in self.writes(position)}
        changed = True
        while changed:
            changed = False
            for position, decoded in self.decoded.items():
                for name in self.writes(position):
                    if name in loose and not self._stays_loose(decoded, name, loose):
                        loose.remove(name)
                        changed = True
        return frozenset(loose)

    def _stays_loose(self, decoded: Decoded, name: str, loose: set[str]) -> bool:
        if not isinstance(decoded, Operation) or self.type_of(name) not in ("f32", "f64"):
            return False
        if decoded.alu.loose:
            return True
        if not decoded.alu.copies or decoded.alu.outs[0] != self.type_of(name):
            return False
        source = decoded.ins[0]
        if source in loose:
            return True
        value = operands.literal(source)
        return isinstance(value, operands.FloatBits) and value.value == value.value


def _operation(instruction: Instruction, op: Opcode) -> Operation:
    if op.family == "cvta":
        return _converted_address(op, instruction.operands)
    if op.family not in ALU:
        raise UnknownForm("no compiled form")
    return Operation(*decoded_operands(instruction.opcode, instruction.operands))


def _copy(instruction: Instruction, op: Opcode) -> Decoded:
    """Decode cp.async and its groups."""
    op.one_of(("async",))
    if op.flag("commit_group"):
        op.finish()
        return CopyGroups(commits=True, left=None)
    if op.flag("wait_all"):
        op.finish()
        return CopyGroups(commits=True, left=0)
    if op.flag("wait_group"):
        op.finish()
        return CopyGroups(commits=False, left=integer(instruction.operands[0]))
    op.one_of(("ca", "cg"))
    op.one_of(("shared", "shared::cta"))
    op.one_of(("global",))
    for hint in ("L2::64B", "L2::128B", "L2::256B"):
        op.flag(hint)
    op.finish()
    target, source, size, *extra = instruction.operands
    bytes_ = operands.literal(size)
    if len(extra) > 1 or (extra and extra[0].lstrip("!").startswith("%p")) or bytes_ not in (4, 8, 16):
        raise UnknownForm("operands")
    return AsyncCopy(target, source, int(size, 0), extra[0] if extra else None)


def _of_warp(instruction: Instruction, op: Opcode) -> WarpOperation:
    texts = instruction.operands
    outs = tuple(name.strip() for name in texts[0].split("|"))
    if op.family == "activemask":
        op.one_of(("b32",))
        op.finish()
        return WarpOperation("active", outs, (), "0xffffffff")
    op.one_of(("sync",))
    if op.family == "shfl":
        kind = op.one_of(("up", "down", "bfly", "idx"))
        op.one_of(("b32",))
        op.finish()
        return WarpOperation(kind, outs, tuple(texts[1:4]), texts[4])
    kind = op.one_of(("all", "any", "uni", "ballot"))
    op.one_of(("b32",) if kind == "ballot" else ("pred",))
    op.finish()
    return WarpOperation(kind, outs, (texts[1],), texts[2])


def _converted_address(op: Opcode, texts: Sequence[str]) -> Operation:
    """Decode cvta: a generic address is the space's window plus the address."""
    to_space = op.flag("to")
    space = take_space(op)
    if op.one_of(("u64",)) and space == "generic":
        raise UnknownForm("generic")
    op.finish()
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space, 0)
    step = np.array([-window if to_space else window]).astype(np.uint64)
    target, source = texts
    return Operation(Alu(assign(lambda a: a + step), ("u64",), ("u64",)), (target,), (source,))
