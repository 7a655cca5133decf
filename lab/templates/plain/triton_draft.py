"""Drafts an experiment file from a Triton function, for `lab new`.

Names and order come from the function and are certain. Types, shapes, values and the grid are the host's, where it
launches the function; what is guessed is marked `TODO`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lab.base.expressions import Scalar
from lab.templates.plain.triton import TritonArgument, TritonFunction
from lab.templates.plain.triton_body import BodyUse, uses_of
from lab.templates.plain.triton_configs import Decorations, Evaluation, UnknownValueError, decorations
from lab.templates.plain.triton_host import HostCall, Tensor, read_host

_MOST_CONFIGS = 8
"""More of them stand in the file by the word `autotune`."""
_VECTOR, _VECTOR_EMULATED = 1_048_576, 4096
_SIDE, _SIDE_EMULATED = 1024, 128
_FEW, _FEW_EMULATED = 4, 2
_BLOCK = 128
_IS_FEW = re.compile(r"^(b|z|h|g|bs|bh|batch\w*|n?heads?|num_heads|num_\w*heads|groups?)$", re.IGNORECASE)
_IS_INTEGER = re.compile(
    r"(ids?|idx|index|indices|pos|positions?|lens?|seqlens?|offsets?|locks?|counts?)(_ptr)?$", re.IGNORECASE
)
_IS_VECTOR = re.compile(r"(w|weights?|b|bias|gamma|beta)(_ptr)?$", re.IGNORECASE)
_EPSILON = re.compile(r"eps(ilon)?$", re.IGNORECASE)


@dataclass
class _Drafting:
    """The inputs of a draft.

    Attributes:
        function: The function.
        host: How the file launches it; None where it does not.
        uses: Its arrays.
        said: What its decorators say.
        evaluation: Of the file's own expressions.
    """

    function: TritonFunction
    host: HostCall | None
    uses: Mapping[str, BodyUse]
    said: Decorations
    evaluation: Evaluation
    has_dot: bool

    @property
    def said_names(self) -> set[str]:
        """Constexprs that decorators set."""
        return {name for config in self.said.configs for name in config.kwargs} | set(self.said.heuristics)

    @property
    def arrays(self) -> dict[str, Tensor]:
        """Arguments that are arrays, with what the host says of them."""
        made = {}
        for argument in self.function.arguments:
            given = self.host.arguments.get(argument.name) if self.host else None
            tensor = self.host.tensors.get(ast.unparse(given)) if self.host and given is not None else None
            if not argument.is_constexpr and (argument.name in self.uses or tensor is not None):
                made[argument.name] = tensor or Tensor()
        return made


@dataclass(frozen=True)
class _Passed:
    """The arguments of a launch.

    Attributes:
        shapes: Shapes of arrays, and whether the host says them.
        values: Values of scalars, likewise.
        nones: Arguments that are None.
        sizes: Fields of the problem.
    """

    shapes: Mapping[str, tuple[list[str], bool]]
    values: Mapping[str, tuple[str, bool]]
    nones: set[str]
    sizes: Mapping[str, object]


def draft_triton(text: str, file: str, function: TritonFunction) -> str:
    """Return the text of an experiment file for one Triton function.

    Args:
        text: The Python file.
        file: Its name, as the experiment file shall call it.
        function: One of its functions.
    """
    tree = ast.parse(text)
    node = next(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.lineno == function.line)
    host = read_host(tree, function.name, [argument.name for argument in function.arguments])
    has_dot = any(isinstance(one, ast.Attribute) and one.attr == "dot" for one in ast.walk(tree))
    drafting = _Drafting(function, host, uses_of(node), decorations(tree, node), Evaluation(tree), has_dot)
    return _written(drafting, file)


def _written(of: _Drafting, file: str) -> str:
    nones = {name for name, node in (of.host.arguments.items() if of.host else ()) if _is_none(node)}
    renamed, constants, checks = _constants(of)
    shapes = {name: _shape(name, tensor, of) for name, tensor in of.arrays.items() if name not in nones}
    values = {argument.name: _number(argument, of) for argument in of.function.arguments if not argument.is_constexpr}
    grid = list(of.host.grid) if of.host else []
    inside = [one for node in (of.host.arguments.values() if of.host else ()) if isinstance(node, ast.Tuple)
              for one in node.elts]  # fmt: skip
    tuples = [text for one in inside if of.host and (text := of.host.number(one))]
    tuples += [side for one in inside if of.host and (tensor := of.host.tensors.get(ast.unparse(one)))
               for side in tensor.shape if side]  # fmt: skip
    sides = [side for shape, _ in shapes.values() for side in shape]
    numbers = [text for text, _ in values.values()]
    fields = _fields([*tuples, *sides, *numbers, *grid], {*constants, *renamed, *of.said_names})
    sizes = _sizes(fields, one_alone=len(fields) == 1)
    known: dict[str, Scalar] = {name: pair[0] for name, pair in sizes.items()}
    name = _replacing(renamed)
    texts = {one: name(text) for one, text in constants.items()}
    values_of, later = _evaluated(of, texts, checks, known, nones)
    passed = _Passed(shapes, values, nones, sizes)
    lines = [
        f"question: Which variant of {of.function.name} is fastest?",
        f"source: {file}:{of.function.name}",
        f"problem: {{{', '.join(f'{field}: {pair[0]}' for field, pair in sizes.items())}}}",
        f"emulate: {{{', '.join(f'{field}: {pair[1]}' for field, pair in sizes.items())}}}",
        "arguments:" + (f"  # as the host passes them in line {of.host.line}" if of.host else ""),
        *(_argument(argument, of, passed, name) for argument in of.function.arguments if not argument.is_constexpr),
        *_parameters(values_of, later),
        *_configs(of),
        *_grid([name(side) for side in grid], sizes, of),
        "# TODO: what is right: a NumPy expression over the arguments; without it, the first variant's result",
        f"# reference: {{{next((one for one, use in of.uses.items() if use.direction), 'output')}: …}}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _constants(of: _Drafting) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the host's sizes that constexprs take the place of, and the constexprs' values with what to check."""
    renamed, constants, checks = dict[str, str](), dict[str, str](), dict[str, str]()
    for constexpr in of.function.constexprs.values():
        node = of.host.arguments.get(constexpr.name) if of.host else None
        text = of.host.number(node) if of.host and node is not None else None
        if text is not None and of.host and text in of.host.sizes:
            renamed[text] = constexpr.name
            constants[constexpr.name] = ""
        elif text:
            constants[constexpr.name] = text
        elif text == "" and constexpr.has_default:
            continue
        elif node is not None and isinstance(node, ast.Attribute) and ast.unparse(node).startswith("tl."):
            constants[constexpr.name] = ast.unparse(node)
        elif node is None and constexpr.has_default:
            continue
        elif constexpr.name not in of.said_names:
            constants[constexpr.name] = ""
            checks[constexpr.name] = "its value"
    return renamed, constants, checks


def _shape(name: str, tensor: Tensor, of: _Drafting) -> tuple[list[str], bool]:
    """Return a shape, and whether the host says all of it."""
    sides = [one for one in tensor.shape if one is not None]
    if sides and len(sides) == len(tensor.shape):
        return sides, True
    if sides:
        return [one or "1" for one in tensor.shape], False
    use = of.uses.get(name, BodyUse())
    if (length := _length(use, of)) is not None:
        return [length], True
    for other, array in of.arrays.items():
        known = [side for side in array.shape if side is not None]
        if known and len(known) == len(array.shape) and use.places and use.places <= of.uses[other].places:
            return known, True
    names = [
        argument.name
        for argument in of.function.arguments
        if not argument.is_constexpr and argument.name not in of.arrays
    ]
    sizes = [name for name in names if not re.search("stride|eps|scale|offset|seed|^p$", name, re.IGNORECASE)]
    full = [array.shape for array in of.arrays.values() if array.shape and None not in array.shape]
    shared = [str(side) for side in full[0]] if full else []
    if shared and _IS_VECTOR.match(name):
        return shared[-1:], False
    return (shared or sizes[:2] or ["n"]), False


def _length(use: BodyUse, of: _Drafting) -> str | None:
    """Return the length of a vector that the body says: its mask's size, or the programs along an axis."""
    if isinstance(use.length, int):
        return of.host.grid[use.length] if of.host and use.length < len(of.host.grid) else None
    argument = next((one for one in of.function.arguments if one.name == use.length), None)
    if argument is None or argument.is_constexpr:
        return None
    text, is_known = _number(argument, of)
    return (text or argument.name) if is_known else None


def _number(argument: TritonArgument, of: _Drafting) -> tuple[str, bool]:
    """Return the value of a scalar, and whether it is known; empty where the problem has it."""
    node = of.host.arguments.get(argument.name) if of.host else None
    if node is not None and of.host is not None and (text := of.host.number(node)) is not None:
        return ("" if text == argument.name else text), True
    if argument.default is not None:
        return str(argument.default), True
    if re.search("stride|seed|offset|scale|alpha|beta", argument.name, re.IGNORECASE):
        return "1", False
    if _EPSILON.search(argument.name):
        return "1e-5", False
    return "", node is None


def _fields(texts: list[str], parameters: set[str]) -> list[str]:
    """Return the names that texts mention and no parameter has, each once."""
    words = [word for text in texts for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)]
    functions = {"ceil_div", "min", "max", "next_power_of_2", "true", "false"}
    return [word for word in dict.fromkeys(words) if word not in parameters | functions]


def _sizes(fields: list[str], *, one_alone: bool) -> dict[str, tuple[int, int]]:
    def size(name: str) -> tuple[int, int]:
        if _IS_FEW.match(name):
            return _FEW, _FEW_EMULATED
        return (_VECTOR, _VECTOR_EMULATED) if one_alone else (_SIDE, _SIDE_EMULATED)

    return {name: size(name) for name in fields}


def _evaluated(
    of: _Drafting, constants: dict[str, str], checks: dict[str, str], known: dict[str, Scalar], nones: set[str]
) -> tuple[dict[str, Scalar], dict[str, str]]:
    """Return the values of constexprs, and what to check or to know about each."""
    made, notes = dict[str, Scalar](), dict(checks)
    for name, text in constants.items():
        if text == "":
            made[name] = _guess(name, of, known)
            notes.setdefault(name, "its value")
            continue
        try:
            value = of.evaluation.value(
                ast.parse(text.replace("ceil_div", "cdiv"), mode="eval").body,
                {**known, **made, "true": True, "false": False},
            )
        except (UnknownValueError, SyntaxError):
            value = text
        made[name] = value if isinstance(value, bool | int | float | str) else text
        if str(value) != text and text not in ("true", "false"):
            notes[name] = f"= {text}"
    arguments = {
        **known,
        **made,
        **{one: (None if one in nones else 1) for one in of.function.passed if one not in known},
    }
    if of.said.configs:
        arguments |= of.said.configs[0].values
    for name, function in of.said.heuristics.items():
        try:
            value = of.evaluation.called(function, arguments)
            made[name], notes[name] = value, f"by @triton.heuristics, line {function.lineno}"
        except UnknownValueError:
            made.setdefault(name, _BLOCK)
            notes[name] = f"TODO: what @triton.heuristics computes in line {function.lineno}"
    if not of.said.configs and of.said.configs_line:
        for constexpr in of.function.constexprs.values():
            if constexpr.name not in made and not constexpr.has_default:
                made[constexpr.name], notes[constexpr.name] = (
                    _BLOCK,
                    f"TODO: one of @triton.autotune's, line {of.said.configs_line}",
                )
    return made, notes


def _guess(name: str, of: _Drafting, known: Mapping[str, Scalar]) -> int:
    """Return a constexpr's value by its name: a block that the grid does not mention covers a whole row."""
    if _IS_FEW.match(name):
        return _FEW
    if re.search("block|tile", name, re.IGNORECASE):
        covers = of.host is not None and of.host.grid and not any(name in side for side in of.host.grid)
        row = [value for field, value in known.items() if isinstance(value, int) and not _IS_FEW.match(field)]
        return 1 << (int(row[-1]) - 1).bit_length() if covers and row and row[-1] <= _SIDE else _BLOCK
    return 64 if re.search("dim|head|size|width|^[dk]$", name, re.IGNORECASE) else _BLOCK


def _replacing(renamed: Mapping[str, str]) -> Callable[[str], str]:
    def replace(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda word: renamed.get(word[0], word[0]), text)

    return replace


def _argument(one: TritonArgument, of: _Drafting, passed: _Passed, name: Callable[[str], str]) -> str:
    if one.name in passed.nones:
        return f"  {one.name}: none"
    given = of.host.arguments.get(one.name) if of.host else None
    if isinstance(given, ast.Tuple):
        members = ", ".join(_members(one.name, given, of, name))
        unknown = any(of.host is not None and _is_guess(node, of.host) for node in given.elts)
        check = "  # TODO: its members" if unknown else ""
        return f"  {one.name}: {{{members}}}{check}"
    if one.name in passed.shapes:
        sides, is_sure = passed.shapes[one.name]
        tensor, use = of.arrays[one.name], of.uses.get(one.name, BodyUse())
        integer = (use.is_index or bool(_IS_INTEGER.search(one.name))) and not tensor.dtype
        dtype = tensor.dtype or ("int32" if integer else "float16" if of.has_dot else "float32")
        fill = " zeros" if use.direction == "inout " and (tensor.is_zero or use.atomic) else ""
        fill = " uniform 0 16" if integer and not use.direction else fill
        check = "" if is_sure and not integer else "  # TODO: " + ("what it holds" if is_sure else "its shape")
        return f'  {one.name}: "{use.direction}{dtype}[{", ".join(map(name, sides))}]{fill}"{check}'
    text, is_sure = passed.values[one.name]
    text = name(text)
    if text == "" and one.name in passed.sizes:
        return f"  {one.name}: int32"
    is_float = bool(re.search(r"\.|e-", text)) or bool(_EPSILON.search(one.name))
    kind = "float32" if is_float else "int32"
    check = "" if is_sure and text else "  # TODO: its value"
    return f'  {one.name}: "{kind} = {text or 1}"{check}'


def _is_guess(node: ast.expr, host: HostCall) -> bool:
    tensor = host.tensors.get(ast.unparse(node))
    return host.number(node) is None and (tensor is None or not tensor.shape)


def _members(argument: str, given: ast.Tuple, of: _Drafting, name: Callable[[str], str]) -> Iterator[str]:
    """Yield the members of a tuple, arrays or numbers, with the host's names where these are names."""
    assert of.host is not None  # noqa: S101 - a tuple is the host's
    for place, node in enumerate(given.elts):
        text = ast.unparse(node)
        own = text if text.isidentifier() else f"{argument}_{place}"
        tensor, number = of.host.tensors.get(text), of.host.number(node)
        if tensor is not None or argument in of.uses:
            use, tensor = of.uses.get(argument, BodyUse()), tensor or Tensor()
            shape = ", ".join(name(side) for side in _shape(argument, tensor, of)[0])
            yield f'{own}: "{use.direction}{tensor.dtype or "float32"}[{shape}]"'
        elif number == own:
            yield f"{own}: int32"
        else:
            yield f'{own}: "{"int32" if number and re.fullmatch(r"-?[0-9]+", number) else "float32"} = {number or 1}"'


def _shown(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _parameters(constants: Mapping[str, Scalar], notes: Mapping[str, str]) -> list[str]:
    if not constants:
        return []
    lines = ["parameters:"]
    for name, value in constants.items():
        note = notes.get(name, "")
        mark = "  # TODO: its value" if note == "its value" else f"  # {note}" if note else ""
        lines.append(f"  {name}: {_shown(value)}{mark}")
    return lines


def _configs(of: _Drafting) -> list[str]:
    if not of.said.configs:
        return ["configs: {num_warps: [4, 8]}"]
    if len(of.said.configs) > _MOST_CONFIGS:
        return [f"configs: autotune  # the {len(of.said.configs)} of line {of.said.configs_line}"]
    lines = [f"configs:  # those of @triton.autotune, line {of.said.configs_line}"]
    configs = [{name: _shown(value) for name, value in config.values.items()} for config in of.said.configs]
    lines += [
        f"  - {{{', '.join(f'{key}: {text}' for key, text in config.items()) or 'num_warps: 4'}}}" for config in configs
    ]
    return lines


def _grid(grid: list[str], sizes: Mapping[str, object], of: _Drafting) -> list[str]:
    if grid and not any("next_power_of_2" in side for side in grid):
        quoted = [f'"{side}"' for side in grid]
        return [f"grid: {quoted[0] if len(quoted) == 1 else '[' + ', '.join(quoted) + ']'}"]
    block = next((name for name in of.function.constexprs if re.match(r"x?block", name, re.IGNORECASE)), None)
    size = next(iter(sizes), "1")
    return [
        f'grid: "ceil_div({size}, {block})"  # TODO: the programs' if block else f"grid: {size}  # TODO: the programs"
    ]
