"""Tensile's names for a template's parameters: ``ThreadTile: [8, 4]`` is thread_tile_0: 8 and thread_tile_1: 4.

A parameter may be named as the template spells it, in Tensile's way, with a capital in each word, or by those capitals.
WorkGroup and ThreadTile stand for several parameters each. DepthU stands for LoopUnroll times LocalSplitU. A name of
Tensile's paper that no parameter can have is refused, and the error says what serves instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.templates.front_matter import Template
from lab.templates.instance import Instance

_PARTS = {
    "work_group": ("work_group_0", "work_group_1", "local_split_u"),
    "thread_tile": ("thread_tile_0", "thread_tile_1"),
}
_DEPTH, _UNROLL, _SPLIT = "depth_u", "loop_unroll", "local_split_u"
_SAME = {"split_u": _SPLIT}
_BOTH = {
    name: (f"{name}_a", f"{name}_b")
    for name in ("num_loads_coalesced", "global_read_coalesce_group", "global_read_coalesce_vector")
}
"""Names for a parameter of A and one of B. Of an operand that has no choice, the template ignores the value."""
_ROUND_ROBIN = "global_split_u_work_group_mapping_round_robin"
_WORDS: Mapping[str, Mapping[str, Mapping[str, Scalar]]] = {
    "global_split_u_work_group_map": {"RoundRobin": {_ROUND_ROBIN: True}, "Contiguous": {_ROUND_ROBIN: False}},
    "kernel_language": {"Source": {}},
}
_NO_ASSEMBLY = "Source: kernels are CUDA C++, and ptxas allots registers and orders instructions"


@dataclass(frozen=True)
class _Refused:
    """A name in Tensile's paper that cannot be a parameter.

    Attributes:
        beside: A parameter of the templates that have what the name means.
        because: Why it cannot be set.
        instead: What serves instead.
    """

    beside: str
    because: str
    instead: str


_REFUSED = {
    "macro_tile": _Refused(
        "thread_tile_0",
        "it is the product of WorkGroup and ThreadTile",
        "WorkGroup and ThreadTile; MacroTile in JoinParameters; macro_tile_0 and macro_tile_1 in constraints",
    )
}

Given = Mapping[str, Scalar]
"""Parameters by the template's names; depth_u may replace loop_unroll."""


def snake(name: str) -> str:
    """Return ``global_split_u`` for ``GlobalSplitU``; a name in the template's form is unchanged."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9_]+", name)
    return "_".join(word.lower() for word in words) if name[:1].isupper() else name


def spelled(name: str, choices: Iterable[str]) -> str:
    """Return the known name that matches: itself, Tensile's form, or its capitals, such as GSU for global_split_u.

    A name that means none of them is returned in the template's form.
    """
    names, plain = set(choices), snake(name)
    plain = _SAME.get(plain, plain)
    if plain in names or not name.isupper():
        return plain
    matches = [
        candidate for candidate in names if "".join(word[0] for word in candidate.split("_") if word).upper() == name
    ]
    return _SAME.get(matches[0], matches[0]) if len(matches) == 1 else plain


def assigned(template: Template, name: str, value: object, at: Location, key: str) -> dict[str, Scalar]:
    """Return the parameters that a name and a value set.

    Args:
        template: The template.
        name: A parameter in any spelling, or a name for several.
        value: Its value; for several parameters a list.
        at: Place in the file, for errors.
        key: Dotted path in the file, for errors.

    Raises:
        UserError: the template has no such parameter, or does not accept the value.
    """
    declared = template.declares.parameters
    plain = spelled(name, {*declared, *_PARTS, *_BOTH, *_WORDS, *_REFUSED, *_SAME, _DEPTH})
    parts = _PARTS.get(plain, ())
    if parts and all(parameter in declared for parameter in parts):
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) not in {len(parts), 2}:
            accepted = f"a list of {len(parts)} integers"
            raise UserError(
                f"{name} does not accept this value", code="wrong-value", at=at, key=key, found=value, accepted=accepted
            )
        pairs = dict(zip(parts, [*numbers, 1], strict=False))
    elif plain == _DEPTH and _UNROLL in declared:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            accepted = "an integer of at least 1; LoopUnroll becomes DepthU / LocalSplitU"
            raise UserError(
                f"{name} does not accept this value", code="wrong-value", at=at, key=key, found=value, accepted=accepted
            )
        return {_DEPTH: value}
    elif plain in _WORDS and all(target in declared for sets in _WORDS[plain].values() for target in sets):
        return _by_word(name, _WORDS[plain], value, at, key)
    elif plain in _BOTH and all(target in declared for target in _BOTH[plain]):
        pairs = dict.fromkeys(_BOTH[plain], value)
    elif plain in declared:
        pairs = {plain: value}
    elif plain in _REFUSED and _REFUSED[plain].beside in declared:
        refused = _REFUSED[plain]
        raise UserError(
            f"{_camel(plain)} cannot be set: {refused.because}",
            code="unsupported",
            at=at,
            key=key,
            found=value,
            accepted=refused.instead,
        )
    else:
        spellings = [*declared, *(_camel(group) for group, parameters in _PARTS.items() if parameters[0] in declared)]
        raise UserError(
            f"the template {template.name} has no such parameter",
            code="unknown-name",
            at=at,
            key=key,
            found=name,
            accepted=spellings,
            suggestion=did_you_mean(plain, spellings),
        )
    for parameter, setting in pairs.items():
        if accepted_here := declared[parameter].refuses(setting):
            description = declared[parameter].help
            raise UserError(
                f"{parameter} ({description}) does not accept this value",
                code="wrong-value",
                at=at,
                key=key,
                found=setting,
                accepted=accepted_here,
            )
    return pairs


def _by_word(
    name: str, words: Mapping[str, Mapping[str, Scalar]], value: object, at: Location, key: str
) -> dict[str, Scalar]:
    if not isinstance(value, str) or value not in words:
        accepted = _NO_ASSEMBLY if value == "Assembly" else list(words)
        raise UserError(
            f"{name} does not accept this value", code="wrong-value", at=at, key=key, found=value, accepted=accepted
        )
    return dict(words[value])


def merged(values: Given, updates: Given) -> dict[str, Scalar]:
    """Return the parameters updated by `more`; the newer of depth_u and loop_unroll wins."""
    result = {**values, **updates}
    if _DEPTH in updates:
        result.pop(_UNROLL, None)
    elif _UNROLL in updates:
        result.pop(_DEPTH, None)
    return result


def completed(template: Template, values: Given) -> dict[str, Scalar] | str:
    """Return every parameter of the template, or the rule that the given ones violate."""
    parameters = template.completed(values)
    depth = values.get(_DEPTH)
    if depth is not None:
        unroll, remainder = divmod(int(depth), int(parameters[_SPLIT]))
        if remainder or template.declares.parameters[_UNROLL].refuses(unroll):
            return "DepthU is LoopUnroll x LocalSplitU"
        parameters[_UNROLL] = unroll
    return parameters


def shown(value: object) -> str:
    """Format a value for a table: 8x4 for [8, 4]."""
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def joined(name: str, names: Mapping[str, object]) -> str | None:
    """Return the value of a parameter or derived name, joined: 128x64 for MacroTile; None for unknown names."""
    stems = {key[:-2] for key in names if key.endswith("_0")}
    plain = spelled(name, {*names, *stems, *_PARTS})
    parts = _PARTS.get(plain) or tuple(parameter for parameter in (f"{plain}_0", f"{plain}_1") if parameter in names)
    if parts and all(parameter in names for parameter in parts):
        return "x".join(str(names[parameter]) for parameter in parts)
    return shown(names[plain]) if plain in names else None


def short(template: Template, parameters: Mapping[str, Scalar], layout: Mapping[str, Scalar]) -> str:
    """Return the kernel's abbreviation: the template's own, else initials and values of non-default parameters."""
    if own := Instance(template, parameters, layout).abbreviation:
        return own
    declared = template.declares.parameters
    parts = [
        "".join(word[0] for word in name.split("_")).upper() + shown(value)
        for name, value in parameters.items()
        if value != declared[name].default
    ]
    return "_".join([template.stem, *parts])


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
