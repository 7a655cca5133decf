"""Reads which variables in constant memory a source declares without a value, so that its host has to set them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.isa.cuda.kernels import (
    SourceKernel,
    SourceParameter,
    live_tokens,
    read_kernels,
    read_parameter,
    split_at_commas,
    type_aliases,
)
from lab.isa.cuda.tokens import Token, TokenKind
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
    stream = [one for one in live_tokens(text) if one.kind is not TokenKind.DIRECTIVE]
    aliases, others = type_aliases(stream), [one.body for one in read_kernels(text) if one != kernel]
    found, extent = [], extents_in(text, known)
    for at, token in enumerate(stream):
        if token.text != "__constant__":
            continue
        end = next((i for i in range(at, len(stream)) if stream[i].text == ";"), len(stream))
        statement = [one for one in stream[at + 1 : end] if one.text not in ("static", "__device__")]
        first, *more = split_at_commas(statement)
        name = next((i for i, one in enumerate(first) if one.text in ("[", "=")), len(first)) - 1
        for part in (first, *([*first[:name], *other] for other in more)):
            extents = next((i for i, one in enumerate(part) if one.text == "["), len(part))
            variable = read_parameter(part[:extents], aliases)
            if any(one.text in ("=", "{") for one in part):
                continue
            if variable.name and _is_for(variable.name, text, kernel, others):
                shape = tuple(map(extent, _extents(part[extents:])))
                found.append(DeclaredConstant(variable, shape))
    return tuple(found)


def _is_for(name: str, text: str, kernel: SourceKernel, others: Sequence[tuple[int, int]]) -> bool:
    used = re.compile(rf"\b{re.escape(name)}\b")
    return bool(used.search(text, *kernel.body)) or not any(used.search(text, *body) for body in others)


def _extents(part: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens between each pair of brackets: of `[3][N + 1]`, two lists."""
    found: list[list[Token]] = []
    for token in part:
        if token.text == "[":
            found.append([])
        elif token.text != "]":
            found[-1].append(token)
    return found
