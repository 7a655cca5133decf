"""Block-wide barriers: who waits where, when they go on, and what never will."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.control import CodeBlock
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.program import text_of
from lab.emulator.waiting.clusters import ClusterBarrier

if TYPE_CHECKING:
    from lab.emulator.machine import Group, Machine, Stack

Array = NDArray[Any]
_ALL = 0  # no thread count: every thread of the block


@dataclass(frozen=True, slots=True)
class Form:
    """What one barrier instruction asks for.

    Attributes:
        barrier: Operand that names the barrier.
        count: Operand with the number of threads, or None for all.
        waits: False for `arrive`.
        reduction: `popc`, `and`, `or`, or None.
    """

    barrier: str
    count: str | None
    waits: bool
    reduction: str | None = None
    result: str = ""
    predicate: str = ""


def form_of(opcode: str, operands: tuple[str, ...]) -> Form | None:
    """Read a barrier instruction; None where the form is not known."""
    parts = [part for part in opcode.split(".")[1:] if part not in ("cta", "aligned")]
    if parts == ["sync"] and operands:
        return Form(operands[0], operands[1] if len(operands) > 1 else None, waits=True)
    if parts == ["arrive"] and len(operands) == 2:  # noqa: PLR2004  barrier and count
        return Form(operands[0], operands[1], waits=False)
    if parts in (["red", "popc", "u32"], ["red", "and", "pred"], ["red", "or", "pred"]):
        count = operands[2] if len(operands) == 4 else None  # noqa: PLR2004  with a count
        return Form(
            operands[1],
            count,
            waits=True,
            reduction=parts[1],
            result=operands[0],
            predicate=operands[-1],
        )
    return None


@dataclass(slots=True)
class _Waiting:
    """Threads that reached one barrier instruction."""

    position: int
    go_on: Group
    threads: Array
    form: Form


@dataclass(slots=True)
class _Barrier:
    """One barrier of one block."""

    expected: int
    groups: list[_Waiting] = field(default_factory=list)
    arrived: int = 0


class Barriers:
    """The barriers of a batch."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiting: dict[tuple[int, int], _Barrier] = {}  # (block, barrier) to who waits
        self._clusters = ClusterBarrier(machine)

    def arrive(
        self, stack: Stack, block: CodeBlock, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        """Let threads wait at a barrier, or pass it where they complete it."""
        machine = self._machine
        _, instruction = machine.program.code[position]
        if instruction.opcode.startswith("barrier.cluster."):
            self._clusters.reach(stack, block, position, chosen, pool)
            return
        form = form_of(instruction.opcode, instruction.operands)
        if form is None:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), "this form of barrier")
        go_on = (stack, block.following)
        if chosen is None and form.count is None and form.reduction is None and not self._waiting:
            machine.memory.barrier(None, None)
            machine.arrive(pool, go_on, None)
            return
        threads = machine.members(chosen)
        names = np.broadcast_to(machine.binder.source(position, form.barrier, "u32")(chosen), threads.shape)
        counts = np.zeros(len(threads), np.int64)
        if form.count is not None:
            counts[:] = machine.binder.source(position, form.count, "u32")(chosen)
        keys = np.stack([machine.block_of[threads], names.astype(np.int64)])
        for row, name in np.unique(keys, axis=1).T:
            mine = (keys[0] == row) & (keys[1] == name)
            barrier = self._waiting.setdefault((int(row), int(name)), _Barrier(int(counts[mine][0])))
            barrier.groups.append(_Waiting(position, go_on, threads[mine], form))
            barrier.arrived += int(mine.sum())
            if not form.waits:
                machine.arrive(pool, go_on, machine.group(threads[mine]))
        self._release(pool)

    def threads_left(self, pool: dict[Group, Array | None]) -> None:
        """Look again after threads have ended: a barrier may now be complete."""
        if self._waiting:
            self._release(pool)
        self._clusters.release(pool)

    def _release(self, pool: dict[Group, Array | None]) -> None:
        machine = self._machine
        living = np.bincount(machine.block_of[machine.alive], minlength=machine.blocks)
        full_rows, ready = [], []
        for (row, name), barrier in self._waiting.items():
            everyone = barrier.expected in (_ALL, int(living[row])) and barrier.arrived >= living[row]
            if everyone or (barrier.expected != _ALL and barrier.arrived >= barrier.expected):
                ready.append((row, name))
                whole = barrier.expected == _ALL or barrier.arrived >= int(living[row])
                if whole:
                    full_rows.append(row)
                else:
                    machine.memory.barrier(None, np.concatenate([group.threads for group in barrier.groups]))
        if full_rows:
            machine.memory.barrier(np.array(full_rows), None)
        for key in ready:
            self._let_go(key, pool)

    def _let_go(self, key: tuple[int, int], pool: dict[Group, Array | None]) -> None:
        machine = self._machine
        barrier = self._waiting.pop(key)
        first = barrier.groups[0]
        block_size = machine.launch.block[0] * machine.launch.block[1] * machine.launch.block[2]
        if barrier.expected == _ALL:
            if barrier.arrived < block_size:
                self._complain(
                    first, f"only {barrier.arrived} of the block's {block_size} threads arrive; the others have ended"
                )
            elif len({group.position for group in barrier.groups}) > 1:
                self._complain(first, "threads of one block wait at different barrier instructions")
        for group in barrier.groups:
            if not group.form.waits:
                continue
            if group.form.reduction:
                self._reduce(group, barrier)
            machine.arrive(pool, group.go_on, machine.group(group.threads))

    def _complain(self, group: _Waiting, detail: str) -> None:
        machine = self._machine
        machine.launch.findings.add(
            "barrier-divergence", group.position, detail, where=machine.where, threads=group.threads
        )

    def _reduce(self, group: _Waiting, barrier: _Barrier) -> None:
        binder = self._machine.binder
        values = np.concatenate(
            [
                np.broadcast_to(
                    binder.source(other.position, other.form.predicate, "pred")(other.threads), other.threads.shape
                )
                for other in barrier.groups
            ]
        )
        kind = group.form.reduction
        total = {"popc": values.sum(), "and": values.all(), "or": values.any()}[kind or "or"]
        write = binder.target(group.position, group.form.result, "u32" if kind == "popc" else "pred")
        write(group.threads, np.full(len(group.threads), total))

    def abandon(self) -> None:
        """End the threads that wait at any barrier, without a finding: one elsewhere says why they would for ever."""
        for barrier in self._waiting.values():
            for group in barrier.groups:
                self._machine.alive[group.threads] = False
        self._waiting.clear()
        self._clusters.abandon()

    def break_deadlock(self, pool: dict[Group, Array | None]) -> bool:
        """End the threads of barriers that can never complete; False where nobody waits."""
        machine = self._machine
        if self._clusters.break_deadlock() and not self._waiting:
            return bool(pool)
        if not self._waiting:
            return False
        for barrier in self._waiting.values():
            waiting = [group for group in barrier.groups if group.form.waits]
            for group in waiting:
                self._complain(
                    group, f"{barrier.arrived} threads wait here for ever: the others wait elsewhere or have ended"
                )
                machine.alive[group.threads] = False
        self._waiting.clear()
        return bool(pool)
