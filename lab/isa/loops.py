"""Natural loops of a function, their nesting, and the hot loop.

Source: Aho, Lam, Sethi, Ullman, "Compilers", 9.6. An edge is a back edge if its head dominates its tail. The natural
loop of a back edge is its head (the header) with every block that reaches the tail without passing the header. Back
edges with the same header form one loop. A cycle without a header that dominates it (an irreducible region) is not a
natural loop and is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from lab.isa.cfg import ROOT, ControlFlow
from lab.isa.dominators import immediate_dominators
from lab.isa.matrix import pipe_cycles
from lab.isa.model import Function, Instruction, InstructionClass

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Loop:
    """One natural loop.

    Attributes:
        header: Block index.
        blocks: Block indices of the body without nested loops, ascending.
        latches: Tails of its back edges, ascending.
        depth: 1 for an outermost loop.
        parent: Position, in the result of `natural_loops`, of the innermost loop around it, or None.
    """

    header: int
    blocks: tuple[int, ...]
    latches: tuple[int, ...]
    depth: int
    parent: int | None


def natural_loops(flow: ControlFlow) -> tuple[Loop, ...]:
    """Find the natural loops.

    Returns:
        The loops, each before the loops inside it; loops with one parent in listing order of their headers.
    """
    entered, exited = _intervals(immediate_dominators(flow))
    latches = _latches(flow, entered, exited)
    innermost, parents = _nesting(flow.graph, latches, sorted(latches, key=entered.__getitem__, reverse=True))
    own_blocks: dict[int, list[int]] = {header: [] for header in latches}
    for block in sorted(innermost):
        own_blocks[innermost[block]].append(block)
    children: dict[int | None, list[int]] = {}
    for header in sorted(latches):
        children.setdefault(parents.get(header), []).append(header)
    loops: list[Loop] = []
    pending: list[tuple[int, int, int | None]] = [(header, 1, None) for header in reversed(children.get(None, []))]
    while pending:
        header, depth, parent = pending.pop()
        position = len(loops)
        loops.append(Loop(header, tuple(own_blocks[header]), tuple(sorted(latches[header])), depth, parent))
        pending += [(child, depth + 1, position) for child in reversed(children.get(header, []))]
    return tuple(loops)


def _latches(flow: ControlFlow, entered: dict[int, int], exited: dict[int, int]) -> dict[int, list[int]]:
    """Map each header to the tails of its back edges."""
    latches: dict[int, list[int]] = {}
    for tail, head in flow.graph.edges:
        if head != ROOT and entered[head] <= entered[tail] and exited[tail] <= exited[head]:
            latches.setdefault(head, []).append(tail)
    return latches


def _intervals(dominators: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the entry and exit times of each block in a walk of the dominator tree.

    Block a dominates block b if the interval of b lies within that of a.
    """
    children: dict[int, list[int]] = {}
    for block, dominator in dominators.items():
        if block != ROOT:
            children.setdefault(dominator, []).append(block)
    entered: dict[int, int] = {}
    exited: dict[int, int] = {}
    clock, pending = count(), [ROOT]
    while pending:
        block = pending[-1]
        if block in entered:
            exited[block] = next(clock)
            pending.pop()
        else:
            entered[block] = next(clock)
            pending += children.get(block, [])
    return entered, exited


def _nesting(
    graph: nx.DiGraph, latches: dict[int, list[int]], headers: list[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Map each block in a loop to its innermost header, and each header to the header of the loop around it.

    A backward walk from a loop's latches treats each nested loop as one block, since all of its blocks belong to the
    body. So every edge is followed once, however deep the nesting.

    Args:
        graph: The control-flow graph.
        latches: Each header with the tails of its back edges.
        headers: The headers, inner loops first.
    """
    innermost: dict[int, int] = {}
    parents: dict[int, int] = {}
    outermost: dict[int, int] = {}  # header to one around it; ends at the outermost one so far
    for header in headers:
        innermost[header] = header
        pending = list(latches[header])
        while pending:
            block = pending.pop()
            if block not in innermost:
                innermost[block] = header
                pending += graph.predecessors(block)
                continue
            inner = _last(outermost, innermost[block])
            if inner != header:
                parents[inner] = outermost[inner] = header
                pending += graph.predecessors(inner)
    return innermost, parents


def _last(chain: dict[int, int], start: int) -> int:
    """Return the end of a chain, with path compression."""
    end = start
    while end in chain:
        end = chain[end]
    while start != end:
        chain[start], start = end, chain[start]
    return end


_DEEPER: Final = 8
"""Iterations assumed per iteration of the enclosing loop; compilers without a profile guess about as much."""

_DEEPEST: Final = 300
"""Nesting depth at which the loop weight saturates: 8^300 still fits a float."""

_WEIGHTS: Final = {
    InstructionClass.MMA: 64.0,
    InstructionClass.FMA: 8.0,
    InstructionClass.SPECIAL: 8.0,
    InstructionClass.ATOMIC: 8.0,
    InstructionClass.BULK_COPY: 8.0,
    InstructionClass.LD_GLOBAL: 4.0,
    InstructionClass.ST_GLOBAL: 4.0,
    InstructionClass.CP_ASYNC: 4.0,
    InstructionClass.FLOAT: 2.0,
    InstructionClass.CONVERT: 2.0,
    InstructionClass.SHUFFLE: 2.0,
    InstructionClass.LD_SHARED: 2.0,
    InstructionClass.ST_SHARED: 2.0,
    InstructionClass.LD_LOCAL: 2.0,
    InstructionClass.ST_LOCAL: 2.0,
}
_ANY: Final = 0.25
"""Weight of the other classes: addresses, conditions and moves only serve the instructions that do the work."""


def hot_loop(function: Function, flow: ControlFlow, loops: Sequence[Loop]) -> int | None:
    """Return the loop that executes most of the work, judged by the static code.

    The work of a loop is the sum of its instructions' weights, without nested loops, times 8 for each loop around it.
    The weights: 64 for tensor cores, and 64 more for every four pipe cycles beyond the first four; 8 for fma, special
    functions, atomics and bulk copies; 4 for global memory; 2 for shared and local memory, other floating-point
    arithmetic, conversions and shuffles; 1/4 for all else. So a small loop without work does not replace the unrolled
    loop around it, an outer loop does not win by its nested loops, and an unrolled loop wins over its remainder loop.
    Ties go to the deeper loop, then to the one with more instructions, then to the first.

    Args:
        function: The function.
        flow: Its control-flow graph.
        loops: Its natural loops.

    Returns:
        Position in `loops`, or None if there are no loops.
    """
    if not loops:
        return None
    work, sizes = [0.0] * len(loops), [0] * len(loops)
    for place in reversed(range(len(loops))):  # each loop stands before the loops inside it
        loop = loops[place]
        body = own_instructions(function, flow, loop)
        work[place] = sum(map(_weight, body)) * _DEEPER ** min(loop.depth - 1, _DEEPEST)
        sizes[place] += len(body)
        if loop.parent is not None:
            sizes[loop.parent] += sizes[place]
    return max(range(len(loops)), key=lambda place: (work[place], loops[place].depth, sizes[place], -place))


def _weight(instruction: Instruction) -> float:
    weight = _WEIGHTS.get(instruction.cls, _ANY)
    if instruction.cls is InstructionClass.MMA:
        weight *= max(1.0, pipe_cycles(instruction.opcode) / _CYCLES)
    return weight


_CYCLES: Final = 4
"""Tensor core cycles of m16n8k16 on sm_90."""


def own_instructions(function: Function, flow: ControlFlow, loop: Loop) -> list[Instruction]:
    """Return the instructions of a loop's body without nested loops, in listing order."""
    blocks = [flow.blocks[index] for index in loop.blocks]
    return [instruction for block in blocks for instruction in function.instructions[block.start : block.stop]]
