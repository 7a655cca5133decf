"""Dominators of a control-flow graph: block a dominates block b if every path from the root to b passes a.

Source: Lengauer, Tarjan, "A fast algorithm for finding dominators in a flowgraph", ACM TOPLAS 1 (1), 1979, the simple
version, in O(edges x log blocks). The iterative algorithm of Cooper, Harvey and Kennedy, used by networkx, is quadratic
in the nesting depth of loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.isa.cfg import ROOT, ControlFlow

if TYPE_CHECKING:
    import networkx as nx


def immediate_dominators(flow: ControlFlow) -> dict[int, int]:
    """Return the immediate dominator of every block; that of `ROOT` is `ROOT`."""
    order, parents = _walk(flow.graph)
    numbers = {block: number for number, block in enumerate(order)}
    semi = list(range(len(order)))
    forest = _Forest(semi)
    waiting: list[list[int]] = [[] for _ in order]  # by semidominator
    dominators = [0] * len(order)
    for number in range(len(order) - 1, 0, -1):
        for before in flow.graph.predecessors(order[number]):
            semi[number] = min(semi[number], semi[forest.least(numbers[before])])
        waiting[semi[number]].append(number)
        parent = forest.ancestors[number] = parents[number]
        for candidate in waiting[parent]:
            least = forest.least(candidate)
            dominators[candidate] = least if semi[least] < semi[candidate] else parent
        waiting[parent].clear()
    for number in range(1, len(order)):
        if dominators[number] != semi[number]:
            dominators[number] = dominators[dominators[number]]
    return {block: order[dominators[number]] for number, block in enumerate(order)}


def _walk(graph: nx.DiGraph) -> tuple[list[int], list[int]]:
    """Return the blocks in depth-first order, and the number of each one's parent."""
    order: list[int] = []
    parents: list[int] = []
    visited: set[int] = set()
    pending = [(ROOT, 0)]
    while pending:
        block, parent = pending.pop()
        if block not in visited:
            visited.add(block)
            pending += [(after, len(order)) for after in graph.successors(block)]
            order.append(block)
            parents.append(parent)
    return order, parents


class _Forest:
    """Trees of the processed blocks, by their numbers.

    Attributes:
        ancestors: The number of each block's ancestor in its tree; -1 for a root.
    """

    def __init__(self, semi: list[int]) -> None:
        self._semi = semi
        self._least = list(range(len(semi)))
        self.ancestors = [-1] * len(semi)

    def least(self, number: int) -> int:
        """Return the block with the least semidominator on the path to the root, root excluded; compress the path."""
        ancestors, least, semi = self.ancestors, self._least, self._semi
        path: list[int] = []
        place = number
        while ancestors[place] >= 0 and ancestors[ancestors[place]] >= 0:
            path.append(place)
            place = ancestors[place]
        for place in reversed(path):
            above = ancestors[place]
            if semi[least[above]] < semi[least[place]]:
                least[place] = least[above]
            ancestors[place] = ancestors[above]
        return least[number]
