"""Turning decoded instructions into calls: operands to arrays, operations to closures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.operations.base import ALU, DTYPES, SYSTEM, Alu, Opcode, UnknownForm
from lab.emulator.operations.move import packing, unpacking
from lab.emulator.program import text_of
from lab.isa.model import Instruction

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Array = NDArray[Any]
Full = Callable[[], Any]
Part = Callable[[Array], Any]
Read = Callable[[Array | None], Array]
Write = Callable[[Array | None, Array], None]
_SINK = "_"
_CARRY = "%CC"
_CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


class Binder:
    """Binds a program's instructions to the registers of one batch."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    # --- operands -------------------------------------------------------------------------------------------

    def constant(self, function: int, text: str, t: str) -> Array | None:
        """Return a literal or the address of a symbol as an array of one element, None for other names."""
        dtype = DTYPES[t]
        value = operands.literal(text)
        if value is None:
            value = self.symbol(function, text)
            if value is None:
                return None
        if t == "pred":
            return np.array([bool(value)])
        bits = 8 * dtype.itemsize
        if isinstance(value, operands.FloatBits):
            return _float_constant(value, t)
        if t in ("f32", "f64") and isinstance(value, int):
            return np.array([value], dtype)
        return np.array([value & (2**bits - 1)], f"u{dtype.itemsize}").view(dtype)

    def symbol(self, function: int, text: str) -> int | None:
        """Return the address of ``name`` or ``name+offset`` in its own state space."""
        parts = operands.symbol(text)
        if parts is None:
            return None
        name, offset, _ = parts
        program = self._machine.program
        for scope in (function, -1):
            place = program.places.get((scope, name))
            if place is not None:
                return place.offset + offset
        found = self._machine.launch.symbols.get(name)
        return None if found is None else found + offset

    def storage(self, position: int, text: str) -> Array | None:
        """Return what holds a register or a special register, None for anything else."""
        if text == _CARRY:
            return self._machine.registers.carry
        if text in self._machine.special:
            return self._machine.special[text]
        return self._machine.registers.array(self._machine.program.code[position][0], text)

    def _array(self, position: int, text: str, t: str) -> tuple[Array, bool]:
        """Return an operand's array in type t, and whether it is one (False: it must be converted at each use)."""
        found = self.storage(position, text)
        dtype = DTYPES[t]
        if found is None:
            found = self.constant(self._machine.program.code[position][0], text, t)
            if found is None:
                self.refuse(position, f"operand {text}")
            return found, True
        if (found.dtype == bool) != (t == "pred"):
            self.refuse(position, f"operand {text} in .{t}")
        if found.dtype.itemsize == dtype.itemsize:
            return found.view(dtype), True
        if found.dtype.itemsize < dtype.itemsize and text.startswith("%") and text not in self._machine.special:
            self.refuse(position, f"{text} is narrower than .{t}")
        return found, False

    def source(self, position: int, text: str, t: str) -> Read:
        """Return a function that reads an operand for the chosen threads."""
        if text in _CLOCKS:
            return self._clock(t)
        if text.startswith("!"):
            inner = self.source(position, text[1:].strip(), t)
            return lambda chosen: ~inner(chosen)
        array, direct = self._array(position, text, t)
        dtype = DTYPES[t]
        if array.size == 1:
            fixed = array if direct else array.astype(dtype)
            return lambda _chosen: fixed
        if direct:
            return lambda chosen: array if chosen is None else array[chosen]
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return lambda chosen: (array if chosen is None else array[chosen]).astype(unsigned).view(dtype)

    def _clock(self, t: str) -> Read:
        machine = self._machine
        return lambda _chosen: np.array([machine.steps], np.uint64).astype(DTYPES[t])

    def target(self, position: int, text: str, t: str) -> Write:
        """Return a function that writes a register for the chosen threads; a wider register is extended."""
        if text == _SINK:
            return lambda _chosen, _values: None
        array = self._machine.registers.carry if text == _CARRY else self._register(position, text)
        dtype = DTYPES[t]
        if (array.dtype == bool) != (t == "pred") or array.dtype.itemsize < dtype.itemsize:
            self.refuse(position, f"{text} cannot hold .{t}")
        signed = dtype.kind == "i" and array.dtype.itemsize > dtype.itemsize
        if not signed and array.dtype.itemsize > dtype.itemsize:
            dtype = np.dtype(f"u{dtype.itemsize}")
        seen = array.view(f"i{array.dtype.itemsize}") if signed else array
        same = array.dtype.itemsize == dtype.itemsize
        if same:
            seen = array.view(dtype)

        def write(chosen: Array | None, values: Array) -> None:
            bits = values if same or values.dtype == dtype else values.view(dtype)
            seen[slice(None) if chosen is None else chosen] = bits

        return write

    def _register(self, position: int, text: str) -> Array:
        array = self._machine.registers.array(self._machine.program.code[position][0], text)
        if array is None:
            self.refuse(position, f"{text} is no register")
        return array

    def refuse(self, position: int, why: str) -> NoReturn:
        """Raise for an instruction that cannot be executed.

        Raises:
            UnsupportedInstruction: always.
        """
        instruction = self._machine.program.code[position][1]
        raise UnsupportedInstruction(instruction.line, text_of(instruction), why)

    # --- instructions ---------------------------------------------------------------------------------------

    def bind(self, position: int) -> tuple[Full, Part]:
        """Return an instruction for all threads, and for chosen ones, guard included.

        Raises:
            UnsupportedInstruction: the instruction, or a part of it, is not known.
        """
        instruction = self._machine.program.code[position][1]
        op = Opcode(instruction.opcode)
        try:
            if op.family in SYSTEM:
                run = SYSTEM[op.family](self._machine, position, op)
                full: Full = partial(run, None)
                part: Part = run
            else:
                full, part = self._bind_alu(position, instruction, op)
        except UnknownForm as unknown:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), str(unknown)) from unknown
        return self._guarded(position, full, part) if instruction.predicate else (full, part)

    def _guarded(self, position: int, full: Full, part: Part) -> tuple[Full, Part]:
        guard = self._machine.guard(position)
        counters = self._machine.launch.counters
        threads = self._machine.threads

        def note(count: int) -> None:
            if counters is not None:
                counters.guarded[position] += count

        def all_threads() -> None:
            mask = guard()
            count = int(np.count_nonzero(mask))
            note(count)
            if count == threads:
                full()
            elif count:
                part(np.flatnonzero(mask))

        def some_threads(chosen: Array) -> None:
            kept = chosen[guard()[chosen]]
            note(len(kept))
            if len(kept):
                part(kept)

        return all_threads, some_threads

    def _bind_alu(self, position: int, instruction: Instruction, op: Opcode) -> tuple[Full, Part]:
        texts = [piece.strip() for piece in instruction.operands[0].split("|")] if instruction.operands else []
        texts += instruction.operands[1:]
        alu, outs, ins = self._alu(op, texts)
        if len(ins) != len(alu.ins) or len(outs) != len(alu.outs):
            raise UnknownForm(f"{len(texts)} operands")
        threads = self._machine.threads
        simple = all(self._is_simple(position, text, t) for text, t in zip(ins, alu.ins, strict=True))
        exact = simple and all(self._is_exact(position, text, t) for text, t in zip(outs, alu.outs, strict=True))
        compute = alu.compute
        reads = [self.source(position, text, t) for text, t in zip(ins, alu.ins, strict=True)]
        writes = [self.target(position, text, t) for text, t in zip(outs, alu.outs, strict=True)]
        dtypes = [DTYPES[t] for t in alu.outs]

        def some_threads(chosen: Array | None) -> None:
            results = [np.empty(threads if chosen is None else len(chosen), dtype) for dtype in dtypes]
            compute(*results, *(read(chosen) for read in reads))
            for write, result in zip(writes, results, strict=True):
                write(chosen, result)

        if exact:
            targets = [self._array(position, text, t)[0] for text, t in zip(outs, alu.outs, strict=True)]
            sources = [self._array(position, text, t)[0] for text, t in zip(ins, alu.ins, strict=True)]
            if len(set(outs)) == len(outs) and (len(outs) == 1 or not set(outs) & set(ins)):
                return partial(compute, *targets, *sources), some_threads
        return partial(some_threads, None), some_threads

    def _alu(self, op: Opcode, texts: list[str]) -> tuple[Alu, list[str], list[str]]:
        if op.family == "mov" and texts and (texts[0].startswith("{") or texts[-1].startswith("{")):
            t = op.type()
            op.finish()
            if texts[0].startswith("{"):
                outs = list(operands.elements(texts[0]))
                return unpacking(t, len(outs)), outs, texts[1:]
            ins = list(operands.elements(texts[1]))
            return packing(t, len(ins)), texts[:1], ins
        build = ALU.get(op.family)
        if build is None:
            raise UnknownForm("unknown opcode")
        alu = build(op, len(texts))
        carries_out = "pred" in alu.outs[1:] and op.family in ("add", "sub", "mad", "addc", "subc", "madc")
        carries_in = op.family in ("addc", "subc", "madc")
        count = len(alu.outs) - carries_out
        outs, ins = texts[:count], texts[count:]
        return alu, outs + [_CARRY] * carries_out, ins + [_CARRY] * carries_in

    def _is_simple(self, position: int, text: str, t: str) -> bool:
        return text not in _CLOCKS and not text.startswith("!") and self._array(position, text, t)[1]

    def _is_exact(self, position: int, text: str, t: str) -> bool:
        if text == _SINK:
            return False
        if text == _CARRY:
            return True
        return self._register(position, text).dtype.itemsize == DTYPES[t].itemsize

    # --- warps ------------------------------------------------------------------------------------------------

    def missing_lanes(self, position: int, chosen: Array) -> Array:
        """Return, for each warp of the batch, whether lanes named by a gate instruction are not in a group."""
        machine = self._machine
        instruction = machine.program.code[position][1]
        here = np.zeros(machine.threads, bool)
        here[chosen] = True
        absent = (machine.alive & ~here).reshape(-1, 32)
        mask_text = _member_mask(instruction)
        if mask_text is None:
            return np.asarray(absent.any(axis=1))
        masks = np.zeros(machine.threads, np.uint32)
        masks[chosen] = self.source(position, mask_text, "b32")(chosen)
        named = np.bitwise_or.reduce(masks.reshape(-1, 32), axis=1)
        lanes = (named[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
        result: Array = (absent & (lanes != 0)).any(axis=1)
        return result


def _member_mask(instruction: Instruction) -> str | None:
    """Return the operand that names the lanes taking part; None where all of the warp do."""
    family = instruction.opcode.split(".")[0]
    if family in ("shfl", "vote", "match", "redux", "elect"):
        return instruction.operands[-1]
    if family in ("bar", "barrier"):
        return instruction.operands[0] if instruction.operands else None
    return None


def _float_constant(value: operands.FloatBits, t: str) -> Array:
    dtype = DTYPES[t]
    if value.width == 8 * dtype.itemsize:
        return np.array([value.bits], f"u{dtype.itemsize}").view(dtype)
    if dtype.kind != "f" and dtype.itemsize != 4:  # noqa: PLR2004  a decimal number in an untyped register
        raise UnknownForm(f"a floating-point literal in .{t}")
    return np.array([value.value]).astype(dtype if dtype.kind == "f" else np.float32).view(dtype)
