"""Calls of device functions: which function is called, and the parameters that pass both ways."""

from __future__ import annotations

from dataclasses import dataclass

from lab.emulator import operands
from lab.emulator.binding import unsupported
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import Region
from lab.emulator.program import Place, Program, callee


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Copies parameters between the frames of callers and callees.

    Attributes:
        program: The functions, and where their parameters lie.
        frame: Call parameters, a row for each thread.
    """

    program: Program
    frame: Region

    def function(self, position: int) -> int:
        """Return the number of the function that a call instruction names."""
        name = callee(self.program.code[position][1])
        return next(i for i, function in enumerate(self.program.functions) if function.name == name)

    def pass_arguments(self, position: int, lanes: Lanes) -> None:
        """Copy the arguments of a call from its caller's frame to the callee's."""
        for caller, theirs in self._pairs(position, results=False):
            self._copy(caller, theirs, lanes)

    def return_results(self, position: int, lanes: Lanes) -> None:
        """Copy the results of a call from the callee's frame to its caller's."""
        for caller, theirs in self._pairs(position, results=True):
            self._copy(theirs, caller, lanes)

    def _pairs(self, position: int, *, results: bool) -> list[tuple[Place, Place]]:
        """Return the caller's and the callee's place of each argument, or of each result.

        Raises:
            UnsupportedInstruction: an argument is not a parameter variable of the caller.
        """
        number, instruction = self.program.code[position]
        called = self.function(position)
        function = self.program.functions[called]
        lists = [operand for operand in instruction.operands if operand.startswith("(")]
        names_at = instruction.operands.index(callee(instruction) or "")
        returned = lists[0] if names_at == 1 else "()"
        passed = lists[-1] if len(instruction.operands) > names_at + 1 and lists else "()"
        actual = operands.elements(returned if results else passed)
        formal = function.results if results else function.parameters
        pairs = []
        for mine, theirs in zip(actual, formal, strict=True):
            here = self.program.places.get((number, mine))
            if here is None:
                raise unsupported(instruction, f"{mine} is not a parameter")
            pairs.append((here, self.program.places[called, theirs.name]))
        return pairs

    def _copy(self, source: Place, target: Place, lanes: Lanes) -> None:
        frame = self.frame.data.reshape(-1, self.frame.stride)
        size, rows = min(source.size, target.size), lanes.rows
        frame[rows, target.offset : target.offset + size] = frame[rows, source.offset : source.offset + size]
