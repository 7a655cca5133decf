"""Draft of an experiment file from a plain CUDA source, for `lab new`.

Types, names and order come from the kernel's head and are certain. Where host code in the source launches the kernel,
arguments of its template, sizes, grid, block and shared memory are the launch's. Shapes, directions, block and grid
follow from the kernel's body, with the source line that says so. What neither says is a guess, marked `TODO`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from lab.base.elements import ELEMENT_BYTES
from lab.isa.cuda.kernels import SourceKernel, SourceParameter
from lab.isa.cuda.types import element_type
from lab.templates.plain.declared import declared_constants
from lab.templates.plain.draft_facts import DraftFacts, draft_facts
from lab.templates.plain.inference.infer import Inference, InferredArray
from lab.templates.plain.launches import HostLaunch

_LARGE, _LARGE_EMULATED = "10_000_000", "10_000"  # one size: elements of a vector
_SIDE, _SIDE_EMULATED = "4096", "128"  # several: sides of a matrix
_OTHER_SIDE = "256"  # of a matrix that is not square
_BLOCKS = (("4096", "16"), ("128", "4"), ("32", "2"))
"""Numbers of blocks that the caller chooses, by the axes that have one."""
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
    facts = draft_facts(text, kernel, keeps_block=keeps_block)
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


def _doubts(facts: DraftFacts) -> list[str]:
    """Return warnings about accumulators that the host never clears."""
    arrays = facts.inference.arrays if facts.inference is not None and facts.launch.line else {}
    return [
        f"the kernel adds to {name}, and the host clears it nowhere: before line {facts.launch.line}, it holds what "
        "was in memory"
        for name, array in arrays.items()
        if array.accumulates and name in facts.launch.variables and name not in facts.launch.cleared
    ]


def _kernel_line(facts: DraftFacts) -> _Line:
    kernel = facts.kernel
    if kernel.template is None:
        return _Line(f"kernel: {_quoted(kernel.qualified_name)}")
    named_parameters = [parameter for parameter in kernel.template if parameter.name and "..." not in parameter.kind]
    arguments = [facts.types.get(parameter.name, f"{{{parameter.name}}}") for parameter in named_parameters]
    guessed = [name for name, stand_in in facts.types.items() if stand_in not in facts.launch.template]
    check = f"the type that stands for {' and '.join(guessed)}" if guessed else ""
    return _Line(f'kernel: "{kernel.qualified_name}<{", ".join(arguments)}>"', check)


def _problem(facts: DraftFacts) -> list[_Line]:
    if not facts.sizes:
        return [_Line("emulate: full", note="the kernel has no size")]
    known_sizes = {name: value for name in facts.sizes if (value := facts.launch.values.get(name, "")).isdigit()}
    sizes = {name: _sizes_of(name, facts) for name in facts.sizes}
    problem = {name: known_sizes.get(name, large) for name, (large, _) in sizes.items()}
    distinct = _distinct_side(facts, sizes)
    small = {name: _OTHER_SIDE if name == distinct else size for name, (_, size) in sizes.items()}
    emulated = {name: value if int(value) < int(small[name]) else small[name] for name, value in problem.items()}
    return [
        _Line(
            f"problem: {_mapping(problem)}",
            note="" if len(known_sizes) == len(problem) else "the sizes that you care about",
        ),
        _Line(f"emulate: {_mapping(emulated)}", note="executed on the CPU"),
    ]


def _distinct_side(facts: DraftFacts, sizes: Mapping[str, tuple[str, str]]) -> str:
    """Return the side of a matrix that is emulated with another length than the first; empty for none.

    Equal sides hide rows and columns that are mixed up. Where the host passes equal sides, the kernel may need them.
    """
    first, *others = [name for name, size in sizes.items() if size == (_SIDE, _SIDE_EMULATED)] or [""]
    passed = (facts.launch.variables, facts.launch.values)
    return next((name for name in others if not any(name in of and of[name] == of.get(first) for of in passed)), "")


def _sizes_of(name: str, facts: DraftFacts) -> tuple[str, str]:
    """Return a size to begin with, and one that is small enough to execute on the CPU."""
    inference = facts.inference
    if inference is None:
        is_side = len(facts.sizes) > 1 or len(facts.launch.grid) > 1  # one size may be that of a square matrix
        return (_SIDE, _SIDE_EMULATED) if is_side else (_LARGE, _LARGE_EMULATED)
    path = facts.paths.get(name, name)
    if path in inference.units:
        own = facts.launch.values.get(name, "1")
        return (own, own) if own.isdigit() else ("1", "1")
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


def _arguments(parameter: SourceParameter, place: int, facts: DraftFacts) -> list[_Line]:
    """Return the lines of an argument, including members of a structure."""
    members = facts.members.get(parameter.name, ())
    if not members:
        return [_argument(parameter, place, facts)]
    lines = [_argument(member, place, facts) for member in members]
    return [_Line(f"  {parameter.name}:"), *(replace(line, text=f"  {line.text}") for line in lines)]


def _argument(parameter: SourceParameter, place: int, facts: DraftFacts) -> _Line:  # noqa: PLR0911 - a kind each
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
    parameter: SourceParameter, array: InferredArray, dtype: str, check: str, facts: DraftFacts
) -> _Line:
    """Return the line of an array of which the body says the use."""
    inner = facts.elements.get(parameter.name, ())
    alike = len({one.dtype for one in inner}) == 1
    lanes = [str(parameter.lanes)] if parameter.lanes > 1 else [str(len(inner))] if alike and len(inner) > 1 else []
    shape = ", ".join([*array.shape, *lanes]) if array.shape else _shape(parameter, facts)[0]
    direction = f"{array.direction} " if array.direction else ""
    if direction == "out " and inner and _leaves_members(parameter, inner, facts.body):
        direction = "out partial "
    contents = array.contents or ("zeros" if array.accumulates else "")
    byte = facts.launch.bytes_set.get(parameter.name)
    if byte is not None and direction == "inout " and "int" in dtype:
        contents = _filled(dtype, shape, byte)
    value = f"{direction}{dtype}[{shape}]{' ' if contents else ''}{contents}"
    guess, reason = None, array.guess
    if parameter.name in facts.launch.inside:
        reason = f"the host passes a pointer behind the array's begin (line {facts.launch.line}), which no file can say"
    if check == _unknown_element(parameter) and not array.guess:
        check, reason = "", check
    if reason:
        key = f"arguments.{parameter.name}"
        guess = Guess(key, value, reason, f"--argument '{parameter.name}={value}'")
    return _Line(f'  {parameter.name}: "{value}"', check, f"inferred: line {array.line}" if array.line else "", guess)


def _filled(dtype: str, shape: str, byte: int) -> str:
    """Return the contents of an array of integers all of whose bytes are the same."""
    value = int.from_bytes(bytes([byte]) * ELEMENT_BYTES[dtype], "little", signed=dtype.startswith("int"))
    return f"= full(({shape}), {value})" if value else "zeros"


def _leaves_members(parameter: SourceParameter, members: Sequence[SourceParameter], body: str) -> bool:
    """Return whether the body assigns to some members of an array's structures only: `x[i].a = 1`."""
    element = rf"(?<![\w.]){re.escape(parameter.name)}\s*\[[^;]*?\]\s*"
    stored = set(re.findall(rf"{element}\.\s*(\w+)\s*=[^=]", body))
    return bool(stored) and not re.search(rf"{element}=[^=]", body) and stored < {member.name for member in members}


def _constants(text: str, facts: DraftFacts) -> list[_Line]:
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


def _dtype(parameter: SourceParameter, facts: DraftFacts) -> tuple[str, str]:
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


def _shape(parameter: SourceParameter, facts: DraftFacts) -> tuple[str, bool]:
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


def _direction(parameter: SourceParameter, facts: DraftFacts) -> str:
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


def _called(parameter: SourceParameter, facts: DraftFacts) -> str:
    """Return a pattern of an array's uses in the body, by its name or as a structure member."""
    path = facts.paths.get(parameter.name, parameter.name)
    return r"(?<![\w.])" + re.escape(path).replace(r"\.", r"\s*\.\s*") if path else r"(?!)"


def _is_assigned(parameter: SourceParameter, facts: DraftFacts) -> bool:
    """Return whether the body assigns to an array's elements, or passes it to a storing function."""
    word = _called(parameter, facts)
    element = rf"{word}\s*\[[^;]*?\]\s*\)*\s*(?:\.\w+\s*)?=[^=]"
    pointer = r"(?:reinterpret_cast\s*<[^;=]*?\*\s*>|\([^();=]*\*\s*\))"
    cast = rf"\*\s*\(*{pointer}\s*\(?\s*&?\s*{word}\b[^;=]*(?<![<>!])=[^=]"
    return bool(re.search(rf"{element}|{cast}|\*\s*{word}\s*=[^=]|\bstore\w*\s*\(\s*{word}\b", facts.body))


def _is_read(parameter: SourceParameter, facts: DraftFacts) -> bool:
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


def _parameters(facts: DraftFacts) -> list[_Line]:
    if not facts.parameters:
        return []
    lines = [_Line("parameters:")]
    for name, values in facts.parameters.items():
        check = "the values to try" if values == "[1]" or "," not in values else ""
        lines.append(_Line(f"  {_quoted(name)}: {values}", check))
    return lines


def _geometry(facts: DraftFacts) -> list[_Line]:
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


def _shared_line(facts: DraftFacts) -> list[_Line]:
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


def _inferred_geometry(facts: DraftFacts, inference: Inference) -> list[_Line]:
    """Return grid and block as the body or the host says them."""
    grid, guess = _listed(inference.grid), None
    if inference.grid_guess:
        guess = Guess("grid", grid, inference.grid_guess, f"--grid '{'; '.join(inference.grid)}'")
    lines = [inference.grid_line, inference.block_line]
    notes = [f"inferred: line {line}" if line else "" for line in lines]
    if facts.launch.grid and not inference.grid_line:
        notes[0] = f"the host's: line {facts.launch.line}"
    if facts.launch.block and not inference.block_line:
        notes[1] = f"the host's: line {facts.launch.line}"
    return [
        _Line(f"grid: {grid}", note=notes[0], guess=guess),
        _Line(f"block: {_listed(inference.block)}", note=notes[1]),
    ]


def _guessed_grid(facts: DraftFacts, sides: Sequence[str]) -> Sequence[str]:
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


def _names_size(facts: DraftFacts) -> bool:
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


def _reference(facts: DraftFacts) -> list[_Line]:
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
