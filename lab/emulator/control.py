"""Basic blocks and the scheduling order of diverged groups of threads.

The first group in a weak topological order of the control-flow graph runs first (Bourdoncle,
Efficient chaotic iteration strategies with widenings, 1993). In this order, everything on the way to a reconvergence
point precedes it, and a loop's body precedes the code after the loop, whatever the compiler's code layout. So diverged
threads wait for each other at reconvergence points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.isa.model import Function, Instruction
from lab.isa.roles import given_registers

if TYPE_CHECKING:
    import networkx as nx

BARRIERS = ("bar", "barrier")

_TOGETHER = ("wmma", "mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "setmaxnreg")
"""Instructions that all lanes of a warp execute together."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A basic block of the program.

    Attributes:
        index: Position among the program's blocks.
        function: Position of its function.
        first: First instruction of the program.
        stop: One past the last instruction that is not the terminator.
        end: The terminator, or None where threads fall through.
        following: The next block in the listing, or -1 at the end of a function.
        gate: The block begins with an instruction at which lanes of a warp wait for each other.
        takes: Registers per thread requested at the block's start (`setmaxnreg.inc`); 0 for none.
    """

    index: int
    function: int
    first: int
    stop: int
    end: int | None
    following: int
    gate: bool
    takes: int = 0


def ends_block(instruction: Instruction) -> bool:
    """Return whether threads may diverge, wait or exit at an instruction."""
    family, *parts = instruction.opcode.split(".")
    if family in BARRIERS:
        return "warp" not in parts
    if is_wait(instruction):
        return True
    return family in ("bra", "brx", "call", "ret", "exit", "trap", "brkpt")


def is_wait(instruction: Instruction) -> bool:
    """Return whether an instruction waits for an mbarrier phase."""
    family, *parts = instruction.opcode.split(".")
    return family == "mbarrier" and parts[:1] in (["try_wait"], ["test_wait"])


def is_gate(instruction: Instruction) -> bool:
    """Return whether a warp, or the lanes in a mask, must execute an instruction together."""
    family, *parts = instruction.opcode.split(".")
    if family in ("shfl", "vote", "match", "redux", "elect"):
        return "sync" in parts
    if family == "tcgen05":
        return "sync" in parts
    return family in _TOGETHER or (family in BARRIERS and "warp" in parts)


def taken_registers(instruction: Instruction) -> int:
    """Return the registers per thread that an instruction requests; 0 for none."""
    return (given_registers(instruction) or 0) if instruction.opcode.startswith("setmaxnreg.inc.") else 0


def split(function: Function, number: int, first_block: int, offset: int) -> list[CodeBlock]:
    """Split a function into basic blocks.

    Args:
        function: The function.
        number: Its position in the program.
        first_block: Index of its first block in the program.
        offset: Index of its first instruction in the program.
    """
    code = function.instructions
    leaders = {0}
    for instruction in code:
        leaders.update(instruction.targets)
        if ends_block(instruction):
            leaders.add(instruction.index + 1)
        if is_gate(instruction):
            leaders.add(instruction.index)
    for names in function.tables.values():
        leaders.update(function.labels[name] for name in names if name in function.labels)
    starts = sorted(leader for leader in leaders if leader < len(code))
    blocks = []
    for i, start in enumerate(starts):
        stop = starts[i + 1] if i + 1 < len(starts) else len(code)
        ended = ends_block(code[stop - 1])
        blocks.append(
            CodeBlock(
                first_block + i,
                number,
                offset + start,
                offset + stop - ended,
                offset + stop - 1 if ended else None,
                first_block + i + 1 if i + 1 < len(starts) else -1,
                is_gate(code[start]),
                taken_registers(code[start]),
            )
        )
    return blocks


def weak_topological_order(graph: nx.DiGraph, entry: int) -> list[int]:
    """Return the reachable nodes, with loops contiguous and before the nodes that follow them."""
    import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

    reached = graph.subgraph(nx.descendants(graph, entry) | {entry})
    order: list[int] = []
    _append_component(nx.DiGraph(reached), entry, order)
    return order


def _append_component(graph: nx.DiGraph, head: int, order: list[int]) -> None:
    import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

    condensed = nx.condensation(graph)
    # Ties are broken by address: code runs in listing order where the graph allows it.
    lowest = {node: min(data["members"]) for node, data in condensed.nodes(data=True)}
    for component in nx.lexicographical_topological_sort(condensed, key=lambda node: lowest[node]):
        members = condensed.nodes[component]["members"]
        if len(members) == 1:
            order.append(next(iter(members)))
            continue
        inside = nx.DiGraph(graph.subgraph(members))
        entries = {v for u, v in graph.edges if v in members and u not in members}
        header = head if head in members else min(entries or members)
        inside.remove_edges_from(list(inside.in_edges(header)))
        _append_component(inside, header, order)
