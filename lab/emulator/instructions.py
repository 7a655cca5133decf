"""Instruction binding: each decoded instruction becomes two functions, for all and for chosen threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.approximations import Rounding, displaced
from lab.emulator.batch import Batch
from lab.emulator.binding import CARRY, OperandBinder, Storage
from lab.emulator.errors import unsupported
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, preceded
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.memory.tensor import TensorMemory
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm, begins_later
from lab.emulator.operations.base import Alu
from lab.emulator.operations.move import elementwise, packing, unpacking
from lab.emulator.operations.system import Site
from lab.emulator.operations.table import ALU, SYSTEM
from lab.emulator.program import is_register_copy
from lab.emulator.special import VECTORS
from lab.emulator.tally import Counters
from lab.emulator.undefined import UndefinedValues
from lab.emulator.waiting.mbarriers import Mbarriers
from lab.emulator.waiting.warpgroups import Warpgroups
from lab.emulator.wraps import wrap_check

_LATER = "it begins with sm_100, of which the CPU executes a part"

Full = Callable[[], Any]
"""Executes an instruction for all threads of the batch."""

Part = Callable[[Lanes], Any]
"""Executes an instruction for chosen threads."""


@dataclass(frozen=True, slots=True, eq=False)
class InstructionBinder:
    """Binds instructions to the registers and units of one batch.

    Attributes:
        storage: The storage that operands refer to.
        batch: The threads.
        memory: Loads and stores.
        mbarriers: The mbarriers of the batch's blocks.
        warpgroups: In-flight work of the batch's warpgroups.
        tensor: The tensor memory of the batch's blocks.
        findings: The collector of faults.
        counters: Tallies, or None.
        undefined: The tracker of undefined values; None where they are not tracked.
        wraps: Positions of products that wrap around; None if not requested.
        rounding: The choice of approximate results to displace; None for none.
    """

    storage: Storage
    batch: Batch
    memory: MemoryUnit
    mbarriers: Mbarriers
    warpgroups: Warpgroups
    tensor: TensorMemory
    findings: BatchFindings
    counters: Counters | None
    undefined: UndefinedValues | None = None
    wraps: set[int] | None = None
    rounding: Rounding | None = None

    def bind(self, position: int) -> tuple[Full, Part]:
        """Bind an instruction, guard included, for all threads and for chosen ones.

        Raises:
            UnsupportedInstruction: the instruction, or a part of it, is not supported.
        """
        binder = self.storage.at(position)
        instruction = binder.instruction
        system = SYSTEM.get(instruction.opcode.partition(".")[0])
        try:
            if system is not None:
                masked: Part = system(self._site(position, binder), Opcode(instruction.opcode))
                full: Full = partial(masked, self.batch.everyone)
            else:
                full, masked = self._bind_alu(position, binder)
        except UnknownForm as unknown:
            reason = f"{unknown}: {_LATER}" if begins_later(instruction.opcode) else str(unknown)
            raise unsupported(instruction, reason) from unknown
        except (ValueError, IndexError) as error:  # builders take the operands that the form has
            raise unsupported(instruction, "unexpected operands") from error
        if self.storage.program.wgmma_registers:
            full, masked = self._watched(position, binder, full, masked)
        if self.storage.program.tensor_registers:
            full, masked = self._awaited(position, binder, full, masked)
        if self.wraps is not None and (check := wrap_check(binder, position, self.wraps)) is not None:
            full, masked = preceded(check, self.batch.everyone, full, masked)
        if self.undefined is None:
            return self._guarded(position, binder, full, masked) if instruction.predicate else (full, masked)
        return self._followed(self.undefined, position, binder, full, masked)

    def _bind_alu(self, position: int, binder: OperandBinder) -> tuple[Full, Part]:
        """Bind an operation on registers.

        Where no operand needs a conversion, all threads execute it directly on the register arrays. Most instructions
        are never executed for chosen threads, so that form is built on first use.
        """
        opcode, everyone = binder.instruction.opcode, self.batch.everyone
        alu, outs, ins = decoded_operands(opcode, binder.instruction.operands)
        if self.rounding is not None and self.rounding.applies(position):
            alu = replace(alu, compute=displaced(opcode, alu.compute, self.rounding, position) or alu.compute)
        arrays = _whole(binder, alu, outs, ins)
        if arrays is None:
            masked = _for_some(binder, alu, outs, ins)
            return partial(masked, everyone), masked
        cache: list[Part] = []

        def some_threads(lanes: Lanes) -> None:
            if not cache:
                cache.append(_for_some(binder, alu, outs, ins))
            cache[0](lanes)

        return partial(alu.compute, *arrays), some_threads

    def _followed(
        self, undefined: UndefinedValues, position: int, binder: OperandBinder, full: Full, masked: Part
    ) -> tuple[Full, Part]:
        """Wrap an instruction to track undefined values."""
        full, masked = undefined.around(position, full, masked)
        if not binder.instruction.predicate:
            return full, masked
        inner_full, inner_part = self._guarded(position, binder, full, masked)
        check = undefined.guards(position)
        if check is None:
            return inner_full, inner_part
        return preceded(check, self.batch.everyone, inner_full, inner_part)

    def _site(self, position: int, binder: OperandBinder) -> Site:
        return Site(
            position,
            binder,
            self.batch,
            self.memory,
            self.mbarriers,
            self.warpgroups,
            self.tensor,
            self.findings,
            self.counters,
        )

    def _watched(self, position: int, binder: OperandBinder, full: Full, masked: Part) -> tuple[Full, Part]:
        """Wrap an instruction to record accesses to wgmma registers; leave others unchanged."""
        instruction, names = binder.instruction, self.storage.program.wgmma_operands[position]
        if not names or instruction.opcode.startswith("wgmma."):
            return full, masked
        warpgroups = self.warpgroups
        if is_register_copy(instruction):
            target, source = (binder.register_names(text)[0] for text in instruction.operands)
            note = partial(warpgroups.copy, target=target, source=source)
        else:
            constant = (
                len(names) == 1
                and instruction.opcode.startswith("mov.")
                and operands.literal(instruction.operands[-1]) is not None
            )
            note = partial(warpgroups.touch, position, names=names, constant=constant)
        return preceded(note, self.batch.everyone, full, masked)

    def _awaited(self, position: int, binder: OperandBinder, full: Full, part: Part) -> tuple[Full, Part]:
        """Note accesses to registers that tcgen05.ld writes; other instructions stay as they are.

        Operations on registers pass on that a value is not there yet: compilers move them before the wait, and the
        assembler puts them right.
        """
        opcode, (reads, writes) = binder.instruction.opcode, self.storage.program.tensor_operands(position)
        if not (reads or writes) or opcode.startswith("tcgen05."):
            return full, part
        if opcode.partition(".")[0] in SYSTEM:
            note = partial(self.tensor.touch, position, reads=reads, writes=writes)
        else:
            note = partial(self.tensor.compute, reads=reads, writes=writes)
        return preceded(note, self.batch.everyone, full, part)

    def _guarded(self, position: int, binder: OperandBinder, full: Full, masked: Part) -> tuple[Full, Part]:
        """Wrap an instruction to run only for threads whose guard is true."""
        guard, counters, threads = binder.guard(), self.counters, self.batch.threads

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
                masked(Lanes(threads, np.flatnonzero(mask)))

        def some_threads(lanes: Lanes) -> None:
            active = lanes.take(np.flatnonzero(lanes.select(guard())))
            note(active.count)
            if active.count:
                masked(active)

        return all_threads, some_threads


@lru_cache(maxsize=1 << 14)  # each batch of each launch of a kernel binds its instructions anew
def decoded_operands(opcode: str, operand_texts: tuple[str, ...]) -> tuple[Alu, tuple[str, ...], tuple[str, ...]]:
    """Decode an operation on registers into its function, destinations and sources.

    Raises:
        UnknownForm: The opcode is unknown, or has a different number of operands.
    """
    texts = [piece.strip() for piece in operand_texts[0].split("|")] if operand_texts else []
    texts += operand_texts[1:]
    alu, outs, ins = _operation(Opcode(opcode), texts)
    if len(ins) != len(alu.ins) or len(outs) != len(alu.outs):
        raise UnknownForm(f"{len(texts)} operands")
    return alu, tuple(outs), tuple(ins)


def _whole(binder: OperandBinder, alu: Alu, outs: tuple[str, ...], ins: tuple[str, ...]) -> list[NDArray[Any]] | None:
    """Return the arrays an all-threads operation writes and reads; None if an operand needs conversion.

    Raises:
        UnsupportedInstruction: A source is unknown, or does not fit its type.
    """
    sources = [binder.simple(text, t) for text, t in zip(ins, alu.ins, strict=True)]
    targets = [binder.exact(text, t) for text, t in zip(outs, alu.outs, strict=True)]
    arrays = [array for array in (*targets, *sources) if array is not None]
    apart = len(set(outs)) == len(outs) and (len(outs) == 1 or not set(outs) & set(ins))
    return arrays if apart and len(arrays) == len(outs) + len(ins) else None


def _for_some(binder: OperandBinder, alu: Alu, outs: tuple[str, ...], ins: tuple[str, ...]) -> Part:
    """Return an operation for chosen threads, with operands converted where necessary.

    Raises:
        UnsupportedInstruction: An operand is unknown, or does not fit its type.
    """
    compute = alu.compute
    reads = [binder.source(text, t) for text, t in zip(ins, alu.ins, strict=True)]
    writes = [binder.target(text, t) for text, t in zip(outs, alu.outs, strict=True)]
    dtypes = [DTYPES[t] for t in alu.outs]

    def some_threads(lanes: Lanes) -> None:
        results = [np.empty(lanes.count, dtype) for dtype in dtypes]
        compute(*results, *(read(lanes) for read in reads))
        for write, result in zip(writes, results, strict=True):
            write(lanes, result)

    return some_threads


def _operation(op: Opcode, texts: list[str]) -> tuple[Alu, list[str], list[str]]:
    """Return an operation with its destination and source names, including the carry flag."""
    vector = op.family == "mov" and op.one_of(("v2", "v4"), "")
    if vector:
        outs, ins = list(operands.elements(texts[0])), list(operands.elements(texts[-1]))
        if ins[0] in VECTORS:  # mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid
            ins = [*(f"{ins[0]}.{axis}" for axis in "xyz"), "0"][: len(outs)]
        if len(outs) != int(vector[1:]) or len(ins) != len(outs):
            raise UnknownForm(f"{len(ins)} elements to {len(outs)}")
        t = op.type()
        op.finish()
        return elementwise(t, len(outs)), outs, ins
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
    return alu, outs + [CARRY] * carries_out, ins + [CARRY] * carries_in
