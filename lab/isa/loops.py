"""Natural loops of a function, their nesting, and the hot loop.

Aho, Lam, Sethi, Ullman, "Compilers", 9.6: an edge is a back edge if its head dominates its tail; the natural loop of a
back edge is its head (the header) with every block that reaches the tail without passing the header. Back edges with
the same header make one loop. A cycle without a header that dominates it (an irreducible region) is no natural loop
and is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from lab.isa.cfg import ROOT, ControlFlow
from lab.isa.model import Function, Instruction, InstructionClass


@dataclass(frozen=True, slots=True)
class Loop:
    """One natural loop.

    Attributes:
        header: Block index.
        blocks: Block indices of the body, nested loops included, ascending.
        latches: Tails of its back edges, ascending.
        depth: 1 for an outermost loop.
        parent: Position, in the result of `natural_loops`, of the innermost loop around it, or None.
    """

    header: int
    blocks: tuple[int, ...]
    latches: tuple[int, ...]
    depth: int
    parent: int | None


def immediate_dominators(flow: ControlFlow) -> dict[int, int]:
    """Every block's immediate dominator; `ROOT` dominates itself."""
    dominators: dict[int, int | None] = nx.immediate_dominators(flow.graph, ROOT)
    # networkx gave the start node as its own dominator up to 3.5, and None since.
    return {block: ROOT if dominator is None else dominator for block, dominator in dominators.items()} | {ROOT: ROOT}


def natural_loops(flow: ControlFlow) -> tuple[Loop, ...]:
    """Find the natural loops.

    Returns:
        Every loop before the loops inside it; loops of one parent in listing order of their headers.
    """
    latches = _latches(flow)
    bodies = {header: _body(flow.graph, header, tails) for header, tails in latches.items()}
    parents = _parents(bodies)
    children: dict[int | None, list[int]] = {}
    for header in sorted(bodies):
        children.setdefault(parents[header], []).append(header)
    loops: list[Loop] = []
    pending: list[tuple[int, int, int | None]] = [(header, 1, None) for header in reversed(children.get(None, []))]
    while pending:
        header, depth, parent = pending.pop()
        position = len(loops)
        loops.append(Loop(header, tuple(sorted(bodies[header])), tuple(sorted(latches[header])), depth, parent))
        pending += [(child, depth + 1, position) for child in reversed(children.get(header, []))]
    return tuple(loops)


def _latches(flow: ControlFlow) -> dict[int, list[int]]:
    """Header to the tails of its back edges."""
    entered, left = _intervals(immediate_dominators(flow))
    latches: dict[int, list[int]] = {}
    for tail, head in flow.graph.edges:
        if head != ROOT and entered[head] <= entered[tail] and left[tail] <= left[head]:
            latches.setdefault(head, []).append(tail)
    return latches


def _intervals(dominators: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """When a walk of the dominator tree enters and leaves each block: a dominates b if b's stay lies within a's."""
    children: dict[int, list[int]] = {}
    for block, dominator in dominators.items():
        if block != ROOT:
            children.setdefault(dominator, []).append(block)
    entered: dict[int, int] = {}
    left: dict[int, int] = {}
    clock, pending = 0, [ROOT]
    while pending:
        block = pending[-1]
        clock += 1
        if block in entered:
            left[block] = clock
            pending.pop()
        else:
            entered[block] = clock
            pending += children.get(block, [])
    return entered, left


def _body(graph: nx.DiGraph, header: int, tails: list[int]) -> set[int]:
    body = {header, *tails}
    pending = [tail for tail in tails if tail != header]
    while pending:
        new = [block for block in graph.predecessors(pending.pop()) if block not in body]
        body.update(new)
        pending += new
    return body


def _parents(bodies: dict[int, set[int]]) -> dict[int, int | None]:
    """Header to the header of the smallest loop around it."""
    parents: dict[int, int | None] = {}
    innermost: dict[int, int] = {}  # block to the smallest loop, so far, that holds it
    for header in sorted(bodies, key=lambda header: -len(bodies[header])):
        parents[header] = innermost.get(header)
        innermost.update(dict.fromkeys(bodies[header], header))
    return parents


_FMA = frozenset({InstructionClass.FMA, InstructionClass.MMA})
_MEMORY = frozenset(
    {
        InstructionClass.LD_GLOBAL,
        InstructionClass.ST_GLOBAL,
        InstructionClass.LD_SHARED,
        InstructionClass.ST_SHARED,
        InstructionClass.CP_ASYNC,
        InstructionClass.BULK_COPY,
    }
)


def hot_loop(function: Function, flow: ControlFlow, loops: Sequence[Loop]) -> int | None:
    """The loop that, judged by the text alone, executes most of the work.

    The work of a loop is its number of FMA instructions (classes `fma` and `mma`), everything nested in it included. If
    no loop of the function has one, it is the number of its memory instructions (loads and stores of global and shared
    memory, `cp.async`, bulk copies); if no loop has one of those either, the number of its instructions.

    Only innermost loops compete: those that have work and contain no other loop that has work. So a small loop
    without FMA does not take the place of the unrolled loop around it, and an outer loop does not win by what it
    contains. The one with the most work is hot: the main loop of an unrolled pair, not its remainder. Ties go to the
    deeper loop, then to the one with more instructions, then to the first.

    Args:
        function: The function.
        flow: Its control-flow graph.
        loops: Its natural loops.

    Returns:
        Position in `loops`, or None where there are none.
    """
    bodies = [loop_instructions(function, flow, loop) for loop in loops]
    for kinds in (_FMA, _MEMORY, frozenset(InstructionClass)):
        work = [sum(instruction.cls in kinds for instruction in body) for body in bodies]
        if any(work):
            outer = {loop.parent for loop, amount in zip(loops, work, strict=True) if amount}
            innermost = [place for place, amount in enumerate(work) if amount and place not in outer]
            return max(innermost, key=lambda place: (work[place], loops[place].depth, len(bodies[place]), -place))
    return None


def loop_instructions(function: Function, flow: ControlFlow, loop: Loop) -> list[Instruction]:
    """The instructions of a loop's body, nested loops included, in listing order."""
    blocks = [flow.blocks[index] for index in loop.blocks]
    return [instruction for block in blocks for instruction in function.instructions[block.start : block.stop]]
