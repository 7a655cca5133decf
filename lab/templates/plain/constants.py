"""Check an experiment's constant memory against the variables declared in its source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.base.errors import UserError, did_you_mean
from lab.hardware.tensormaps import BYTES
from lab.isa.cuda.names import used_names
from lab.isa.cuda.types import element_type
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.symbols import ConstantVariable


def constants_error(
    template: PlainTemplate, variables: Mapping[str, ConstantVariable], sizes: Mapping[str, int]
) -> UserError | None:
    """Return the first mismatch, or None.

    A variable that the source declares under a condition alone may be missing in a variant.

    Args:
        template: The source, with what its experiment puts into constant memory.
        variables: Variables in constant memory of one variant's PTX, by name.
        sizes: Bytes that the experiment has for each.
    """
    for name, dtype in template.constant_memory:
        at, key = template.document.at("constants", name), f"constants.{name}"
        if name not in variables:
            if name in used_names(template.text):
                continue
            names = [variable for variable in variables if not variable.startswith("__")]
            return UserError(
                f"{template.name} has no such variable in constant memory",
                code="unknown-name",
                at=at,
                key=key,
                found=name,
                accepted=names or "the name of a variable that is declared __constant__",
                suggestion=did_you_mean(name, names),
            )
        if dtype == TENSOR_MAP:
            if variables[name].bytes == BYTES:
                continue
            return UserError(
                f"the variable {name} in constant memory has {variables[name].bytes} bytes",
                code="out-of-range",
                at=at,
                key=key,
                found="a tensor map",
                accepted=f"a variable of {BYTES} bytes for it: __constant__ CUtensorMap {name}",
            )
        if sizes[name] > variables[name].bytes:
            return UserError(
                f"the variable {name} in constant memory has {variables[name].bytes} bytes",
                code="out-of-range",
                at=at,
                key=key,
                found=f"{sizes[name]} bytes",
                accepted=f"at most {variables[name].bytes} bytes",
            )
        declared_type = _declared_type(template.text, name)
        element = element_type(declared_type) if declared_type else None
        if element is not None and not _same(element.dtype, dtype):
            return UserError(
                f"the variable {name} in constant memory is {declared_type}",
                code="mismatch",
                at=at,
                key=key,
                found=dtype,
                accepted=element.dtype,
            )
    return None


def _declared_type(text: str, name: str) -> str:
    """Return the declared type of a variable; empty if it cannot be parsed."""
    match = re.search(rf"__constant__\s+(?:__device__\s+)?([\w:<>\s]+?)\s+{re.escape(name)}\s*[\[;=({{]", text)
    return match[1].removeprefix("const ").strip() if match else ""


def _same(theirs: str, ours: str) -> bool:
    """Return whether two types have the same bits; integer signs are ignored, and complex numbers are float pairs."""
    plain = [element.removeprefix("u").replace("bool", "int8") for element in (theirs, ours)]
    return plain[0] == plain[1] or "complex" in ours
