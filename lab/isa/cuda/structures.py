"""Finds the structures that a CUDA source defines, as far as they are plain: values and pointers, no bit fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.isa.cuda.kernels import SourceParameter, behind, live_tokens, read_parameter, split_at_commas, type_aliases
from lab.isa.cuda.tokens import Token, TokenKind

_LANES = "xyzw"
_NOT_MEMBERS = frozenset({"static", "using", "typedef", "friend", "enum", "union", "template", "operator", "virtual"})
_HEADS_END = frozenset({"{", "}", ")", ";", ":", ",", "=", "*", "&", ">"})
_MOST_ELEMENTS = 64


def read_structures(text: str) -> dict[str, tuple[SourceParameter, ...]]:
    """Return the members of every plain structure of a source, in order, by the structure's name.

    Arrays, short vectors and structures inside a structure are taken apart: ``int size[2]`` is ``size_0`` and
    ``size_1``. A structure with a base class, a bit field or a member of unknown type is left out.
    """
    stream = live_tokens(text)
    aliases = type_aliases(stream)
    found: dict[str, tuple[SourceParameter, ...]] = {}
    for at, token in enumerate(stream):
        if token.text not in ("struct", "class"):
            continue
        brace = at + 1
        while brace < len(stream) and stream[brace].text not in _HEADS_END:
            brace = behind(stream, brace) if stream[brace].text == "(" else brace + 1  # of __align__(16)
        if brace >= len(stream) or stream[brace].text != "{":
            continue
        end = behind(stream, brace)
        names = [one.text for one in stream[at + 1 : brace] if one.kind is TokenKind.WORD and one.text != "final"]
        # behind `typedef struct {…}`
        following = [one.text for one in stream[end : end + 1] if one.kind is TokenKind.WORD]
        members = _members(stream[brace + 1 : end - 1], aliases, found)
        for name in (*names[-1:], *following) if members else ():
            found.setdefault(name, members)
    return found


def parts_of(
    parameter: SourceParameter, structures: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members of a parameter that is passed by value; none where it is a scalar or its type is unknown."""
    if parameter.is_pointer:
        return ()
    if parameter.lanes > 1:
        return tuple(replace(parameter, name=lane, lanes=1) for lane in _LANES[: parameter.lanes])
    words = parameter.c_type.replace("const", " ").replace("struct", " ").split()
    if words == ["dim3"]:
        return tuple(replace(parameter, name=axis, dtype="uint32") for axis in _LANES[:3])
    return structures.get(words[-1].rpartition("::")[2], ()) if words and parameter.dtype is None else ()


def elements_of(
    parameter: SourceParameter, structures: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members of what a pointer points to, where that is a structure of values alone; else none."""
    value = replace(parameter, pointer=0, c_type=parameter.c_type.rstrip("* "))
    members = parts_of(value, structures) if parameter.pointer == 1 else ()
    return () if any(one.is_pointer for one in members) else members


def _members(
    stream: Sequence[Token], aliases: Mapping[str, str], known: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members between the braces of a structure, or nothing where one cannot be told."""
    members: list[SourceParameter] = []
    for statement in _statements(stream):
        declared = _declared(statement, aliases)
        if declared is None:
            return ()
        for one, count in declared:
            inner = (one,) if one.is_pointer or (one.dtype and one.lanes == 1) else parts_of(one, known)
            if not inner:
                return ()
            for i in range(count):
                stem = one.name if count == 1 else f"{one.name}_{i}"
                names = [stem] if len(inner) == 1 else [f"{stem}_{part.name}" for part in inner]
                members += [replace(part, name=name) for part, name in zip(inner, names, strict=True)]
    return tuple(members)


def _statements(stream: Sequence[Token]) -> list[list[Token]]:
    """Split a structure's text at semicolons; functions are passed over."""
    found: list[list[Token]] = [[]]
    at = 0
    while at < len(stream):
        token = stream[at]
        if token.text == "{" and any(one.text == "(" for one in found[-1]):  # a function's body
            at, found[-1] = behind(stream, at), []
            continue
        if token.text == ";":
            found.append([])
        elif token.text == ":" and [one.text for one in found[-1]] in (["public"], ["private"], ["protected"]):
            found[-1] = []
        elif token.kind is not TokenKind.DIRECTIVE:
            found[-1].append(token)
        at += 1
    return [one for one in found if one and not any(token.text == "(" for token in one)]


def _declared(statement: Sequence[Token], aliases: Mapping[str, str]) -> list[tuple[SourceParameter, int]] | None:
    """Read ``float *x, y[2]``: each member with its number of elements, or None where one cannot be told."""
    texts = [token.text for token in statement]
    if _NOT_MEMBERS.intersection(texts):
        return [] if texts[0] in ("static", "using", "typedef", "friend") else None
    if ":" in texts or "{" in texts:
        return None
    first, *others = split_at_commas(statement)
    name = next((i for i, token in enumerate(first) if token.text in ("*", "&", "[", "=")), len(first))
    own = name - 1 if name == len(first) or first[name].text in ("[", "=") else name
    made = []
    for part in (first, *([*first[:own], *other] for other in others)):
        count = _elements(part)
        extents = next((i for i, token in enumerate(part) if token.text == "["), len(part))
        one = read_parameter(part[:extents], aliases)
        if count is None or not one.name:
            return None
        made.append((one, count))
    return made


def _elements(part: Sequence[Token]) -> int | None:
    """Return the elements of a member: 1 without extents; None where an extent is no number."""
    count = 1
    for at, token in enumerate(part):
        if token.text == "[":
            extent = part[at + 1].text if at + 2 < len(part) and part[at + 2].text == "]" else ""
            if not extent.isdigit():
                return None
            count *= int(extent)
    return count if 1 <= count <= _MOST_ELEMENTS else None
