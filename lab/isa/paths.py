"""Code reachable by warps between two cut points, along paths whose guards do not contradict each other.

A path records the outcome of every guard it passes. Guards whose condition has one value throughout
(`lab.isa.invariant_predicates`) decide later guards with the same condition, so a kernel may split its warps by role,
join them at a barrier, and split them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab.isa.cfg import ROOT, ControlFlow
from lab.isa.invariant_predicates import conditions
from lab.isa.model import Function, Instruction

_Facts = frozenset[tuple[str, bool]]
"""Conditions known to hold, or not to hold."""
_State = tuple[int, _Facts]
"""A point of execution: an instruction's index, and the conditions known there."""

_MOST_STATES: Final = 20_000
"""States per cut up to which conditions are tracked; beyond, infeasible paths may be included."""

_ENTRY: Final = -1
_ELSEWHERE: Final = -2
"""Pseudo-entry of code that is not statically reachable from the entry."""

_ENDS: Final = frozenset({"ret", "exit", "RET", "EXIT"})


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of code without a branch.

    Attributes:
        executed: Its instructions, except those no warp executes here.
        following: Successor states.
        cuts: Cuts in it, with the conditions known after each.
        ends: Warps may exit in it.
    """

    executed: tuple[Instruction, ...] = ()
    following: tuple[_State, ...] = ()
    cuts: tuple[_State, ...] = ()
    ends: bool = False


@dataclass(frozen=True)
class Paths:
    """Paths through a function between cut points.

    Attributes:
        function: The function.
        flow: Its control flow.
        cuts: Indices of the instructions at which paths are cut.
    """

    function: Function
    flow: ControlFlow
    cuts: frozenset[int]

    def after(self, cut: int) -> Iterator[Instruction]:
        """Yield the instructions reachable from a cut, up to the next one; each may occur several times."""
        for piece in self._pieces.get(cut, {}).values():
            yield from piece.executed

    def uncut(self) -> Iterator[Instruction]:
        """Yield the instructions on paths from the entry to an exit that pass no cut."""
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
        """Reachable code by the last cut, or `_ENTRY`, up to the next cut."""
        none: _Facts = frozenset()
        roots = [self.flow.blocks[root].start for root in self.flow.graph.successors(ROOT)]
        pending = [(_ELSEWHERE if start else _ENTRY, (start, none)) for start in roots]
        by_cut: dict[int, dict[_State, _Piece]] = {_ENTRY: {}}
        while pending:
            last, (index, facts) = pending.pop()
            reached = by_cut.setdefault(last, {})
            state = index, facts if len(reached) < _MOST_STATES else none
            if state not in reached:
                reached[state] = piece = self._piece(*state)
                pending += ((last, following) for following in piece.following)
                pending += ((cut, (cut + 1, facts_after)) for cut, facts_after in piece.cuts)
        return by_cut

    def _piece(self, start: int, facts: _Facts) -> _Piece:
        if start == len(self.function.instructions):  # a label after the last instruction
            return _Piece(ends=True)
        executed: list[Instruction] = []
        cuts: list[_State] = []
        stop, ends = self._stops[start], False
        for instruction in self.function.instructions[start:stop]:
            holds = self._holds(instruction, facts)
            if holds is False:
                continue
            cut, leaves = instruction.index in self.cuts, instruction.opcode.partition(".")[0] in _ENDS
            if not cut and not leaves:
                executed.append(instruction)
                continue
            ends = ends or leaves
            if cut:
                cuts.append((instruction.index, self._with(instruction, facts, holds=True)))
            if holds:
                return _Piece(tuple(executed), (), tuple(cuts), ends)
            facts = self._with(instruction, facts, holds=False)
        return _Piece(tuple(executed), tuple(self._following(stop, facts)), tuple(cuts), ends)

    def _following(self, stop: int, facts: _Facts) -> Iterator[_State]:
        """Yield the successor states of a block that ends at an index."""
        last = self.function.instructions[stop - 1]
        holds = self._holds(last, facts)
        if holds is not False:
            for target in last.targets:
                yield target, self._with(last, facts, holds=True)
        if last.falls_through and not (last.targets and last.predicate is not None and holds):
            yield stop, self._with(last, facts, holds=False) if last.targets else facts

    @cached_property
    def _stops(self) -> Mapping[int, int]:
        """Maps the index of each instruction to the end of its block."""
        return {index: block.stop for block in self.flow.blocks for index in range(block.start, block.stop)}

    @cached_property
    def _conditions(self) -> Mapping[int, tuple[str, bool]]:
        """Conditions of guarded instructions and their required values, by index; only conditions used repeatedly."""
        by_predicate = conditions(self.function, self.flow)
        guarded = (
            (instruction, by_predicate.get(instruction.predicate))
            for instruction in self.function.instructions
            if instruction.predicate is not None
        )
        by_index = {
            instruction.index: (meaning[0], instruction.negated == meaning[1])
            for instruction, meaning in guarded
            if meaning is not None
        }
        often = Counter(condition for condition, _ in by_index.values())
        return {index: meaning for index, meaning in by_index.items() if often[meaning[0]] > 1}

    def _holds(self, instruction: Instruction, facts: _Facts) -> bool | None:
        """Return whether an instruction's guard holds; None if unknown."""
        if instruction.predicate is None:
            return True
        if (condition := self._conditions.get(instruction.index)) is None:
            return None
        name, required = condition
        return next((held == required for fact, held in facts if fact == name), None)

    def _with(self, instruction: Instruction, facts: _Facts, *, holds: bool) -> _Facts:
        """Return the facts after assuming that an instruction's guard holds, or does not."""
        condition = self._conditions.get(instruction.index)
        return facts if condition is None else facts | {(condition[0], condition[1] == holds)}
