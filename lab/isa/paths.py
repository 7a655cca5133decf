"""What code warps reach from one of some instructions to the next, by paths on which no guard contradicts another.

A path knows of every guard on its way whether it held. Guards whose condition has one value throughout
(`lab.isa.conditions`) decide later guards with the same condition, so that a kernel may part its warps, meet at a
barrier, and part them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab.isa.cfg import ROOT, ControlFlow
from lab.isa.conditions import conditions
from lab.isa.model import Function, Instruction

_Facts = frozenset[tuple[str, bool]]
"""Conditions that are known to hold, or not to."""
_State = tuple[int, _Facts]
"""Where execution stands, an index of an instruction, and what is known there."""

_MOST_STATES: Final = 20_000
"""States behind one cut up to which conditions are remembered; beyond, there may be paths that nothing takes."""

_ENTRY: Final = -1
_ELSEWHERE: Final = -2
"""Stands for code that the entry does not lead to, as far as the text says."""

_ENDS: Final = frozenset({"ret", "exit", "RET", "EXIT"})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Code without a branch.

    Attributes:
        executed: Its instructions, but for those that no warp executes here.
        following: Where it goes on.
        cuts: Cuts in it, with what is known behind each.
        ends: Warps may end in it.
    """

    executed: tuple[Instruction, ...] = ()
    following: tuple[_State, ...] = ()
    cuts: tuple[_State, ...] = ()
    ends: bool = False


@dataclass(frozen=True)
class Paths:
    """Paths through a function from one cut to the next.

    Attributes:
        function: The function.
        flow: Its control flow.
        cuts: Indices of the instructions at which paths are cut.
    """

    function: Function
    flow: ControlFlow
    cuts: frozenset[int]

    def after(self, cut: int) -> Iterator[Instruction]:
        """Instructions that warps can reach from a cut on, up to the next one; each perhaps several times."""
        for piece in self._pieces.get(cut, {}).values():
            yield from piece.executed

    def uncut(self) -> Iterator[Instruction]:
        """Instructions on the ways from the beginning of the function to an end that pass no cut."""
        pieces = self._pieces[_ENTRY]
        before: dict[_State, list[_State]] = {}
        for state, piece in pieces.items():
            for following in piece.following:
                before.setdefault(following, []).append(state)
        ending = {state for state, piece in pieces.items() if piece.ends}
        pending = list(ending)
        while pending:
            new = [state for state in before.get(pending.pop(), ()) if state not in ending]
            ending.update(new)
            pending += new
        for state in ending:
            yield from pieces[state].executed

    @cached_property
    def _pieces(self) -> Mapping[int, Mapping[_State, _Piece]]:
        """By the last cut, or `_ENTRY`, what can be executed before another one."""
        none: _Facts = frozenset()
        roots = [self.flow.blocks[root].start for root in self.flow.graph.successors(ROOT)]
        pending = [(_ELSEWHERE if start else _ENTRY, (start, none)) for start in roots]
        found: dict[int, dict[_State, _Piece]] = {_ENTRY: {}}
        while pending:
            last, (place, facts) = pending.pop()
            own = found.setdefault(last, {})
            state = place, facts if len(own) < _MOST_STATES else none
            if state not in own:
                own[state] = piece = self._piece(*state)
                pending += ((last, following) for following in piece.following)
                pending += ((cut, (cut + 1, known)) for cut, known in piece.cuts)
        return found

    def _piece(self, place: int, facts: _Facts) -> _Piece:
        if place == len(self.function.instructions):  # a label behind the last instruction
            return _Piece(ends=True)
        executed: list[Instruction] = []
        cuts: list[_State] = []
        stop, ends = self._stops[place], False
        for one in self.function.instructions[place:stop]:
            holds = self._holds(one, facts)
            if holds is False:
                continue
            cut, leaves = one.index in self.cuts, one.opcode.partition(".")[0] in _ENDS
            if not cut and not leaves:
                executed.append(one)
                continue
            ends = ends or leaves
            if cut:
                cuts.append((one.index, self._with(one, facts, holds=True)))
            if holds:
                return _Piece(tuple(executed), (), tuple(cuts), ends)
            facts = self._with(one, facts, holds=False)
        return _Piece(tuple(executed), tuple(self._following(stop, facts)), tuple(cuts), ends)

    def _following(self, stop: int, facts: _Facts) -> Iterator[_State]:
        """Where a block that ends at a place goes on."""
        last = self.function.instructions[stop - 1]
        holds = self._holds(last, facts)
        if holds is not False:
            for target in last.targets:
                yield target, self._with(last, facts, holds=True)
        if last.falls_through and not (last.targets and last.predicate is not None and holds):
            yield stop, self._with(last, facts, holds=False) if last.targets else facts

    @cached_property
    def _stops(self) -> Mapping[int, int]:
        """Index of each instruction to that behind its block."""
        return {place: block.stop for block in self.flow.blocks for place in range(block.start, block.stop)}

    @cached_property
    def _conditions(self) -> Mapping[int, tuple[str, bool]]:
        """Indices of guarded instructions to their condition and what it must be; of conditions that several have."""
        named = conditions(self.function, self.flow)
        guarded = ((one, named.get(one.predicate)) for one in self.function.instructions if one.predicate is not None)
        found = {one.index: (known[0], one.negated == known[1]) for one, known in guarded if known is not None}
        often = Counter(condition for condition, _ in found.values())
        return {place: known for place, known in found.items() if often[known[0]] > 1}

    def _holds(self, instruction: Instruction, facts: _Facts) -> bool | None:
        """Whether a guard lets an instruction be executed; None where that is not known."""
        if instruction.predicate is None:
            return True
        if (condition := self._conditions.get(instruction.index)) is None:
            return None
        name, needed = condition
        return next((known == needed for fact, known in facts if fact == name), None)

    def _with(self, instruction: Instruction, facts: _Facts, *, holds: bool) -> _Facts:
        """What is known where the guard of an instruction holds, or does not."""
        condition = self._conditions.get(instruction.index)
        return facts if condition is None else facts | {(condition[0], condition[1] == holds)}
