"""Predicates of PTX that have one value throughout: two guards that have one both hold, or neither does."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Final

from lab.isa.cfg import ControlFlow
from lab.isa.model import Function, Instruction
from lab.isa.ptx.constants import integer

_NAME: Final = re.compile(r"[\w$%.]+", re.ASCII)


def names(operand: str) -> tuple[str, ...]:
    """Return the registers and symbols in an operand: both of ``{%r1, %r2}``."""
    return tuple(_NAME.findall(operand))


_OPPOSITES: Final = {"ne": "eq", "ge": "lt", "gt": "le"}
_COMPARISON: Final = re.compile(r"setp\.(eq|ne|lt|le|gt|ge)\.([sub]\d+)\Z", re.ASCII)
_SIDES: Final = 2
"""What a plain comparison compares; one with more combines its result with another predicate."""


def conditions(function: Function, flow: ControlFlow) -> dict[str, tuple[str, bool]]:
    """Return what predicates of PTX mean that have one value throughout.

    Such a predicate is written once, outside of loops. It is known by its comparison where that is of integers and both
    sides have one value, too; else by its own name.

    Returns:
        Predicate to the condition and whether it is the opposite of it; empty for SASS, whose registers are used again.
    """
    written: Counter[str] = Counter()
    by: dict[str, Instruction] = {}
    for one in function.instructions:
        if one.address is not None:
            return {}
        for name in names(one.operands[0]) if one.operands else ():
            written[name] += 1
            by[name] = one
    repeated = _repeated(flow)

    def constant(text: str) -> bool:
        if text in by:
            return written[text] == 1 and by[text].index not in repeated
        with suppress(ValueError):
            integer(text)
            return True
        return False

    def meaning(predicate: str) -> tuple[str, bool]:
        one = by[predicate]
        compared = _COMPARISON.match(one.opcode)
        target, *sides = one.operands
        if compared is None or target != predicate or len(sides) != _SIDES or not all(map(constant, sides)):
            return predicate, False
        word, type_ = compared.groups()
        return f"{_OPPOSITES.get(word, word)}.{type_} {', '.join(sides)}", word in _OPPOSITES

    guards = {one.predicate for one in function.instructions if one.predicate is not None}
    return {name: meaning(name) for name in guards if name in by and constant(name)}


def _repeated(flow: ControlFlow) -> frozenset[int]:
    """Indices of the instructions in cycles."""
    import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

    found: set[int] = set()
    for part in nx.strongly_connected_components(flow.graph):
        if len(part) > 1 or any(flow.graph.has_edge(block, block) for block in part):
            for block in part:
                found.update(range(flow.blocks[block].start, flow.blocks[block].stop))
    return frozenset(found)
