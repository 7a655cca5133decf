"""The call graph: functions a kernel can call, directly or by address, and which are recursive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.emulator import operands
from lab.emulator.errors import UnsupportedInstruction, text_of
from lab.isa.model import Function, Instruction, Module

PRINT = "vprintf"  # what printf() calls
ASSERTION = "__assertfail"  # what a failed assert() calls
PROVIDED = (PRINT, ASSERTION)
"""External functions the emulator provides."""

CODE_WINDOW = 4 << 36
"""The base of function addresses, outside loadable memory."""

_FUNCTION_BYTES = 16
_NAME = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)
_HEAP = ("malloc", "free", "calloc", "realloc", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm")


@dataclass(frozen=True, slots=True)
class Call:
    """A decoded call instruction.

    Attributes:
        target: A function's name, or the register with its address.
        results: Destinations of the results, in the function's order.
        arguments: The actual arguments, in the function's order.
        listed: The label of the table or prototype of an indirect call; empty where there is none.
    """

    target: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    listed: str


def call_of(instruction: Instruction) -> Call | None:
    """Decode `call (results), target, (arguments), listed`; return None for other instructions.

    Raises:
        UnsupportedInstruction: the call has no function name.
    """
    if instruction.opcode.split(".", 1)[0] != "call":
        return None
    remaining = list(instruction.operands)
    results = operands.elements(remaining.pop(0)) if remaining and remaining[0].startswith("(") else ()
    target = remaining.pop(0) if remaining else ""
    arguments = operands.elements(remaining.pop(0)) if remaining and remaining[0].startswith("(") else ()
    if not _NAME.fullmatch(target) or len(remaining) > 1:
        raise UnsupportedInstruction(instruction.line, text_of(instruction), "a call without a function or register")
    return Call(target, results, arguments, remaining[0] if remaining else "")


class CallGraph:
    """The functions a kernel can call.

    Attributes:
        functions: The kernel and every function it can call.
        recursive: For each function, the number of its cycle of mutual recursion; -1 where it is not recursive.
    """

    def __init__(self, module: Module, kernel: Function) -> None:
        """Follow the calls from a kernel.

        Raises:
            UnsupportedInstruction: a called function is neither defined nor provided.
        """
        import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

        self._module = module
        self._by_name = {function.name: function for function in module.functions}
        self._places = {function.name: i for i, function in enumerate(module.functions)}
        self._kernel = kernel
        self._edges = nx.DiGraph()
        self._taken: set[str] = set()
        self._indirect: set[str] = set()  # functions with calls to any function whose address is taken
        self._follow()
        self.functions = self._ordered()
        self.recursive = self._cycles()

    def address(self, name: str) -> int | None:
        """Return a function's address; None where the module does not define it."""
        place = self._places.get(name)
        return None if place is None else CODE_WINDOW + _FUNCTION_BYTES * (place + 1)

    def again(self, caller: int, callee: int) -> bool:
        """Return whether a call can recurse into its caller, by their positions in `functions`."""
        return self.recursive[caller] >= 0 and self.recursive[caller] == self.recursive[callee]

    def _follow(self) -> None:
        todo, visited = [self._kernel], {self._kernel.name}
        self._edges.add_node(self._kernel.name)
        initialised = False
        while todo:
            function = todo.pop()
            for instruction in function.instructions:
                for name in self._named(function, instruction):
                    if name not in visited:
                        visited.add(name)
                        todo.append(self._by_name[name])
            if self._indirect and not initialised:
                initialised = True
                for name in self._initial_names():
                    self._taken.add(name)
                    if name not in visited:
                        visited.add(name)
                        todo.append(self._by_name[name])
        for caller in self._indirect:
            self._edges.add_edges_from((caller, name) for name in self._taken)

    def _named(self, function: Function, instruction: Instruction) -> Iterator[str]:
        """Yield the functions an instruction calls or takes the address of."""
        call = call_of(instruction)
        if call is None:
            name = instruction.operands[-1] if instruction.operands else ""
            if name in self._by_name:
                self._taken.add(name)
                yield name
            return
        if is_register(function, call.target):
            listed = function.tables.get(call.listed)
            if listed is None:
                self._indirect.add(function.name)
            for name in listed or ():
                yield self._called(function, instruction, name)
        elif call.target not in PROVIDED:
            yield self._called(function, instruction, call.target)

    def _called(self, function: Function, instruction: Instruction, name: str) -> str:
        if name not in self._by_name:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), _why_missing(name))
        self._edges.add_edge(function.name, name)
        return name

    def _initial_names(self) -> Iterator[str]:
        """Yield the functions whose addresses are in initialisers, such as vtables."""
        variables = [*self._module.variables]
        for function in self._module.functions:
            variables += [variable for variable in function.variables if variable.initial]
        for variable in variables:
            for text in variable.initial:
                parts = operands.symbol(text) if text[:1].isalpha() or text[:1] in "_$" else None
                if parts is not None and parts[0] in self._by_name:
                    yield parts[0]

    def _ordered(self) -> list[Function]:
        """Return the functions: the kernel first, callees after callers where possible."""
        import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

        reached = [self._kernel.name, *nx.descendants(self._edges, self._kernel.name)]
        loose = [name for name in sorted(self._taken) if name not in set(reached)]
        reached += loose
        graph = nx.DiGraph(self._edges.subgraph(reached))
        graph.add_nodes_from(loose)
        graph.remove_node(self._kernel.name)
        callees: Iterable[str]
        if nx.is_directed_acyclic_graph(graph):
            callees = nx.topological_sort(graph)
        else:
            callees = sorted(graph.nodes, key=self._places.__getitem__)
        return [self._by_name[name] for name in (self._kernel.name, *callees)]

    def _cycles(self) -> list[int]:
        import networkx as nx  # noqa: PLC0415 - it takes a tenth of a second, and few processes read code

        numbers = {function.name: -1 for function in self.functions}
        for i, component in enumerate(nx.strongly_connected_components(self._edges)):
            first = next(iter(component))
            if len(component) > 1 or self._edges.has_edge(first, first):
                numbers |= dict.fromkeys((name for name in component if name in numbers), i)
        return [numbers[function.name] for function in self.functions]


def is_register(function: Function, name: str) -> bool:
    """Return whether a call's target is a register holding an address."""
    if name.startswith("%"):
        return True
    return any(variable.space == "reg" and variable.name == name for variable in function.variables)


def _why_missing(name: str) -> str:
    if name in _HEAP:
        return f"{name} needs the device's heap, which the emulator does not have"
    if name.startswith("cuda"):
        return f"{name} belongs to the device runtime (dynamic parallelism), which the emulator does not have"
    return f"{name} is not defined in this PTX"
