"""Draft of an experiment file from a plain CUDA source, for `lab new`.

Types, names and order come from the kernel's head and are certain. Where host code in the source launches the kernel,
arguments of its template, sizes, grid, block and shared memory are the launch's. Shapes, directions, block and grid
follow from the kernel's body, with the source line that says so. What neither says is a guess, marked `TODO`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from lab.base.elements import ELEMENT_BYTES
from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import SourceKernel, SourceParameter, TemplateParameter
from lab.isa.cuda.names import ExpectedMacro, expected_macros, used_names
from lab.isa.cuda.structures import elements_of, parts_of, read_structures
from lab.isa.cuda.types import element_type
from lab.templates.plain.clusters import launched_cluster
from lab.templates.plain.declared import declared_constants
from lab.templates.plain.inference.geometry import infer_block
from lab.templates.plain.inference.infer import Inference, InferredArray, Known, infer
from lab.templates.plain.instances import template_instances
from lab.templates.plain.launches import HostLaunch, read_launch

_INTEGERS = ("int32", "uint32", "int64", "uint64")
_LARGE, _LARGE_EMULATED = "10_000_000", "10_000"  # one size: elements of a vector
_SIDE, _SIDE_EMULATED = "4096", "128"  # several: sides of a matrix
_BLOCKS = (("4096", "16"), ("128", "4"), ("32", "2"))
"""Numbers of blocks that the caller chooses, by the axes that have one."""
_THREADS = "[64, 128, 256, 512, 1024]"
_BLOCK = "threads"
"""Name of the block-size parameter if neither kernel nor host fixes the threads."""
_TILES = "[8, 16, 32]"
"""Sides of a block that is square."""
_MOST_SWEPT = 3
"""Most template parameters with defaults for which other values are tried; tile sides depend on each other."""
_TODO = "# TODO: "


@dataclass(frozen=True, slots=True)
class Guess:
    """A value that neither the kernel nor its host says.

    Attributes:
        key: The key of the file that holds it: `arguments.A`, `grid`.
        value: The value.
        reason: Why it is not known.
        option: The option of `lab try` that sets it.
    """

    key: str
    value: str
    reason: str
    option: str

    @property
    def mark(self) -> str:
        """The words of the file's comment."""
        return self.reason


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted experiment file.

    Attributes:
        text: The file.
        guesses: The guesses in it that a verdict rests on.
        warnings: Doubts about the host's code.
        threads: Parameters that no source mentions: the sides of a block that may have any number of threads.
        blocks: Sizes that no source mentions: numbers of blocks, with the elements along an axis that a block covers.
        launch: The host's launch.
    """

    text: str
    guesses: tuple[Guess, ...] = ()
    warnings: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    blocks: Mapping[str, str] = field(default_factory=dict)
    launch: HostLaunch = field(default_factory=HostLaunch)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the file: a key or entry with its value, and a note if the user must check it.

    Attributes:
        text: The line.
        check: What the user must check, if anything.
        note: Where the value comes from.
        guess: The guess that it holds.
    """

    text: str
    check: str = ""
    note: str = ""
    guess: Guess | None = None

    def __str__(self) -> str:
        if self.check or self.guess:
            return f"{self.text}  {_TODO}{'; '.join(filter(None, [self.guess.mark if self.guess else '', self.check]))}"
        return f"{self.text}  # {self.note}" if self.note else self.text


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts on which the guesses are based."""

    kernel: SourceKernel
    body: str
    macros: tuple[ExpectedMacro, ...]
    types: Mapping[str, str]  # template parameters that are types: what stands for them
    parameters: Mapping[str, str]  # the experiment's parameters: their values
    sizes: tuple[str, ...]  # names of the problem's fields
    members: Mapping[str, tuple[SourceParameter, ...]]  # of parameters that are structures, with names of their own
    elements: Mapping[str, tuple[SourceParameter, ...]]  # of pointers to structures of values
    paths: Mapping[str, str]  # how the body calls members, by their names: `view.data`
    cluster: tuple[str, ...]  # its sides, where the host asks for clusters
    launch: HostLaunch  # as far as the host says how it launches the kernel; its grid is in terms of `sides`
    sides: tuple[str, ...]  # parameters that are a block's sides, x first; none where the host's launch has others
    inference: Inference | None  # what the body says; None where it cannot be read


def draft(text: str, file: str, kernel: SourceKernel) -> str:
    """Return the text of an experiment file for one kernel; see `drafted`."""
    return drafted(text, file, kernel).text


def drafted(text: str, file: str, kernel: SourceKernel, *, keeps_block: bool = False) -> Draft:
    """Draft an experiment file for one kernel.

    Args:
        text: The CUDA source.
        file: Its name, as the experiment file shall call it.
        kernel: One of the source's kernels.
        keeps_block: Try no other block than the host's, as other kernels depend on its number of blocks.
    """
    facts = _facts(text, kernel, keeps_block=keeps_block)
    lines = [
        _Line(f"question: Which variant of {kernel.name} is fastest?", note="ask what you want to know"),
        _Line(f"source: {_quoted(file)}"),
        _kernel_line(facts),
        *_problem(facts),
        _Line("arguments:"),
        *(line for place, one in enumerate(kernel.parameters) for line in _arguments(one, place, facts)),
        *_constants(text, facts),
        *_parameters(facts),
        *_geometry(facts),
        *_reference(facts),
    ]
    guesses = tuple(line.guess for line in lines if line.guess is not None)
    threads, blocks = (facts.inference.threads, facts.inference.free) if facts.inference is not None else ((), {})
    text_ = "".join(f"{line}\n" for line in lines)
    return Draft(text_, guesses, tuple(_doubts(facts)), tuple(threads), blocks, facts.launch)


def _doubts(facts: _Facts) -> list[str]:
    """Return warnings about accumulators that the host never clears."""
    arrays = facts.inference.arrays if facts.inference is not None and facts.launch.line else {}
    return [
        f"the kernel adds to {name}, and the host clears it nowhere: before line {facts.launch.line}, it holds what "
        "was in memory"
        for name, array in arrays.items()
        if array.accumulates and name in facts.launch.variables and name not in facts.launch.cleared
    ]


def _facts(text: str, kernel: SourceKernel, *, keeps_block: bool) -> _Facts:
    body = text[slice(*kernel.body)]
    macros = expected_macros(text)
    types = [template_parameter.name for template_parameter in kernel.template or () if _is_type(template_parameter)]
    in_types = {word for parameter in kernel.parameters for word in re.findall(r"\w+", parameter.c_type)}
    kinds = {macro.name: "bool" for macro in macros if _is_flag(macro.name, text)}
    parameters = {
        macro.name: _values(macro, is_type=macro.name in in_types, kind=kinds.get(macro.name, "int"))
        for macro in macros
    }
    defaults = [
        template_parameter
        for template_parameter in kernel.template or ()
        if template_parameter.default and template_parameter.name not in types
    ]
    for template_parameter in kernel.template or ():
        if template_parameter.name and template_parameter.name not in types and "..." not in template_parameter.kind:
            parameters[template_parameter.name] = _template_values(template_parameter, keep=len(defaults) > _MOST_SWEPT)
    structures = read_structures(text)
    members, paths = _all_members(structures, kernel)
    elements = {
        parameter.name: found for parameter in kernel.parameters if (found := elements_of(parameter, structures))
    }
    values = [candidate for candidate in (*kernel.parameters, *chain(*members.values())) if not candidate.is_pointer]
    integers = [value.name for value in values if value.dtype in _INTEGERS and value.name and value.lanes == 1]
    excluded = r"seed|iter|step|offset|stride|flag|mode|alpha|beta|scale"
    sizes = [name for name in integers if not re.search(excluded, name, re.IGNORECASE)]
    launch = _deduced(text, kernel, read_launch(text, kernel, {*sizes, *parameters}))
    if passed := {side for side in launch.block if side in sizes and launch.values.get(side, "").isdigit()}:
        sizes = [name for name in sizes if name not in passed]
        integers = [name for name in integers if name not in passed]
        launch = _deduced(text, kernel, read_launch(text, kernel, {*sizes, *parameters}))
    host_arguments = dict(
        zip((template_parameter.name for template_parameter in kernel.template or ()), launch.template, strict=False)
    )
    sides = _block_names(parameters, kernel)
    if launch.block not in ((), tuple(sides), tuple(host_arguments.get(side, side) for side in sides)):
        sides = []
    is_kept = bool(passed) or (keeps_block and bool(launch.block))
    if not sides and not is_kept and _is_any_block(launch, kernel, body) and not _says_block(text, kernel, parameters):
        parameters[_BLOCK] = _THREADS
        sides = [_BLOCK]
    if sides and launch.block not in ((), tuple(sides)):
        launch = _swept(launch, sides)
    flags = {
        template_parameter.name
        for template_parameter in kernel.template or ()
        if re.search(r"\bbool\b", template_parameter.kind)
    }
    for name in parameters.keys() & host_arguments.keys() - flags - set(sides):
        parameters[name] = f"[{host_arguments[name]}]" if host_arguments[name].isdecimal() else parameters[name]
    cluster = launched_cluster(text, kernel)
    inference = (
        None if cluster else _inferred(text, kernel, parameters, integers, (paths, members), launch, tuple(sides))
    )
    if inference is not None:
        parameters.pop(_BLOCK, None) if not launch.block else None
        parameters |= inference.threads
        for name in inference.sides & parameters.keys() - host_arguments.keys():
            parameters[name] = _TILES if sum(name in side for side in inference.block) > 1 else parameters[name]
        host_numbers = {paths.get(name, name) for name, value in launch.values.items() if value.isdigit()}
        own = [name for name in inference.sizes if name not in inference.bounds & host_numbers]
        sizes = [*(own or inference.sizes), *inference.free]
        sizes = [
            paths_to.get(name, name) for paths_to in [{path: name for name, path in paths.items()}] for name in sizes
        ]
    return _Facts(
        kernel,
        body,
        macros,
        {name: host_arguments.get(name) or "float" for name in types},
        parameters,
        tuple(sizes) or (() if inference is not None else ("n",)),
        members,
        elements,
        paths,
        cluster,
        launch,
        tuple(sides),
        inference,
    )


def _inferred(  # noqa: PLR0917 - what is known of a kernel
    text: str,
    kernel: SourceKernel,
    parameters: Mapping[str, str],
    integers: Sequence[str],
    structures: tuple[Mapping[str, str], Mapping[str, tuple[SourceParameter, ...]]],
    launch: HostLaunch,
    sides: tuple[str, ...],
) -> Inference | None:
    """Return what the kernel's body says; None where it accesses no array that could be read."""
    paths, members = structures
    read = read_body(text, kernel)
    if read is None or not read.accesses:
        return None
    given = [*kernel.parameters, *chain(*members.values())]
    arrays = {paths.get(one.name, one.name): one for one in given if one.is_pointer and one.name}
    own = launch.block or (sides if sides != (_BLOCK,) else ())
    block = sides if launch.block and sides else own
    known = Known(
        tuple(arrays),
        tuple(paths.get(name, name) for name in integers),
        tuple(name for name in parameters if name != _BLOCK or block),
        {path: name for name, path in paths.items()},
        block if launch.block or kernel.launch_bounds else (),
        launch.grid,
        used_names(text) | {*parameters} - {_BLOCK},
        launch.lengths,
        {path: ELEMENT_BYTES.get(one.dtype or "", 0) * one.lanes for path, one in arrays.items()},
        {
            one.name: int(value)
            for one, value in zip(kernel.template or (), launch.template, strict=False)
            if value.isdecimal()
        },
        {paths.get(name, name): int(value) for name, value in launch.values.items() if value.isdecimal()},
        launch.shares,
    )
    return infer(read, known)


def _deduced(text: str, kernel: SourceKernel, launch: HostLaunch) -> HostLaunch:
    """Return a launch with the template arguments that C++ deduces from what the host passes."""
    if not launch.line or len(launch.template) >= len(kernel.template or ()):
        return launch
    instances = [one for one in template_instances(text) if one.kernel == kernel and not one.assumed]
    return replace(launch, template=instances[0].arguments) if instances else launch


def _says_block(text: str, kernel: SourceKernel, parameters: Collection[str]) -> bool:
    """Return whether the body allows one number of threads, as that of a shared array's elements."""
    read = read_body(text, kernel)
    return read is not None and any(infer_block(read, Limits(read.opaque, parameters), parameters))


def _is_any_block(launch: HostLaunch, kernel: SourceKernel, body: str) -> bool:
    """Return whether the block size may differ from the host's: only the number of blocks depends on it."""
    if "blockDim" not in body:
        return False
    if not launch.block:
        return True
    if len(launch.block) > 1 or not launch.block[0].isdigit() or launch.shared_bytes.isdigit():
        return False
    if kernel.launch_bounds or re.search(rf"(?<![\w.]){launch.block[0]}(?!\w)", body):
        return False
    if all(side.isdigit() for side in launch.grid):
        return "gridDim" in body or not launch.grid
    return _swept(launch, [_BLOCK]).grid != launch.grid


def _swept(launch: HostLaunch, sides: Sequence[str]) -> HostLaunch:
    """Return a launch with parameters in place of the host's numbers for the block's sides.

    A number of blocks without sizes stays as it is. Dynamic shared memory is left out, as it may depend on the block.
    """
    pairs = list(zip(launch.block, sides, strict=True))
    grid = []
    for at, side in enumerate(launch.grid):
        names = dict([*pairs, *pairs[at : at + 1]])  # of sides with one number, that of the same axis
        parts = re.split(r"(?<![\w.])(\d+)(?!\w)", side)
        grid.append("".join(names.get(word, word) for word in parts))
    return replace(
        launch,
        grid=launch.grid if all(side.isdigit() for side in launch.grid) else tuple(grid),
        shared_bytes="" if launch.shared_bytes.isdigit() else launch.shared_bytes,
    )


def _all_members(
    structures: Mapping[str, tuple[SourceParameter, ...]], kernel: SourceKernel
) -> tuple[dict[str, tuple[SourceParameter, ...]], dict[str, str]]:
    """Return the members of each structure parameter, and their paths in the body.

    A name that is taken gets the structure's in front.
    """
    used_names = {parameter.name for parameter in kernel.parameters}
    members: dict[str, tuple[SourceParameter, ...]] = {}
    paths: dict[str, str] = {}
    for parameter in kernel.parameters:
        parts = parts_of(parameter, structures)
        is_taken = parameter.lanes > 1 or any(member.name in used_names for member in parts)
        names = [f"{parameter.name}_{member.name}" if is_taken else member.name for member in parts]
        used_names |= set(names)
        paths |= {name: f"{parameter.name}.{member.name}" for name, member in zip(names, parts, strict=True)}
        if parts:
            members[parameter.name] = tuple(
                replace(member, name=name) for member, name in zip(parts, names, strict=True)
            )
    return members, paths


def _is_type(parameter: TemplateParameter) -> bool:
    return parameter.kind in ("typename", "class")


def _is_flag(name: str, text: str) -> bool:
    """Return whether a source only tests a macro against 0: `NAME ? a : b`, `if (NAME)`, `#if NAME`."""
    uses = re.findall(rf"(?<!\w){name}(?!\w)", text)
    tests = re.findall(
        rf"(?<!\w){name}\s*\?|\bif\s+(?:constexpr\s*)?\(\s*!?\s*{name}\s*\)|^[ \t]*#\s*(?:el)?if\s+!?\s*{name}[ \t]*$",
        text,
        re.MULTILINE,
    )
    return bool(uses) and len(uses) == len(tests)


def _values(macro: ExpectedMacro, *, is_type: bool, kind: str = "int") -> str:
    """Return initial values from a parameter's name and default."""
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
            is_tried = not macro.default or macro.default in re.findall(r"\w+", values)
            return values if is_tried else f"[{macro.default}]"
    return f"[{macro.default}]" if macro.default else "[1]"


def _template_values(parameter: TemplateParameter, *, keep: bool) -> str:
    """Return initial values of a template parameter; with `keep`, only its default, except for a flag."""
    kind = re.sub(r"\bconst(?:expr)?\b", "", parameter.kind).strip()
    if keep and kind != "bool" and re.fullmatch(r"-?\d+", parameter.default or ""):
        return f"[{parameter.default}]"
    return _values(ExpectedMacro(parameter.name, parameter.default, 0), is_type=False, kind=kind)


def _kernel_line(facts: _Facts) -> _Line:
    kernel = facts.kernel
    if kernel.template is None:
        return _Line(f"kernel: {_quoted(kernel.qualified_name)}")
    named_parameters = [parameter for parameter in kernel.template if parameter.name and "..." not in parameter.kind]
    arguments = [facts.types.get(parameter.name, f"{{{parameter.name}}}") for parameter in named_parameters]
    guessed = [name for name, stand_in in facts.types.items() if stand_in not in facts.launch.template]
    check = f"the type that stands for {' and '.join(guessed)}" if guessed else ""
    return _Line(f'kernel: "{kernel.qualified_name}<{", ".join(arguments)}>"', check)


def _problem(facts: _Facts) -> list[_Line]:
    if not facts.sizes:
        return [_Line("emulate: full", note="the kernel has no size")]
    known_sizes = {name: value for name in facts.sizes if (value := facts.launch.values.get(name, "")).isdigit()}
    sizes = {name: _sizes_of(name, facts) for name in facts.sizes}
    problem = {name: known_sizes.get(name, large) for name, (large, _) in sizes.items()}
    emulated = {name: value if int(value) < int(sizes[name][1]) else sizes[name][1] for name, value in problem.items()}
    return [
        _Line(
            f"problem: {_mapping(problem)}",
            note="" if len(known_sizes) == len(problem) else "the sizes that you care about",
        ),
        _Line(f"emulate: {_mapping(emulated)}", note="executed on the CPU"),
    ]


def _sizes_of(name: str, facts: _Facts) -> tuple[str, str]:
    """Return a size to begin with, and one that is small enough to execute on the CPU."""
    inference = facts.inference
    if inference is None:
        is_side = len(facts.sizes) > 1 or len(facts.launch.grid) > 1  # one size may be that of a square matrix
        return (_SIDE, _SIDE_EMULATED) if is_side else (_LARGE, _LARGE_EMULATED)
    path = facts.paths.get(name, name)
    if path in inference.units:
        return "1", "1"
    if path in inference.small:
        return "256", "256"
    if name in inference.free:
        axes = sum(side in inference.free for side in inference.grid)
        return _BLOCKS[min(axes or 1, len(_BLOCKS)) - 1]
    degree = inference.degrees.get(path, 1)
    if degree > 2:  # noqa: PLR2004 - a volume
        return "256", "24"
    return (_SIDE, _SIDE_EMULATED) if degree > 1 else (_LARGE, _LARGE_EMULATED)


def _mapping(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name}: {value}' for name, value in values.items())}}}"


def _arguments(parameter: SourceParameter, place: int, facts: _Facts) -> list[_Line]:
    """Return the lines of an argument, including members of a structure."""
    members = facts.members.get(parameter.name, ())
    if not members:
        return [_argument(parameter, place, facts)]
    lines = [_argument(member, place, facts) for member in members]
    return [_Line(f"  {parameter.name}:"), *(replace(line, text=f"  {line.text}") for line in lines)]


def _argument(parameter: SourceParameter, place: int, facts: _Facts) -> _Line:  # noqa: PLR0911 - a kind each
    name = parameter.name or f"argument_{place + 1}"
    if parameter.pointer <= 1 and re.search(r"\bCUtensorMap\b", parameter.c_type):
        shape, _ = _shape(parameter, facts)
        box = ", ".join(["64"] * (shape.count(",") + 1))
        check = "the array that the map describes, the box of a copy and its swizzle; is it written?"
        return _Line(f'  {name}: "float16[{shape}] as map[{box}] swizzle 128"', check)
    dtype, check = _dtype(parameter, facts)
    inferred = facts.inference
    if not parameter.is_pointer:
        if name in facts.sizes or name in facts.parameters:
            return _Line(f"  {name}: {dtype}", check)
        if inferred is not None and (derived := inferred.derived.get(facts.paths.get(name, name))):
            return _Line(f'  {name}: "{dtype} = {derived}"', check, note="the length of a row")
        value = facts.launch.values.get(name, "")
        if inferred is not None and parameter.dtype is not None:
            return _Line(f'  {name}: "{dtype} = {value or 1}"', check, note="" if value else "any value")
        return _Line(f'  {name}: "{dtype} = {value or 1}"', check or ("" if value else "its value"))
    array = inferred.arrays.get(facts.paths.get(name, name)) if inferred is not None else None
    if array is not None:
        return _inferred_argument(parameter, array, dtype, check, facts)
    shape, is_sure = _shape(parameter, facts)
    direction = _direction(parameter, facts)
    fill = " zeros" if direction == "inout " and not _is_read(parameter, facts) else ""
    checks = [check] if check else []
    checks += [] if is_sure and direction != "inout " else ["its shape"]
    checks += ["is it only written?"] if direction == "out " and not _is_assigned(parameter, facts) else []
    checks += ["what it holds before the launch"] if direction == "inout " else []
    value = f"{direction}{dtype}[{shape}]{fill}"
    reason = "; ".join(checks)
    guess = Guess(f"arguments.{name}", value, reason, f"--argument '{name}={value}'") if checks else None
    return _Line(f'  {name}: "{value}"', guess=guess)


def _inferred_argument(
    parameter: SourceParameter, array: InferredArray, dtype: str, check: str, facts: _Facts
) -> _Line:
    """Return the line of an array of which the body says the use."""
    inner = facts.elements.get(parameter.name, ())
    alike = len({one.dtype for one in inner}) == 1
    lanes = [str(parameter.lanes)] if parameter.lanes > 1 else [str(len(inner))] if alike and len(inner) > 1 else []
    shape = ", ".join([*array.shape, *lanes]) if array.shape else _shape(parameter, facts)[0]
    direction = f"{array.direction} " if array.direction else ""
    if direction == "out " and inner and _leaves_members(parameter, inner, facts.body):
        direction = "out partial "
    value = f"{direction}{dtype}[{shape}]{' zeros' if array.accumulates else ''}"
    guess, reason = None, array.guess
    if parameter.name in facts.launch.inside:
        reason = f"the host passes a pointer behind the array's begin (line {facts.launch.line}), which no file can say"
    if check == _unknown_element(parameter) and not array.guess:
        check, reason = "", check
    if reason:
        key = f"arguments.{parameter.name}"
        guess = Guess(key, value, reason, f"--argument '{parameter.name}={value}'")
    return _Line(f'  {parameter.name}: "{value}"', check, f"inferred: line {array.line}" if array.line else "", guess)


def _leaves_members(parameter: SourceParameter, members: Sequence[SourceParameter], body: str) -> bool:
    """Return whether the body assigns to some members of an array's structures only: `x[i].a = 1`."""
    element = rf"(?<![\w.]){re.escape(parameter.name)}\s*\[[^;]*?\]\s*"
    stored = set(re.findall(rf"{element}\.\s*(\w+)\s*=[^=]", body))
    return bool(stored) and not re.search(rf"{element}=[^=]", body) and stored < {member.name for member in members}


def _constants(text: str, facts: _Facts) -> list[_Line]:
    """Return the lines of the constant memory that the host must set."""
    constants = declared_constants(text, facts.kernel, {*facts.sizes, *facts.parameters})
    lines = [_Line("constants:")] if constants else []
    for constant in constants:
        dtype, check = _dtype(constant.variable, facts)
        shape = ", ".join(side or "1" for side in constant.shape)
        checks = [check, "" if all(constant.shape) else "its shape", "what it holds"]
        value = f"{dtype}[{shape}]" if constant.shape else f"{dtype} = 1"
        is_known = constant.variable.dtype is not None and all(constant.shape)
        lines.append(
            _Line(f'  {constant.variable.name}: "{value}"', note="any value")
            if is_known
            else _Line(f'  {constant.variable.name}: "{value}"', "; ".join(filter(None, checks)))
        )
    return lines


def _dtype(parameter: SourceParameter, facts: _Facts) -> tuple[str, str]:
    """Return the element type, and a note on what to check."""
    if parameter.dtype is not None:
        return parameter.dtype, ""
    words = re.findall(r"\w+", parameter.c_type)
    kinds = {member.dtype for member in facts.elements.get(parameter.name, ())}
    if len(kinds) == 1 and (kind := kinds.pop()):
        return kind, ""
    for type_name in (facts.types[word] for word in words if word in facts.types):
        element = element_type(type_name) if type_name in facts.launch.template else None
        if element is not None and element.lanes == 1:
            return element.dtype, ""
        return "float32", f"the element type of {parameter.c_type}, as in the kernel's name"
    if any(facts.parameters.get(word) == "[float, double]" for word in words):
        return "float32", f"the element type of {parameter.c_type}; it must be the same in all variants"
    return "uint8", _unknown_element(parameter)


def _unknown_element(parameter: SourceParameter) -> str:
    return f"the element type of {parameter.c_type}"


def _shape(parameter: SourceParameter, facts: _Facts) -> tuple[str, bool]:
    """Return the shape in C order, and whether it is certain."""
    sizes = facts.sizes
    inner = facts.elements.get(parameter.name, ())
    alike = len({member.dtype for member in inner}) == 1
    lanes = [str(parameter.lanes)] if parameter.lanes > 1 else [str(len(inner))] if alike and len(inner) > 1 else []
    by_letter = {name.lower(): name for name in sizes}
    if len(sizes) == len("mnk") and not {"m", "n", "k"} <= set(by_letter):  # m_ld, M_GLOBAL
        by_letter = {re.sub(r"^(num|dim|size)_?", "", name.lower())[:1]: name for name in sizes}
    if {"m", "n", "k"} <= set(by_letter):
        m, n, k = (by_letter[letter] for letter in "mnk")
        matrices = {"a": [m, k], "b": [k, n], "c": [m, n], "d": [m, n]}
        if extents := matrices.get(parameter.name.lower()[:1]):
            return ", ".join([*extents, *lanes]), False
    if not sizes:
        return ", ".join(["1", *lanes]), False
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
    name = _called(parameter, facts)
    if re.search(rf"\batomic\w+\s*\(\s*&?\s*{name}\b|{name}\s*\[[^;]*?\]\s*(?:[-+*/|&^]|<<|>>)=[^=]", facts.body):
        return "inout "
    candidates = (*facts.kernel.parameters, *chain(*facts.members.values()))
    writable = [candidate for candidate in candidates if candidate.is_pointer and not candidate.is_const]
    if not _is_assigned(parameter, facts) and any(_is_assigned(candidate, facts) for candidate in writable):
        return ""  # a pointer that merely lacks `const`
    return "inout " if _is_assigned(parameter, facts) and _is_read(parameter, facts) else "out "


def _called(parameter: SourceParameter, facts: _Facts) -> str:
    """Return a pattern of an array's uses in the body, by its name or as a structure member."""
    path = facts.paths.get(parameter.name, parameter.name)
    return r"(?<![\w.])" + re.escape(path).replace(r"\.", r"\s*\.\s*") if path else r"(?!)"


def _is_assigned(parameter: SourceParameter, facts: _Facts) -> bool:
    """Return whether the body assigns to an array's elements, or passes it to a storing function."""
    word = _called(parameter, facts)
    element = rf"{word}\s*\[[^;]*?\]\s*\)*\s*(?:\.\w+\s*)?=[^=]"
    pointer = r"(?:reinterpret_cast\s*<[^;=]*?\*\s*>|\([^();=]*\*\s*\))"
    cast = rf"\*\s*\(*{pointer}\s*\(?\s*&?\s*{word}\b[^;=]*(?<![<>!])=[^=]"
    return bool(re.search(rf"{element}|{cast}|\*\s*{word}\s*=[^=]|\bstore\w*\s*\(\s*{word}\b", facts.body))


def _is_read(parameter: SourceParameter, facts: _Facts) -> bool:
    """Return whether the body reads an array's element."""
    for match in re.finditer(rf"(&?)\s*{_called(parameter, facts)}\s*\[", facts.body):
        depth, end = 1, match.end()
        while depth and end < len(facts.body):
            depth += {"[": 1, "]": -1}.get(facts.body[end], 0)
            end += 1
        is_target = re.match(
            r"\s*\)*\s*(?:\.\w+\s*|\[[^\]]*\]\s*)*(?:=[^=]|(?:[-+*/|&^]|<<|>>)=[^=])", facts.body[end:]
        )
        if not match[1] and not is_target:
            return True
    return False


def _parameters(facts: _Facts) -> list[_Line]:
    if not facts.parameters:
        return []
    lines = [_Line("parameters:")]
    for name, values in facts.parameters.items():
        check = "the values to try" if values == "[1]" or "," not in values else ""
        lines.append(_Line(f"  {_quoted(name)}: {values}", check))
    return lines


def _block_names(parameters: Mapping[str, str], kernel: SourceKernel) -> list[str]:
    """Return the parameters for the sides of a block, x first."""
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
    if facts.inference is not None:
        return [*_inferred_geometry(facts, facts.inference), *_shared_line(facts)]
    is_number, names_size = all(side.isdigit() for side in launch.grid), _names_size(facts)
    is_host = bool(launch.grid and launch.block) and not facts.cluster and (is_number or names_size)
    grid = launch.grid if is_host else _guessed_grid(facts, sides)
    check = "" if is_host and names_size else "the number of blocks"
    if is_host and not names_size:
        check = "the host's number of blocks; does it do at every size?"
    elif is_host and launch.shares:
        check = "the number of blocks; the host has one variable for several sizes"
    lines = [
        _Line(f"grid: {_listed(grid)}", check),
        _Line(f"block: {_listed(sides)}", "" if facts.sides or launch.block else "threads in a block"),
    ]
    if facts.cluster:
        names = {*facts.parameters, *facts.sizes}
        foreign = [word for side in facts.cluster for word in re.findall(r"[A-Za-z_]\w*", side) if word not in names]
        side = facts.cluster[0] if len(facts.cluster) == 1 else f"[{', '.join(facts.cluster)}]"
        lines.append(_Line(f"cluster: {side}", f"a value for the host's {', '.join(foreign)}" if foreign else ""))
    return [*lines, *_shared_line(facts)]


def _shared_line(facts: _Facts) -> list[_Line]:
    """Return the line of dynamic shared memory."""
    launch = facts.launch
    if not re.search(r"extern\s+__shared__", facts.body):
        return []
    if launch.shared_bytes:
        return [_Line(f"shared_bytes: {launch.shared_bytes}")]
    if facts.inference is not None and facts.inference.shared_bytes:
        line = f"inferred: line {facts.inference.shared_line}"
        return [_Line(f"shared_bytes: {facts.inference.shared_bytes}", note=line)]
    words = f": the host's {launch.shared_words}" if launch.shared_words else ""
    check = f"bytes of dynamic shared memory of a block{words}"
    guess = Guess("shared_bytes", "1024", check, "--shared-bytes 1024") if facts.inference is not None else None
    return [_Line("shared_bytes: 1024", "" if guess else check, "", guess)]


def _inferred_geometry(facts: _Facts, inference: Inference) -> list[_Line]:
    """Return grid and block as the body or the host says them."""
    lines = [inference.grid_line, inference.block_line]
    notes = [f"inferred: line {line}" if line else "" for line in lines]
    if facts.launch.grid and not inference.grid_line:
        notes[0] = f"the host's: line {facts.launch.line}"
    if facts.launch.block and not inference.block_line:
        notes[1] = f"the host's: line {facts.launch.line}"
    return [
        _Line(f"grid: {_listed(inference.grid)}", note=notes[0]),
        _Line(f"block: {_listed(inference.block)}", note=notes[1]),
    ]


def _guessed_grid(facts: _Facts, sides: Sequence[str]) -> Sequence[str]:
    sizes = facts.sizes
    if len(sides) == 1 or len(sizes) == 1:
        return _blocks([sizes[0] if len(sizes) == 1 else " * ".join(sizes[:2])], sides, facts.cluster)
    rows_last = re.match(r"(width|w|nx|cols?|columns?|x)$", sizes[0], re.IGNORECASE)
    return _blocks(sizes[:2] if rows_last else tuple(reversed(sizes[:2])), sides, facts.cluster)


def _listed(sides: Sequence[str]) -> str:
    """Return a single side unchanged, and several as a YAML list, quoted against commas."""
    quoted = [side if re.fullmatch(r"\w+", side) else f'"{side}"' for side in sides]
    if len(sides) == 1:
        return sides[0]
    return f"[{', '.join(quoted)}]"


def _names_size(facts: _Facts) -> bool:
    """Return whether the host's grid names a size; a grid of parameters alone fits only the host's sizes."""
    return any(word in facts.sizes for side in facts.launch.grid for word in re.findall(r"[A-Za-z_]\w*", side))


def _blocks(sizes: Sequence[str], sides: Sequence[str], cluster: Sequence[str]) -> list[str]:
    """Return the number of blocks that cover the sizes in each dimension, in whole clusters."""
    counts = []
    for at, (size, side) in enumerate(zip(sizes, sides, strict=False)):
        blocks = cluster[at] if at < len(cluster) else "1"
        counts.append(
            f"ceil_div({size}, {side})" if blocks == "1" else f"ceil_div({size}, {blocks} * {side}) * {blocks}"
        )
    return counts


def _reference(facts: _Facts) -> list[_Line]:
    candidates = (*facts.kernel.parameters, *chain(*facts.members.values()))
    arrays = facts.inference.arrays if facts.inference is not None else {}
    outputs = [
        candidate.name
        for candidate in candidates
        if candidate.is_pointer
        and (
            own.direction
            if (own := arrays.get(facts.paths.get(candidate.name, candidate.name)))
            else _direction(candidate, facts)
        )
    ]
    name = outputs[0] if outputs else "output"
    return [
        _Line(f"{_TODO}what is right: a NumPy expression over the arguments; without it, the first variant's result"),
        _Line(f"# reference: {{{name}: …}}"),
    ]


def _quoted(word: str) -> str:
    """Return a word as YAML text, quoted if YAML would parse it otherwise."""
    plain = re.fullmatch(r"[A-Za-z_][\w./]*(?:::\w+)*", word) and word.lower() not in ("true", "false", "null")
    return word if plain else '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
