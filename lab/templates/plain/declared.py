"""Reads which variables in constant memory a source declares without a value, so that its host has to set them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.isa.cuda.kernels import SourceKernel, SourceParameter, read_declared, read_kernels, type_aliases
from lab.isa.cuda.tree import arrays_in, declarators, parse, words
from lab.templates.plain.launches import extents_in


@dataclass(frozen=True, slots=True)
class DeclaredConstant:
    """A variable in constant memory.

    Attributes:
        variable: Its name and its element type.
        shape: Its extents in the expressions of experiment files; an extent that is unknown is empty.
    """

    variable: SourceParameter
    shape: tuple[str, ...]


def declared_constants(text: str, kernel: SourceKernel, known: Collection[str]) -> tuple[DeclaredConstant, ...]:
    """Return those that a kernel names, and those that no kernel names, since a function may.

    Args:
        text: The source.
        kernel: One of its kernels.
        known: Names that the experiment has.
    """
    if "__constant__" not in text:
        return ()
    aliases, others = type_aliases(text), [one.body for one in read_kernels(text) if one != kernel]
    found, extent = [], extents_in(text, known)
    for node in parse(text).find("declaration"):
        for declarator in declarators(node):
            variable = read_declared(node, declarator, aliases, decays=False)
            is_open = variable.name and declarator.type != "init_declarator" and "__constant__" in words(node)
            if is_open and _is_for(variable.name, text, kernel, others):
                sizes = [array.child_by_field_name("size") for array in arrays_in(declarator)]
                found.append(DeclaredConstant(variable, tuple(extent(size) if size else "" for size in sizes)))
    return tuple(found)


def _is_for(name: str, text: str, kernel: SourceKernel, others: Sequence[tuple[int, int]]) -> bool:
    used = re.compile(rf"\b{re.escape(name)}\b")
    return bool(used.search(text, *kernel.body)) or not any(used.search(text, *body) for body in others)
