"""Basic blocks and the control-flow graph of a function, for PTX and SASS alike."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.isa.model import Function, Instruction

if TYPE_CHECKING:
    import networkx as nx

ROOT = -1
"""A virtual node before the entry. It also leads to code reached only by a call or an unresolved indirect branch."""


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: instructions that execute one after the other.

    Attributes:
        index: Position in `ControlFlow.blocks`, in listing order.
        start: Index of its first instruction.
        stop: Index after its last instruction.
    """

    index: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """Blocks and the edges between them.

    Attributes:
        blocks: In listing order; the first is the entry. Empty for an empty function.
        graph: `networkx.DiGraph` over block indices and `ROOT`. It has no edges that leave the function.
    """

    blocks: tuple[Block, ...]
    graph: nx.DiGraph


def control_flow(function: Function) -> ControlFlow:
    """Build the control-flow graph.

    A block begins at the first instruction, at every branch target, and after every branch. Neither a call nor a
    predicated exit ends a block, since within the function both lead only to the next instruction. `ROOT` has edges to
    code that the entry does not reach (subroutines behind a kernel in SASS, targets of an unresolved `BRX`), so that it
    reaches every block.
    """
    import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

    instructions = function.instructions
    blocks = _blocks(instructions)
    graph = nx.DiGraph()
    graph.add_node(ROOT)
    graph.add_nodes_from(range(len(blocks)))
    starts = {block.start: block.index for block in blocks}
    for block in blocks:
        last = instructions[block.stop - 1]
        following = (*last.targets, *((block.stop,) if last.falls_through else ()))
        graph.add_edges_from((block.index, starts[target]) for target in following if target in starts)
    graph.add_edges_from((ROOT, root) for root in _roots(graph, len(blocks)))
    return ControlFlow(blocks, graph)


def _blocks(instructions: tuple[Instruction, ...]) -> tuple[Block, ...]:
    leaders = {0, len(instructions)}
    for instruction in instructions:
        if instruction.targets or not instruction.falls_through:
            leaders.update(instruction.targets)
            leaders.add(instruction.index + 1)
    boundaries = sorted(leaders)
    return tuple(Block(index, *ends) for index, ends in enumerate(pairwise(boundaries)))


def _roots(graph: nx.DiGraph, count: int) -> list[int]:
    """Return the entry block, and the first block of each region that earlier roots do not reach."""
    roots: list[int] = []
    reached: set[int] = set()
    for block in range(count):
        if block not in reached:
            roots.append(block)
            reached.add(block)
            pending = [block]
            while pending:
                new = [node for node in graph.successors(pending.pop()) if node not in reached]
                reached.update(new)
                pending += new
    return roots
