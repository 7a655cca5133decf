"""Operand binding: turns registers, literals and symbols of a batch into arrays and accessors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Addresses, Integers, Mask, Values
from lab.emulator.batch import Batch
from lab.emulator.errors import unsupported
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import LOCAL_WINDOW, SHARED_WINDOW
from lab.emulator.memory.peers import own_addresses, own_offsets
from lab.emulator.opcodes import DTYPES, UnknownForm
from lab.emulator.program import FRAME_POINTER, STACK_POINTER, Program, RegisterName
from lab.emulator.registers import RegisterFile
from lab.emulator.special import StepClock
from lab.isa.model import Instruction

_ScalarT_co = TypeVar("_ScalarT_co", bound=np.generic, covariant=True)
Read = Callable[[Lanes], NDArray[_ScalarT_co]]
"""Reads an operand for some threads: (count,) values, or (1,) if uniform."""

Write = Callable[[Lanes, Values], None]
"""Writes (count,) or (1,) values to a register of some threads."""

SINK = "_"
"""The sink operand, which discards writes."""

CARRY = "%CC"
"""The internal name of the carry flag, which PTX cannot spell."""

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
WARPGROUP = 4
"""Warps per warpgroup."""

_NARROW_ADDRESS = 4  # bytes of a 32-bit address
_LEAST_OFFSET, _OFFSET_LIMIT = -(2**31), 2**32


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The storage operands of one batch can refer to.

    Attributes:
        program: The instructions and the memory layout.
        batch: The threads.
        registers: The register file.
        special: Special registers that do not change.
        symbols: Addresses of module variables.
        clock: The source of clock registers.
    """

    program: Program
    batch: Batch
    registers: RegisterFile
    special: Mapping[str, Integers | Mask]
    symbols: Mapping[str, int]
    clock: StepClock

    def at(self, position: int) -> OperandBinder:
        """Return an operand binder for one instruction."""
        return OperandBinder(self, position)


class OperandBinder:
    """Binds the operands of one instruction.

    Attributes:
        instruction: The instruction.
    """

    def __init__(self, storage: Storage, position: int) -> None:
        self._storage, self._position = storage, position
        self._function, self.instruction = storage.program.code[position]

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedInstruction` for the bound instruction.

        Raises:
            UnsupportedInstruction: always.
        """
        raise unsupported(self.instruction, reason)

    # --- what a name stands for -----------------------------------------------------------------------------

    def _register(self, text: str) -> NDArray[Any] | None:
        """Return the array of a register or special register; None for anything else."""
        storage = self._storage
        if text == CARRY:
            return storage.registers.carry
        if text in storage.special:
            return storage.special[text]
        return storage.registers.array(self._function, text)

    def _constant(self, text: str, t: str) -> NDArray[Any] | None:
        """Return a literal or a symbol's address as (1,) in type t; None for other names.

        In a cluster, a shared variable's address is (threads,), as it contains the block's rank.
        """
        dtype = DTYPES[t]
        value = operands.literal(text)
        if value is None:
            value = self._symbol(text)
            if value is None:
                return None
            if self._storage.batch.cluster > 1 and dtype.kind in "iu" and self._space_of(text) == "shared":
                return own_addresses(self._storage.batch, value).astype(dtype)
        if t == "pred":
            return np.array([bool(value)])
        if isinstance(value, operands.FloatBits):
            return _float_constant(value, t)
        if t in ("f32", "f64"):
            return np.array([value], dtype)
        return np.array([value & (2 ** (8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)

    def _symbol(self, text: str) -> int | None:
        """Return the address of ``name`` or ``name+offset`` in its own state space."""
        parts = operands.symbol(text)
        if parts is None:
            return None
        name, offset, _ = parts
        for scope in (self._function, -1):
            place = self._storage.program.places.get((scope, name))
            if place is not None and place.space != "stack":
                return place.offset + offset
        program = self._storage.program
        address = self._storage.symbols.get(program.symbol(self._function, name))
        if address is None:
            address = program.calls.address(name)
        return None if address is None else address + offset

    def _space_of(self, text: str) -> str:
        """Return the state space of the variable in ``name+offset``; "" for others."""
        parts, places = operands.symbol(text), self._storage.program.places
        place = None if parts is None else places.get((self._function, parts[0])) or places.get((-1, parts[0]))
        return place.space if place is not None else ""

    def _sum(self, text: str) -> tuple[NDArray[Any], int] | None:
        """Return the register and offset of a sum (``%r1+4`` or a stack variable); None for other operands."""
        parts = operands.register_and_offset(text)
        if parts is not None:
            register = self._register(parts[0])
            return None if register is None or register.dtype == np.bool_ else (register, parts[1])
        symbol = operands.symbol(text)
        if symbol is None:
            return None
        pointer = self._on_stack(symbol[0])
        if pointer is None:
            return None
        return pointer[0], pointer[1] + symbol[1] + (LOCAL_WINDOW if symbol[2] else 0)

    def _on_stack(self, name: str) -> tuple[NDArray[Any], int] | None:
        """Return the frame pointer and a variable's offset from it; None for other names."""
        place = self._storage.program.places.get((self._function, name))
        if place is None or place.space != "stack":
            return None
        pointer = self._storage.registers.array(self._function, FRAME_POINTER)
        return None if pointer is None else (pointer, place.offset)

    def array(self, text: str, t: str) -> tuple[NDArray[Any], bool]:
        """Return an operand's array and whether it already has type t.

        Otherwise the array has another width, and each use must convert the values it reads.

        Raises:
            UnsupportedInstruction: the operand is unknown, or does not fit the type.
        """
        return self._typed(text, t, self._named(text))

    def _named(self, text: str) -> NDArray[Any] | None:
        return None if text[:1].isdigit() else self._register(text)  # no register's name begins with a digit

    def _typed(self, text: str, t: str, register: NDArray[Any] | None) -> tuple[NDArray[Any], bool]:
        """Return the result of `array` for a register already looked up; None for other operands."""
        dtype = DTYPES[t]
        if register is None:
            register = self._constant(text, t)
            if register is None:
                self.refuse(f"operand {text}")
            return register, True
        if (register.dtype == np.bool_) != (t == "pred"):
            self.refuse(f"operand {text} in .{t}")
        if register.dtype.itemsize == dtype.itemsize:
            return register.view(dtype), True
        if register.dtype.itemsize < dtype.itemsize and text.startswith("%") and text not in self._storage.special:
            self.refuse(f"{text} is narrower than .{t}")
        return register, False

    def simple(self, text: str, t: str) -> NDArray[Any] | None:
        """Return a source's array if it can be used directly in type t; None where reads need more.

        Raises:
            UnsupportedInstruction: the operand is unknown, or does not fit the type.
        """
        if text in operands.CLOCKS or text.startswith("!"):
            return None
        register = self._named(text)
        if register is None and self._sum(text) is not None:
            return None
        array, direct = self._typed(text, t, register)
        return array if direct else None

    def exact(self, text: str, t: str) -> NDArray[Any] | None:
        """Return the array of a destination register with type t's width; None for other destinations.

        Raises:
            UnsupportedInstruction: the operand is not a register.
        """
        if text == SINK:
            return None
        array, dtype = self._destination(text), DTYPES[t]
        matches = array.dtype.itemsize == dtype.itemsize and (array.dtype == np.bool_) == (t == "pred")
        return array.view(dtype) if matches else None

    def _destination(self, text: str) -> NDArray[Any]:
        if text == CARRY:
            return self._storage.registers.carry
        array = self._storage.registers.array(self._function, text)
        if array is None:
            self.refuse(f"{text} is not a register")
        return array

    # --- reading and writing --------------------------------------------------------------------------------

    @overload
    def source(self, text: str, t: Literal["pred"]) -> Read[np.bool_]: ...
    @overload
    def source(self, text: str, t: Literal["u32", "b32"]) -> Read[np.uint32]: ...
    @overload
    def source(self, text: str, t: Literal["s32"]) -> Read[np.int32]: ...
    @overload
    def source(self, text: str, t: Literal["u64", "b64"]) -> Read[np.uint64]: ...
    @overload
    def source(self, text: str, t: str) -> Read[Any]: ...

    def source(self, text: str, t: str) -> Read[Any]:
        """Return a reader of an operand in type t."""
        dtype = DTYPES[t]
        if text in operands.CLOCKS:
            clock = self._storage.clock
            return lambda _lanes: np.array([clock.reading], np.uint64).astype(dtype)
        if text.startswith("!"):
            if t != "pred":
                self.refuse(f"operand {text} in .{t}")
            inner = self.source(text[1:].strip(), "pred")
            return lambda lanes: ~inner(lanes)
        total = self._sum(text)
        if total is not None:
            return _offset_read(*total, dtype)
        array, direct = self.array(text, t)
        if array.size == 1:
            fixed = array if direct else array.astype(dtype)
            return lambda _lanes: fixed
        if direct:
            return lambda lanes: lanes.select(array)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return lambda lanes: lanes.select(array).astype(unsigned).view(dtype)

    def target(self, text: str, t: str) -> Write:
        """Return a writer of a register; a wider register is extended by type t's sign.

        Raises:
            UnsupportedInstruction: the operand is not a register that holds the type.
        """
        if text == SINK:
            return lambda _lanes, _values: None
        array, dtype = self._destination(text), DTYPES[t]
        if (array.dtype == np.bool_) != (t == "pred") or array.dtype.itemsize < dtype.itemsize:
            self.refuse(f"{text} cannot hold .{t}")
        if array.dtype.itemsize == dtype.itemsize:
            return _same_width(array.view(dtype))
        if dtype.kind == "i":
            return _extended(array.view(f"i{array.dtype.itemsize}"), dtype)
        return _extended(array, np.dtype(f"u{dtype.itemsize}"))

    def guard(self) -> Callable[[], Mask]:
        """Return a reader of the instruction's guard for all threads of the batch, (threads,)."""
        array = self._storage.registers.array(self._function, self.instruction.predicate or "")
        if array is None or array.dtype != np.bool_:
            self.refuse("the guard is not a predicate")
        flags: Mask = array
        return (lambda: ~flags) if self.instruction.negated else (lambda: flags)

    def stack_pointer(self) -> NDArray[np.uint64]:
        """Return each thread's stack pointer, (threads,) offsets in local memory.

        Raises:
            UnsupportedInstruction: the program has no stack.
        """
        pointer = self._storage.registers.array(-1, STACK_POINTER)
        if pointer is None:
            self.refuse("the stack")
        return pointer

    # --- addresses --------------------------------------------------------------------------------------------

    def address(self, text: str, space: str) -> Callable[[Lanes], Addresses]:
        """Return a function that computes an address operand, (count,) bytes in a state space.

        Raises:
            UnsupportedInstruction: the operand is not an address.
        """
        operand = operands.address(text)
        if operand is None:
            self.refuse(f"address {text}")
        base, offset = operand.base, operand.offset
        if base is not None and not _LEAST_OFFSET <= offset < _OFFSET_LIMIT:
            self.refuse(f"an offset of {offset} bytes (more than 32 bits)")
        if base is not None and (self._storage.registers.type_of(self._function, base) or "b")[0] in "fp":
            self.refuse(f"address {text}")
        register = None if base is None else self._register(base)
        stacked = None if base is None else self._on_stack(base)
        if stacked is not None:
            register, offset = stacked[0], stacked[1] + offset + (LOCAL_WINDOW if space == "generic" else 0)
        if register is None:
            start = (self._fixed_address(text, base, space) + offset) & (2**64 - 1)
            fixed = np.array([start], np.uint64).view(np.int64)
            return lambda lanes: lanes.fill(fixed)
        total = _sum_read(register, offset)
        batch = self._storage.batch
        if batch.cluster > 1 and space in ("shared", "generic"):
            return lambda lanes: own_offsets(batch, total(lanes), lanes)
        return total

    def _fixed_address(self, text: str, base: str | None, space: str) -> int:
        """Return a symbol's address, or 0 for an absolute address."""
        if base is None:
            return 0
        start = self._symbol(base)
        if start is None:
            self.refuse(f"address {text}")
        if space != "generic":
            return start
        return start + _WINDOWS.get(self._space_of(base), 0)

    def parameter_space(self, text: str, space: str) -> str:
        """Return the state space, with `param` resolved to `kernel-param` or `frame`.

        Args:
            text: The address operand.
            space: The state space in the opcode.
        """
        if space != "param":
            return space
        operand = operands.address(text)
        place = None if operand is None else self._storage.program.places.get((self._function, operand.base or ""))
        return place.space if place is not None else "kernel-param"

    # --- warps ------------------------------------------------------------------------------------------------

    def missing_lanes(self, lanes: Lanes, alive: Mask) -> Mask:
        """Return, for each warp of the batch, whether a group lacks lanes that a gate instruction names.

        Args:
            lanes: The group.
            alive: (threads,) the threads that have not ended.
        """
        absent = (alive & ~lanes.present()).reshape(-1, WARP_SIZE)
        if self.instruction.opcode.startswith(("wgmma.mma_async.", "setmaxnreg.")):
            return self._missing_of_warpgroups(absent)
        mask_text = _member_mask(self.instruction)
        if mask_text is None:
            return np.asarray(absent.any(axis=1))
        masks = np.zeros(lanes.threads, np.uint32)
        masks[lanes.rows] = self.source(mask_text, "b32")(lanes)
        lane_masks = np.bitwise_or.reduce(masks.reshape(-1, WARP_SIZE), axis=1)
        mentioned = (lane_masks[:, None] >> np.arange(WARP_SIZE, dtype=np.uint32)) & np.uint32(1)
        return np.asarray((absent & (mentioned != 0)).any(axis=1))

    def _missing_of_warpgroups(self, absent: Mask) -> Mask:
        """Return, for each warp, whether its warpgroup has a thread among the (warps, 32) absent ones."""
        batch = self._storage.batch
        warps_per_block = batch.warps // batch.blocks
        by_warp = absent.any(axis=1).reshape(batch.blocks, warps_per_block)
        padded = np.zeros((batch.blocks, -(-warps_per_block // WARPGROUP) * WARPGROUP), np.bool_)
        padded[:, :warps_per_block] = by_warp
        by_group = padded.reshape(batch.blocks, -1, WARPGROUP).any(axis=2)
        return np.repeat(by_group, WARPGROUP, axis=1)[:, :warps_per_block].reshape(-1)

    def register_names(self, text: str) -> tuple[RegisterName, ...]:
        """Return the names in an operand, keyed as in `Program.wgmma_registers`, registers or not."""
        return tuple((self._function, name) for name in operands.elements(text))


def _sum_read(register: NDArray[Any], offset: int) -> Callable[[Lanes], Addresses]:
    """Return a function that adds a register and a constant, (count,)."""
    if register.dtype.itemsize == _NARROW_ADDRESS:  # it wraps at 32 bits
        narrow = np.uint32(offset & 0xFFFFFFFF)
        return lambda lanes: np.add(lanes.select(register), narrow).astype(np.int64)
    wide, step = register.view(np.int64), np.int64(offset)
    return lambda lanes: np.add(lanes.select(wide), step)


def _offset_read(register: NDArray[Any], offset: int, dtype: np.dtype[Any]) -> Read[Any]:
    """Return a reader of a register plus a constant, with wrap-around."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    step = unsigned.type(offset & (2 ** (8 * dtype.itemsize) - 1))
    return lambda lanes: (lanes.select(register).astype(unsigned) + step).view(dtype)


def _same_width(array: NDArray[Any]) -> Write:
    """Return a writer that converts values to the array's type."""

    def write(lanes: Lanes, values: Values) -> None:
        array[lanes.rows] = values

    return write


def _extended(array: NDArray[Any], dtype: np.dtype[Any]) -> Write:
    """Return a writer that extends narrower values of type `dtype`."""

    def write(lanes: Lanes, values: Values) -> None:
        array[lanes.rows] = values if values.dtype == dtype else values.view(dtype)

    return write


def _member_mask(instruction: Instruction) -> str | None:
    """Return the member-mask operand; None where all lanes of the warp take part."""
    family = instruction.opcode.split(".")[0]
    if family in ("shfl", "vote", "match", "redux", "elect"):
        return instruction.operands[-1]
    if family in ("bar", "barrier"):
        return instruction.operands[0] if instruction.operands else None
    return None


def _float_constant(value: operands.FloatBits, t: str) -> NDArray[Any]:
    """Return a floating-point literal as (1,) in type t.

    Raises:
        UnknownForm: a decimal number in an untyped register that is not 32 bits wide.
    """
    dtype = DTYPES[t]
    if value.width == 8 * dtype.itemsize:
        return np.array([value.bits], f"u{dtype.itemsize}").view(dtype)
    if dtype.kind != "f" and dtype.itemsize != np.dtype(np.float32).itemsize:
        raise UnknownForm(f"a floating-point literal in .{t}")
    return np.array([value.value]).astype(dtype if dtype.kind == "f" else np.float32).view(dtype)
