"""Drafts an experiment file from a plain CUDA source, for `lab new`.

Types, names and order come from the kernel's head and are certain. Where host code in the source launches the kernel,
arguments of its template, grid, block and shared memory are the launch's. Otherwise these are guesses from names and
from the body, as are sizes, values of parameters and what is an output; each line that holds a guess is marked `TODO`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lab.isa.cuda.kernels import SourceKernel, SourceParameter, TemplateParameter
from lab.isa.cuda.names import ExpectedMacro, expected_macros
from lab.isa.cuda.structures import parts_of, read_structures
from lab.isa.cuda.types import element_type
from lab.templates.plain.clusters import launched_cluster
from lab.templates.plain.hosting import HostLaunch, host_launch

_INTEGERS = ("int32", "uint32", "int64", "uint64")
_LARGE, _LARGE_EMULATED = "10_000_000", "10_000"  # one size: elements of a vector
_SIDE, _SIDE_EMULATED = "4096", "128"  # several: sides of a matrix
_THREADS = "[64, 128, 256, 512, 1024]"
_MOST_SWEPT = 3
"""Parameters of a template with defaults of which other values are tried. Sides of many tiles only fit together."""
_TODO = "# TODO: "


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the file: a key or an entry with its value, and what the user must check, if anything."""

    text: str
    check: str = ""

    def __str__(self) -> str:
        return f"{self.text}  {_TODO}{self.check}" if self.check else self.text


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the guesses are made from."""

    kernel: SourceKernel
    body: str
    macros: tuple[ExpectedMacro, ...]
    types: Mapping[str, str]  # template parameters that are types: what stands for them
    parameters: Mapping[str, str]  # the experiment's parameters: their values
    sizes: tuple[str, ...]  # names of the problem's fields
    members: Mapping[str, tuple[SourceParameter, ...]]  # of parameters that are structures, with names of their own
    cluster: tuple[str, ...]  # its sides, where the host asks for clusters
    launch: HostLaunch
    sides: tuple[str, ...]  # parameters that are a block's sides, x first; none where the host's launch has others


def draft(text: str, file: str, kernel: SourceKernel) -> str:
    """Return the text of an experiment file for one kernel.

    Args:
        text: The CUDA source.
        file: Its name, as the experiment file shall call it.
        kernel: One of the source's kernels.
    """
    facts = _facts(text, kernel)
    lines = [
        _Line(f"question: Which variant of {kernel.name} is fastest?", "ask what you want to know"),
        _Line(f"source: {_quoted(file)}"),
        _kernel_line(facts),
        *_problem(facts),
        _Line("arguments:"),
        *(line for place, one in enumerate(kernel.parameters) for line in _arguments(one, place, facts)),
        *_parameters(facts),
        *_geometry(facts),
        *_reference(facts),
    ]
    return "".join(f"{line}\n" for line in lines)


def _facts(text: str, kernel: SourceKernel) -> _Facts:
    body = text[slice(*kernel.body)]
    macros = expected_macros(text)
    given = dict(zip((one.name for one in kernel.template or ()), host_launch(text, kernel, ()).template, strict=False))
    types = {one.name: given.get(one.name, "float") for one in kernel.template or () if _is_type(one)}
    in_types = {word for one in kernel.parameters for word in re.findall(r"\w+", one.c_type)}
    kinds = {one.name: "bool" for one in macros if _is_flag(one.name, text)}
    parameters = {
        one.name: _values(one, is_type=one.name in in_types, kind=kinds.get(one.name, "int")) for one in macros
    }
    defaults = [one for one in kernel.template or () if one.default and one.name not in types]
    for one in kernel.template or ():
        if one.name and one.name not in types and "..." not in one.kind:
            parameters[one.name] = _template_values(one, keep=len(defaults) > _MOST_SWEPT)
    members = _all_members(text, kernel)
    values = [one for one in (*kernel.parameters, *chain(*members.values())) if not one.is_pointer]
    integers = [one.name for one in values if one.dtype in _INTEGERS and one.name and one.lanes == 1]
    other = r"seed|iter|step|offset|stride|flag|mode|alpha|beta|scale"
    sizes = [name for name in integers if not re.search(other, name, re.IGNORECASE)]
    launch = host_launch(text, kernel, (*sizes, *parameters))
    is_swept = not launch.block or launch.grid in {(f"ceil_div({size}, {launch.block[0]})",) for size in sizes}
    sides = _block_names(parameters, kernel)
    if launch.block not in ((), tuple(given.get(one, one) for one in sides), tuple(sides)):
        sides = []
    if is_swept and not sides and "blockDim" in body:
        parameters["threads"] = _THREADS
        sides = ["threads"]
    flags = {one.name for one in kernel.template or () if one.kind == "bool"}
    for name in parameters.keys() & given.keys() - flags - set(sides):
        parameters[name] = f"[{given[name]}]" if given[name].isdecimal() else parameters[name]
    cluster, fields = launched_cluster(text, kernel), tuple(sizes) or ("n",)
    return _Facts(kernel, body, macros, types, parameters, fields, members, cluster, launch, tuple(sides))


def _all_members(text: str, kernel: SourceKernel) -> dict[str, tuple[SourceParameter, ...]]:
    """Return the members of each parameter that is a structure; a name that is taken gets the structure's in front."""
    structures, taken = read_structures(text), {one.name for one in kernel.parameters}
    found = {}
    for parameter in kernel.parameters:
        parts = parts_of(parameter, structures)
        is_taken = parameter.lanes > 1 or any(one.name in taken for one in parts)
        named = [f"{parameter.name}_{one.name}" if is_taken else one.name for one in parts]
        taken |= set(named)
        if parts:
            found[parameter.name] = tuple(replace(one, name=name) for one, name in zip(parts, named, strict=True))
    return found


def _is_type(parameter: TemplateParameter) -> bool:
    return parameter.kind in ("typename", "class")


def _is_flag(name: str, text: str) -> bool:
    """Return whether a source only asks whether a macro is 0: `NAME ? a : b`, `if (NAME)`, `#if NAME`."""
    uses = re.findall(rf"(?<!\w){name}(?!\w)", text)
    asked = re.findall(
        rf"(?<!\w){name}\s*\?|\bif\s+(?:constexpr\s*)?\(\s*!?\s*{name}\s*\)|^[ \t]*#\s*(?:el)?if\s+!?\s*{name}[ \t]*$",
        text,
        re.MULTILINE,
    )
    return bool(uses) and len(uses) == len(asked)


def _values(macro: ExpectedMacro, *, is_type: bool, kind: str = "int") -> str:
    """Return values to begin with, from the name and the default of a parameter."""
    name = macro.name.lower()
    if is_type:
        return "[float, double]"
    if kind == "bool" or re.match(r"(use|enable|do|with|has|is)_?", name):
        return "[0, 1]"
    for pattern, values in (
        (r"unroll|vec|width|per_thread|items|work", "[1, 2, 4, 8]"),
        (r"pad", "[0, 1]"),
        (r"warps", "[2, 4, 8]"),
        (r"(block|tile|dim|threads).*_?y$|tile|_k$", "[8, 16, 32]"),
        (r"block|threads", _THREADS),
    ):
        if re.search(pattern, name):
            return values
    return f"[{macro.default}]" if macro.default else "[1]"


def _template_values(parameter: TemplateParameter, *, keep: bool) -> str:
    """Return values to begin with; to keep a default is to try nothing else, but for a flag."""
    kind = re.sub(r"\bconst(?:expr)?\b", "", parameter.kind).strip()
    if keep and kind != "bool" and re.fullmatch(r"-?\d+", parameter.default or ""):
        return f"[{parameter.default}]"
    return _values(ExpectedMacro(parameter.name, parameter.default, 0), is_type=False, kind=kind)


def _kernel_line(facts: _Facts) -> _Line:
    kernel = facts.kernel
    if kernel.template is None:
        return _Line(f"kernel: {_quoted(kernel.qualified_name)}")
    given = [one for one in kernel.template if one.name and "..." not in one.kind]
    written = [facts.types.get(one.name, f"{{{one.name}}}") for one in given]
    guessed = [name for name, given in facts.types.items() if given not in facts.launch.template]
    check = f"the type that stands for {' and '.join(guessed)}" if guessed else ""
    return _Line(f'kernel: "{kernel.qualified_name}<{", ".join(written)}>"', check)


def _problem(facts: _Facts) -> list[_Line]:
    one = len(facts.sizes) == 1
    large, small = (_LARGE, _LARGE_EMULATED) if one else (_SIDE, _SIDE_EMULATED)
    return [
        _Line(
            f"problem: {{{', '.join(f'{name}: {facts.launch.sizes.get(name, large)}' for name in facts.sizes)}}}",
            "the sizes that you care about",
        ),
        _Line(
            f"emulate: {{{', '.join(f'{name}: {small}' for name in facts.sizes)}}}",
            "small enough to execute on the CPU",
        ),
    ]


def _arguments(parameter: SourceParameter, place: int, facts: _Facts) -> list[_Line]:
    """Return the line of an argument; of a structure, those of its members, too."""
    members = facts.members.get(parameter.name, ())
    if not members:
        return [_argument(parameter, place, facts)]
    lines = [_argument(one, place, facts) for one in members]
    return [_Line(f"  {parameter.name}:"), *(replace(line, text=f"  {line.text}") for line in lines)]


def _argument(parameter: SourceParameter, place: int, facts: _Facts) -> _Line:
    name = parameter.name or f"argument_{place + 1}"
    if parameter.pointer <= 1 and re.search(r"\bCUtensorMap\b", parameter.c_type):
        shape, _ = _shape(parameter, facts)
        box = ", ".join(["64"] * (shape.count(",") + 1))
        check = "the array that the map describes, the box of a copy and its swizzle; is it written?"
        return _Line(f'  {name}: "float16[{shape}] as map[{box}] swizzle 128"', check)
    dtype, check = _dtype(parameter, facts)
    if not parameter.is_pointer:
        if name in facts.sizes or name in facts.parameters:
            return _Line(f"  {name}: {dtype}", check)
        return _Line(f'  {name}: "{dtype} = 1"', check or "its value")
    shape, is_sure = _shape(parameter, facts)
    direction = _direction(parameter, facts)
    fill = " zeros" if direction == "inout " else ""
    checks = [check] if check else []
    checks += [] if is_sure and direction != "inout " else ["its shape"]
    checks += ["is it only written?"] if direction == "out " and not _is_assigned(parameter.name, facts.body) else []
    checks += ["what it holds before the launch"] if direction == "inout " else []
    return _Line(f'  {name}: "{direction}{dtype}[{shape}]{fill}"', "; ".join(checks))


def _dtype(parameter: SourceParameter, facts: _Facts) -> tuple[str, str]:
    """Return the element type, and what to check about it."""
    if parameter.dtype is not None:
        return parameter.dtype, ""
    words = re.findall(r"\w+", parameter.c_type)
    for given in (facts.types[word] for word in words if word in facts.types):
        known = element_type(given) if given in facts.launch.template else None
        if known is not None and known.lanes == 1:
            return known.dtype, ""
        return "float32", f"the element type of {parameter.c_type}, as in the kernel's name"
    if any(facts.parameters.get(word) == "[float, double]" for word in words):
        return "float32", f"the element type of {parameter.c_type}; it must be the same in all variants"
    return "uint8", f"the element type of {parameter.c_type}"


def _shape(parameter: SourceParameter, facts: _Facts) -> tuple[str, bool]:
    """Return the shape in C order, and whether it is more than a guess."""
    sizes = facts.sizes
    lanes = [str(parameter.lanes)] if parameter.lanes > 1 else []
    by_letter = {name.lower(): name for name in sizes}
    if len(sizes) == len("mnk") and not {"m", "n", "k"} <= set(by_letter):  # m_ld, M_GLOBAL
        by_letter = {re.sub(r"^(num|dim|size)_?", "", name.lower())[:1]: name for name in sizes}
    if {"m", "n", "k"} <= set(by_letter):
        m, n, k = (by_letter[letter] for letter in "mnk")
        matrices = {"a": [m, k], "b": [k, n], "c": [m, n], "d": [m, n]}
        if found := matrices.get(parameter.name.lower()[:1]):
            return ", ".join([*found, *lanes]), False
    if len(sizes) == 1:
        is_sure = (
            bool(re.search(rf"\b{re.escape(parameter.name)}\s*\[\s*\w+\s*\]", facts.body)) if parameter.name else False
        )
        return ", ".join([*sizes, *lanes]), is_sure and parameter.dtype is not None
    rows_last = re.match(r"(width|w|nx|cols?|columns?|x)$", sizes[0], re.IGNORECASE)
    return ", ".join([*(reversed(sizes[:2]) if rows_last else sizes[:2]), *lanes]), False


def _direction(parameter: SourceParameter, facts: _Facts) -> str:
    if parameter.is_const:
        return ""
    name = re.escape(parameter.name)
    if re.search(rf"\batomic\w+\s*\(\s*&?\s*{name}\b|\b{name}\s*\[[^;]*?\]\s*(?:[-+*/|&^]|<<|>>)=[^=]", facts.body):
        return "inout "
    given = (*facts.kernel.parameters, *chain(*facts.members.values()))
    others = [one.name for one in given if one.is_pointer and not one.is_const]
    if not _is_assigned(parameter.name, facts.body) and any(_is_assigned(other, facts.body) for other in others):
        return ""  # a pointer that merely lacks `const`
    return "out "


def _is_assigned(name: str, body: str) -> bool:
    """Return whether a body assigns to elements of an array, or passes it to something that stores."""
    word = re.escape(name) or r"(?!)"
    element = rf"\b{word}\s*\[[^;]*?\]\s*\)*\s*(?:\.\w+\s*)?=[^=]"
    pointer = r"(?:reinterpret_cast\s*<[^;=]*?\*\s*>|\([^();=]*\*\s*\))"
    cast = rf"\*\s*\(*{pointer}\s*\(?\s*&?\s*{word}\b[^;=]*(?<![<>!])=[^=]"
    return bool(re.search(rf"{element}|{cast}|\*\s*{word}\s*=[^=]|\bstore\w*\s*\(\s*{word}\b", body))


def _parameters(facts: _Facts) -> list[_Line]:
    if not facts.parameters:
        return []
    lines = [_Line("parameters:")]
    for name, values in facts.parameters.items():
        check = "the values to try" if values == "[1]" or "," not in values else ""
        lines.append(_Line(f"  {_quoted(name)}: {values}", check))
    return lines


def _block_names(parameters: Mapping[str, str], kernel: SourceKernel) -> list[str]:
    """Return the parameters that are the sides of a block, x first."""
    for stem in (r"block_?(size|dim)?", r"threads?(_per_block)?", r"tile_?(size|dim)?"):
        sides = [
            next((name for name in parameters if re.fullmatch(rf"{stem}_?{axis}", name, re.IGNORECASE)), None)
            for axis in "xyz"
        ]
        if sides[0] is not None:
            return [side for side in sides if side is not None]
        if alone := next((name for name in parameters if re.fullmatch(stem, name, re.IGNORECASE)), None):
            return [alone]
    bounds = kernel.launch_bounds[0] if kernel.launch_bounds else ""
    return [bounds] if bounds and set(re.findall(r"[A-Za-z_]\w*", bounds)) <= set(parameters) else []


def _geometry(facts: _Facts) -> list[_Line]:
    launch, sides = facts.launch, facts.sides or facts.launch.block or ("256",)
    is_launched, is_known = not facts.sides and bool(launch.block), sides != ("256",) or bool(launch.block)
    sizes = facts.sizes
    if is_launched and launch.grid:
        grid = launch.grid[0] if len(launch.grid) == 1 else f"[{', '.join(_quoted_sides(launch.grid))}]"
    elif len(sides) == 1 or len(sizes) == 1:
        [grid] = _blocks([sizes[0] if len(sizes) == 1 else " * ".join(sizes[:2])], sides, facts.cluster)
    else:
        rows_last = re.match(r"(width|w|nx|cols?|columns?|x)$", sizes[0], re.IGNORECASE)
        along_x = sizes[:2] if rows_last else tuple(reversed(sizes[:2]))
        grid = "[" + ", ".join(f'"{one}"' for one in _blocks(along_x, sides, facts.cluster)) + "]"
    listed = f"[{', '.join(sides)}]"
    lines = [
        _Line(f"grid: {grid}", _grid_check(facts) if is_launched and launch.grid else "the number of blocks"),
        _Line(f"block: {sides[0] if len(sides) == 1 else listed}", "" if is_known else "threads in a block"),
    ]
    if facts.cluster:
        named = {*facts.parameters, *facts.sizes}
        foreign = [word for side in facts.cluster for word in re.findall(r"[A-Za-z_]\w*", side) if word not in named]
        side = facts.cluster[0] if len(facts.cluster) == 1 else f"[{', '.join(facts.cluster)}]"
        lines.append(_Line(f"cluster: {side}", f"a value for the host's {', '.join(foreign)}" if foreign else ""))
    if re.search(r"extern\s+__shared__", facts.body):
        words = f": the host's {launch.shared_words}" if launch.shared_words else ""
        check = "" if launch.shared else f"bytes of dynamic shared memory of a block{words}"
        lines.append(_Line(f"shared_bytes: {launch.shared or 1024}", check))
    return lines


def _quoted_sides(sides: Sequence[str]) -> list[str]:
    """Return expressions as parts of a YAML list: a comma would end one that is not in quotes."""
    return [f'"{side}"' if "," in side else side for side in sides]


def _grid_check(facts: _Facts) -> str:
    """Say what the host's grid leaves open, such as which size it means by a variable that it passes for several."""
    named = {word for side in facts.launch.grid for word in re.findall(r"[A-Za-z_]\w*", side)} & set(facts.sizes)
    if facts.launch.shares and named:
        return "the number of blocks; the host has one variable for several sizes"
    return "" if named else "the number of blocks, which the host's sizes may decide"


def _blocks(sizes: Sequence[str], sides: Sequence[str], cluster: Sequence[str]) -> list[str]:
    """Return how many blocks cover sizes in each dimension, in whole clusters."""
    counts = []
    for at, (size, side) in enumerate(zip(sizes, sides, strict=False)):
        blocks = cluster[at] if at < len(cluster) else "1"
        counts.append(
            f"ceil_div({size}, {side})" if blocks == "1" else f"ceil_div({size}, {blocks} * {side}) * {blocks}"
        )
    return counts


def _reference(facts: _Facts) -> list[_Line]:
    given = (*facts.kernel.parameters, *chain(*facts.members.values()))
    outputs = [one.name for one in given if one.is_pointer and _direction(one, facts)]
    name = outputs[0] if outputs else "output"
    return [
        _Line(f"{_TODO}what is right: a NumPy expression over the arguments; without it, the first variant's result"),
        _Line(f"# reference: {{{name}: …}}"),
    ]


def _quoted(word: str) -> str:
    """Return a word as a YAML text, in quotes where YAML would read it otherwise."""
    plain = re.fullmatch(r"[A-Za-z_][\w./]*(?:::\w+)*", word) and word.lower() not in ("true", "false", "null")
    return word if plain else '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
