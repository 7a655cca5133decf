"""Expansion of vector registers (``.reg .v4 .f32 v``) into ``v.x``, ``v.y``, ``v.z`` and ``v.w``."""

from __future__ import annotations

import re
from dataclasses import replace

from lab.isa.model import Function, Instruction, Variable

_COMPONENTS = "xyzw"
_COLOURS = dict(zip("rgba", _COMPONENTS, strict=True))
_NAME = re.compile(r"(?<![\w$%.])([A-Za-z_$%][\w$]*)(?:\.([xyzwrgba]))?(?![\w$.])", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.ASCII)


def with_vectors_expanded(function: Function) -> Function:
    """Expand a function's vector registers into their elements.

    A whole vector as an operand becomes ``{v.x, v.y}``; an element by its colour, ``v.r``, becomes ``v.x``.
    """
    vectors = [variable for variable in function.variables if variable.space == "reg" and variable.vector > 1]
    if not vectors:
        return function
    single = {variable.name: variable for variable in vectors if not variable.parameterised}
    families = {variable.name: variable for variable in vectors if variable.parameterised}

    def vector(name: str) -> Variable | None:
        numbered = _NUMBERED.match(name)
        return single.get(name) or (families.get(numbered[1]) if numbered else None)

    def element(match: re.Match[str]) -> str:
        name, component = match[1], match[2]
        declaration = vector(name)
        if declaration is None:
            return match[0]
        if component:
            return f"{name}.{_COLOURS.get(component, component)}"
        return "{" + ", ".join(f"{name}.{axis}" for axis in _COMPONENTS[: declaration.vector]) + "}"

    def expanded(instruction: Instruction) -> Instruction:
        texts = tuple(_NAME.sub(element, text) for text in instruction.operands)
        return replace(instruction, operands=texts)

    return replace(function, instructions=tuple(map(expanded, function.instructions)))
