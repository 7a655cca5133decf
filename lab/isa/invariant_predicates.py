"""Loop-invariant PTX predicates, by the comparison that defines them."""

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
    """Return the registers and symbols in an operand: `%r1` and `%r2` of ``{%r1, %r2}``."""
    return tuple(_NAME.findall(operand))


_OPPOSITES: Final = {"ne": "eq", "ge": "lt", "gt": "le"}
_COMPARISON: Final = re.compile(r"setp\.(eq|ne|lt|le|gt|ge)\.([sub]\d+)\Z", re.ASCII)
_SIDES: Final = 2
"""Operands of a plain comparison. With more operands, setp combines its result with another predicate."""


def conditions(function: Function, flow: ControlFlow) -> dict[str, tuple[str, bool]]:
    """Return the conditions of the PTX predicates that have one value throughout.

    Such a predicate is written once, outside of loops. Its condition is its comparison if that compares integers and
    both sides have one value, too; else the predicate's own name.

    Returns:
        Maps a predicate to its condition and whether it is negated; empty for SASS, whose registers are reused.
    """
    write_counts: Counter[str] = Counter()
    writers: dict[str, Instruction] = {}
    for instruction in function.instructions:
        if instruction.address is not None:
            return {}
        for name in names(instruction.operands[0]) if instruction.operands else ():
            write_counts[name] += 1
            writers[name] = instruction
    repeated = _repeated(flow)

    def constant(text: str) -> bool:
        if text in writers:
            return write_counts[text] == 1 and writers[text].index not in repeated
        with suppress(ValueError):
            integer(text)
            return True
        return False

    def meaning(predicate: str) -> tuple[str, bool]:
        writer = writers[predicate]
        compared = _COMPARISON.match(writer.opcode)
        target, *sides = writer.operands
        if compared is None or target != predicate or len(sides) != _SIDES or not all(map(constant, sides)):
            return predicate, False
        word, type_ = compared.groups()
        return f"{_OPPOSITES.get(word, word)}.{type_} {', '.join(sides)}", word in _OPPOSITES

    guards = {instruction.predicate for instruction in function.instructions if instruction.predicate is not None}
    return {name: meaning(name) for name in guards if name in writers and constant(name)}


def _repeated(flow: ControlFlow) -> frozenset[int]:
    """Return the indices of the instructions in cycles."""
    import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

    indices: set[int] = set()
    for component in nx.strongly_connected_components(flow.graph):
        if len(component) > 1 or any(flow.graph.has_edge(block, block) for block in component):
            for block in component:
                indices.update(range(flow.blocks[block].start, flow.blocks[block].stop))
    return frozenset(indices)
