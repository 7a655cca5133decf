"""Local memory: registers that ptxas spills, and arrays with an index that is known only at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import CodePlace, PerformanceFinding, Rule
from lab.isa.model import Function, Instruction, InstructionClass
from lab.predict.work import LaunchWork

_IN_LOOP: Final = 8
"""Weight of an access in a loop, where executions are not counted."""
_LOCAL: Final = (InstructionClass.LD_LOCAL, InstructionClass.ST_LOCAL)


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding on arrays in local memory, and one on spills."""
    arrays = [
        (function, variable)
        for function in evidence.ptx_functions
        for variable in function.variables
        if variable.space == "local"
    ]
    accesses = [access for function in evidence.ptx_functions for access in _accesses(function)]
    gain = evidence.gain(_without)
    if arrays and accesses:
        weight = Counter[object]()
        for one in accesses:
            weight[one.source] += max(1, evidence.warps(one)) * (_IN_LOOP if one.line in evidence.ptx_loops else 1)
        place = max(accesses, key=lambda one: (weight[one.source], -one.line))
        held = sum((one.count or 0) * _bytes(one.type) for _, one in arrays)
        yield PerformanceFinding(
            Rule.LOCAL_MEMORY,
            evidence.place(place, "LDL", "STL", "LD", "ST"),
            f"an array of {held} bytes per thread lies in local memory, since an index or a pointer to it is known only"
            " at run time",
            "unroll the loops around it so that every index is a constant, pass it by value to an inlined function, or"
            " keep it in shared memory",
            1.0,
            gain,
        )
    used = evidence.resources
    if used is not None and used.spill_bytes:
        spilling = [
            instruction
            for function in evidence.sass_functions
            for instruction in function.instructions
            if instruction.cls in _LOCAL
        ]
        weight = Counter[object]()
        for one in spilling:
            weight[one.source] += _IN_LOOP if one.line in evidence.sass_loops else 1
        hot = max(spilling, key=lambda one: (one.source is not None, weight[one.source], -one.line), default=None)
        where = (
            CodePlace(hot.source, 0, hot.line, f"{hot.opcode} {', '.join(hot.operands)}") if hot is not None else None
        )
        yield PerformanceFinding(
            Rule.LOCAL_MEMORY,
            where or CodePlace(),
            f"{used.registers} registers per thread do not suffice: {used.spill_store_bytes} bytes are stored and"
            f" {used.spill_load_bytes} loaded per thread (spills)",
            "allow more registers (a smaller second argument of __launch_bounds__, no -maxrregcount), or keep fewer"
            " values at once",
            1.0,
            gain,
        )


def _accesses(function: Function) -> list[Instruction]:
    """Return loads and stores of local memory; where the PTX has generic ones alone, the address of the array."""
    direct = [instruction for instruction in function.instructions if instruction.cls in _LOCAL]
    named = {variable.name for variable in function.variables if variable.space == "local"}
    taken = [
        instruction
        for instruction in function.instructions
        if instruction.opcode.startswith("mov.") and named.intersection(instruction.operands)
    ]
    return direct or taken


def _bytes(kind: str) -> int:
    digits = "".join(filter(str.isdigit, kind))
    return int(digits) // 8 if digits else 1


def _without(work: LaunchWork) -> LaunchWork:
    chain = replace(work.chain, local_loads=0.0) if work.chain is not None else None
    return replace(work, spilled=None, chain=chain)
