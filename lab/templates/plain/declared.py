"""Find the constant-memory variables without initialiser in a source, which its host must set."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.isa.cuda.kernels import SourceKernel, SourceParameter, read_declared, read_kernels, type_aliases
from lab.isa.cuda.syntax_tree import arrays_in, declarators, parse, words
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


def declared_constants(text: str, kernel: SourceKernel, known_names: Collection[str]) -> tuple[DeclaredConstant, ...]:
    """Return the variables that a kernel names, and those that no kernel names, since a function may use them.

    Args:
        text: The source.
        kernel: One of its kernels.
        known_names: Names that the experiment has.
    """
    if "__constant__" not in text:
        return ()
    aliases, other_bodies = type_aliases(text), [token.body for token in read_kernels(text) if token != kernel]
    constants, extent = [], extents_in(text, known_names)
    for node in parse(text).find("declaration"):
        for declarator in declarators(node):
            variable = read_declared(node, declarator, aliases, decays=False)
            is_open = variable.name and declarator.type != "init_declarator" and "__constant__" in words(node)
            if is_open and _is_for(variable.name, text, kernel, other_bodies):
                sizes = [array.child_by_field_name("size") for array in arrays_in(declarator)]
                constants.append(DeclaredConstant(variable, tuple(extent(size) if size else "" for size in sizes)))
    return tuple(constants)


def _is_for(name: str, text: str, kernel: SourceKernel, other_bodies: Sequence[tuple[int, int]]) -> bool:
    used = re.compile(rf"\b{re.escape(name)}\b")
    return bool(used.search(text, *kernel.body)) or not any(used.search(text, *body) for body in other_bodies)
