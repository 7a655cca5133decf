"""Dependency chains: the latency of a region of SASS executed by a single warp.

A warp issues in order. Its next instruction issues when the stall count of the last one has elapsed, by which ptxas
covers fixed latencies, and when the scoreboard barriers it waits for are released; instructions of variable latency set
them (`lab.isa.sass.control`). The critical path is traced from the last issue back to the first: its stall cycles, and
the number of serialised latencies of each kind. Hidden latencies are not on it, so four independent sums in a loop take
no longer than one.

A loop's chain is that of a steady-state iteration: loads prefetched by the previous iteration are hidden. Nested loops
are excluded; each has its own chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, auto
from typing import Final

from lab.hardware.latencies import SmLatencies
from lab.isa.mix import BODY, KernelMix, WarpChain
from lab.isa.model import Function, Instruction, InstructionClass
from lab.predict.schedulers.loop import Slot, Unit, slots_of

_WARM, _COUNTED = 1, 2
"""Warm-up iterations, and counted iterations."""


class _Kind(IntEnum):
    """Component of a critical path: stall cycles or a kind of latency, in the order of the fields of `WarpChain`."""

    STALL = 0
    GLOBAL = auto()
    ATOMIC = auto()
    LOCAL = auto()
    SHARED = auto()
    BARRIER = auto()
    OTHER = auto()


_Path = tuple[float, ...]
"""Stall cycles of a path, and the number of latencies of each kind on it."""
_START: Final[_Path] = (0.0,) * len(_Kind)
_MEMORY: Final = {Unit.GLOBAL: _Kind.GLOBAL, Unit.SHARED: _Kind.SHARED}
_Issued = tuple[Instruction, Slot]


def chains(function: Function, code: bytes, mix: KernelMix, machine: SmLatencies) -> dict[str, WarpChain]:
    """Return the dependency chains of a kernel's loops, and of the code outside of them.

    Args:
        function: Its SASS.
        code: Its machine code.
        mix: Static mix of the SASS.
        machine: Latencies that decide which of them are hidden.

    Returns:
        The chains by the label of each loop with instructions of its own, and by `BODY`.

    Raises:
        ValueError: The code does not belong to the function.
    """
    outside = frozenset(instruction.line for instruction in function.instructions).difference(
        *(loop.numbers for loop in mix.loops)
    )
    pieces = {loop.label: mix.own_lines(loop) for loop in mix.loops}
    by_label = {label: _chain(slots_of(function, code, lines), machine, turns=_WARM) for label, lines in pieces.items()}
    by_label[BODY] = _chain(slots_of(function, code, outside), machine, turns=0)
    return {label: chain for label, chain in by_label.items() if chain.instructions}


def _chain(code: Sequence[_Issued], machine: SmLatencies, *, turns: int) -> WarpChain:
    """Return the chain of some instructions; with `turns`, of an iteration after that many others."""
    warp = _Warp(machine)
    for _ in range(turns):
        warp.run(code, again=True)
    before = warp.path
    counted = _COUNTED if turns else 1
    for _ in range(counted):
        warp.run(code, again=turns > 0)
    spent = [max(0.0, (now - then) / counted) for now, then in zip(warp.path, before, strict=True)]
    return WarpChain(len(code), *spent)


class _Warp:
    """A warp that issues alone."""

    def __init__(self, machine: SmLatencies) -> None:
        self._machine = machine
        self._costs = _costs(machine)
        self._ready, self.path = 0.0, _START  # earliest next issue, and its critical path
        self._barriers: list[tuple[float, _Path]] = [(0.0, _START)] * 6
        self._copies: tuple[float, _Path] = (0.0, _START)  # arrival of the open group's last copy
        self._groups: list[tuple[float, _Path]] = []
        self._bulk: tuple[float, _Path] = (0.0, _START)

    def run(self, code: Sequence[_Issued], *, again: bool) -> None:
        """Issue some instructions; with `again`, also take the branch back to the first."""
        requested = self._bulk  # two stages: the wait is for copies of the last iteration
        for instruction, slot in code:
            now, path = self._ready, self.path
            for number in slot.control.waits:
                if self._barriers[number][0] > now:
                    now, path = self._barriers[number]
            if slot.unit is Unit.WAIT and len(self._groups) > slot.left:
                closed = max(self._groups[: len(self._groups) - slot.left])
                if closed[0] > now:
                    now, path = closed
                del self._groups[: max(0, len(self._groups) - slot.left)]
            elif slot.unit is Unit.PHASE and requested[0] > now:
                now, path = requested
            self._issue(instruction, slot, now, path)
        if again:
            self._stall(self._machine.taken_branch)

    def _issue(self, instruction: Instruction, slot: Slot, now: float, path: _Path) -> None:
        control, kind = slot.control, _kind(instruction, slot)
        if slot.unit is Unit.COPY:
            self._copies = self._after(now, path, _Kind.GLOBAL)
        elif slot.unit is Unit.BULK:
            self._bulk = self._after(now, path, _Kind.GLOBAL)
        elif slot.unit is Unit.COMMIT:
            self._groups.append(self._copies)
        if control.write_barrier is not None and control.write_barrier < len(self._barriers):
            self._barriers[control.write_barrier] = max(
                self._barriers[control.write_barrier], self._after(now, path, kind)
            )
        if control.read_barrier is not None and control.read_barrier < len(self._barriers):
            operands_read = now + self._machine.operands_read, _with(path, _Kind.STALL, self._machine.operands_read)
            self._barriers[control.read_barrier] = max(self._barriers[control.read_barrier], operands_read)
        self._ready, self.path = now, path
        self._stall(max(1, control.stall))
        if slot.unit is Unit.BARRIER:
            self._ready, self.path = self._after(self._ready, self.path, _Kind.BARRIER)

    def _stall(self, cycles: float) -> None:
        self._ready, self.path = self._ready + cycles, _with(self.path, _Kind.STALL, cycles)

    def _after(self, now: float, path: _Path, kind: _Kind) -> tuple[float, _Path]:
        return now + self._costs[kind], _with(path, kind, 1.0)


def _kind(instruction: Instruction, slot: Slot) -> _Kind:
    """Return the latency kind of an instruction's result."""
    if instruction.cls is InstructionClass.LD_LOCAL:
        return _Kind.LOCAL
    if instruction.cls is InstructionClass.ATOMIC and slot.unit is not Unit.SHARED:
        return _Kind.ATOMIC
    return _MEMORY.get(slot.unit, _Kind.OTHER)


def _with(path: _Path, kind: _Kind, amount: float) -> _Path:
    return (*path[:kind], path[kind] + amount, *path[kind + 1 :])


def _costs(machine: SmLatencies) -> Mapping[_Kind, float]:
    return {
        _Kind.GLOBAL: machine.global_latency,
        _Kind.ATOMIC: machine.l2_latency,
        _Kind.LOCAL: machine.l1_latency,
        _Kind.SHARED: machine.shared_latency,
        _Kind.BARRIER: machine.block_barrier,
        _Kind.OTHER: machine.special_cycles,
    }
