"""Drafts an experiment file from a source whose host launches several kernels, one after another.

The kernels share the host's variables: an array of the file is what the host passes under one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.isa.cuda.kernels import SourceKernel
from lab.templates.plain.draft import Draft, Guess, drafted

_ARRAY = re.compile(r"(?P<direction>(?:out partial|inout|out) )?(?P<type>[\w{}]+)\[(?P<shape>[^\]]*)\](?P<contents>.*)")
_PLAIN = re.compile(r"[\w.]+")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


@dataclass(frozen=True)
class _Launch:
    """One kernel's draft in the names of the host.

    Attributes:
        kernel: The kernel.
        draft: Its own draft.
        names: The file's names of its parameters.
        data: The keys of its draft, renamed.
    """

    kernel: SourceKernel
    draft: Draft
    names: Mapping[str, str]
    data: Mapping[str, Any]


def drafted_sequence(text: str, file: str, kernels: Sequence[SourceKernel]) -> Draft:
    """Draft an experiment file for kernels that the host launches in this order.

    Args:
        text: The CUDA source.
        file: Its name, as the experiment file shall call it.
        kernels: The kernels; none takes a structure.
    """
    if len(kernels) == 1:
        return drafted(text, file, kernels[0])
    launches = [_launch(text, file, kernel) for kernel in kernels]
    arguments: dict[str, str] = {}
    for launch in launches:
        for name, value in launch.data["arguments"].items():
            arguments[name] = _merged(arguments[name], value) if name in arguments else value
    lines = [
        f"question: What do {' and '.join(kernel.name for kernel in kernels)} do?  # ask what you want to know",
        f"source: {launches[0].data['source']}",
        *_mappings("problem", launches),
        *_mappings("emulate", launches),
        "arguments:",
        *(f'  {name}: "{value}"' for name, value in arguments.items()),
        *_blocks("constants", launches),
        *_blocks("parameters", launches),
        f"launches:  # in the host's order, lines {', '.join(str(launch.draft.launch.line) for launch in launches)}",
        *(line for launch in launches for line in _entry(launch)),
        "# TODO: what is right: a NumPy expression over the arguments; without it, the first variant's result",
        f"# reference: {{{next((name for name, value in arguments.items() if 'out' in value.split('[')[0]), '…')}: …}}",
    ]
    guesses = [_renamed_guess(guess, launch, arguments) for launch in launches for guess in launch.draft.guesses]
    warnings = [warning for launch in launches for warning in launch.draft.warnings]
    return Draft(
        "".join(f"{line}\n" for line in lines),
        tuple(guess for guess in guesses if guess is not None),
        (*warnings, *_streams(launches)),
        tuple(dict.fromkeys(name for launch in launches for name in launch.draft.threads)),
        {name: covered for launch in launches for name, covered in launch.draft.blocks.items()},
    )


def _launch(text: str, file: str, kernel: SourceKernel) -> _Launch:
    draft = drafted(text, file, kernel, keeps_block=True)
    names = {
        parameter.name: draft.launch.variables.get(parameter.name, parameter.name) for parameter in kernel.parameters
    }
    data = yamlfile.parse(draft.text, Path(file)).data
    arguments = {names.get(name, name): _renamed_argument(value, names) for name, value in data["arguments"].items()}
    renamed = {key: _renamed(value, names) for key, value in data.items() if key != "arguments"}
    return _Launch(kernel, draft, names, renamed | {"arguments": arguments})


def _renamed_argument(text: str, names: Mapping[str, str]) -> str:
    """Return an argument with its shape or value in the host's names; a direction may be called like a parameter."""
    head, sign, rest = text.partition("[" if "[" in text else "=")
    return f"{head}{sign}{_renamed(rest, names)}"


def _renamed(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - any value of YAML
    """Return a value in the host's names."""
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return _WORD.sub(lambda word: names.get(word[0], word[0]), value) if isinstance(value, str) else value


def _merged(first: str, second: str) -> str:
    """Return an argument that two launches use, the first one before."""
    before, after = _ARRAY.fullmatch(first), _ARRAY.fullmatch(second)
    if before is None or after is None:
        return first
    direction = before["direction"] or ("inout " if after["direction"] else "")
    if direction == "out partial " and after["direction"] and after["direction"] != "inout ":
        direction = after["direction"]
    return f"{direction}{before['type']}[{_larger(before['shape'], after['shape'])}]{before['contents']}"


def _larger(first: str, second: str) -> str:
    """Return the shape of an array that has room for two shapes."""
    one, other = _elements(first), _elements(second)
    is_same = one == other or (not set("()+-/%") & set(one + other) and sorted(one.split()) == sorted(other.split()))
    return first if is_same else f"max({one}, {other})"


def _elements(shape: str) -> str:
    """Return the number of elements of a shape: `rows * (n + 1)` for `rows, n + 1`."""
    sides = _sides(shape)
    return shape if len(sides) == 1 else " * ".join(side if _PLAIN.fullmatch(side) else f"({side})" for side in sides)


def _sides(shape: str) -> list[str]:
    """Split a shape at the commas outside of brackets."""
    sides, depth = [""], 0
    for sign in shape:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            sides.append("")
        else:
            sides[-1] += sign
    return [side.strip() for side in sides]


def _mappings(key: str, launches: Sequence[_Launch]) -> list[str]:
    """Return the line of a mapping of sizes; `emulate: full` where no launch has sizes."""
    values: dict[str, Any] = {}
    for launch in reversed(launches):
        held = launch.data.get(key)
        values |= held if isinstance(held, dict) else {}
    if values:
        return [f"{key}: {{{', '.join(f'{name}: {value}' for name, value in values.items())}}}"]
    return ["emulate: full"] if key == "emulate" else []


def _blocks(key: str, launches: Sequence[_Launch]) -> list[str]:
    values: dict[str, Any] = {}
    for launch in reversed(launches):
        values |= launch.data.get(key) or {}
    lines = [f"  {name}: {_quoted(value)}" for name, value in values.items()]
    return [f"{key}:", *lines] if lines else []


def _entry(launch: _Launch) -> list[str]:
    data = launch.data
    lines = [
        f"  - kernel: {_quoted(data['kernel'])}",
        f"    grid: {_quoted(data['grid'])}",
        f"    block: {_quoted(data['block'])}",
        f"    arguments: [{', '.join(launch.names[parameter.name] for parameter in launch.kernel.parameters)}]",
    ]
    return [*lines, *([f"    shared_bytes: {_quoted(data['shared_bytes'])}"] if "shared_bytes" in data else [])]


def _quoted(value: Any) -> str:  # noqa: ANN401 - a text, a number or a list of them
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _renamed_guess(guess: Guess, launch: _Launch, arguments: Mapping[str, str]) -> Guess | None:
    """Return a guess in the host's names; None where another launch says what it was about."""
    if not guess.key.startswith("arguments."):
        key = f"launches.{launch.kernel.name}.{guess.key}"
        return replace(guess, key=key, option="a file that `lab new` writes, with this value in it")
    own = guess.key.removeprefix("arguments.")
    name = launch.names.get(own, own)
    value = _renamed_argument(guess.value, launch.names)
    if arguments.get(name, value).partition("[")[2] != value.partition("[")[2]:
        return None
    return Guess(f"arguments.{name}", value, guess.reason, f"--argument '{name}={value}'")


def _streams(launches: Sequence[_Launch]) -> list[str]:
    """Return a warning where the host launches on different streams."""
    streams = [launch.draft.launch.stream or "the default stream" for launch in launches]
    if len(set(streams)) <= 1:
        return []
    lines = [launch.draft.launch.line for launch in launches]
    places = ", ".join(f"line {line} on {stream}" for line, stream in zip(lines, streams, strict=True))
    return [f"the host launches on different streams, {places}: here, they run in the order of the source"]
