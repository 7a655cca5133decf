"""The experiment `lab try` runs: that of `lab new`, with the command line in place of guesses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import evaluate
from lab.cli.new import SourceFolders, choose_launched, read_sources, triton_function
from lab.templates.plain.draft import Guess
from lab.templates.plain.draft_sequence import drafted_sequence
from lab.templates.plain.triton_draft import draft_triton

_LARGEST_ON_CPU = 10_000


@dataclass(frozen=True)
class Asked:
    """The command line's description of a kernel.

    Attributes:
        kernel: Its name; None for the only one of the file.
        problem: Values of options such as ``--n``, by name.
        parameters: Texts ``name=1,2,4``.
        arguments: Texts ``name=out float32[n]``, in place of what the signature suggests.
        reference: Texts ``name=expression``.
        geometry: `grid`, `block` and `shared_bytes`, as far as they are given.
        sources: What the source may include.
    """

    kernel: str | None = None
    problem: Mapping[str, str] = field(default_factory=dict)
    parameters: Sequence[str] = ()
    arguments: Sequence[str] = ()
    reference: Sequence[str] = ()
    geometry: Mapping[str, str] = field(default_factory=dict)
    sources: SourceFolders | None = None


@dataclass(frozen=True)
class TrialDraft:
    """An experiment for one kernel, and what a verdict on it rests on.

    Attributes:
        experiment: The keys of a file.
        guesses: Values that neither the kernel nor the command line says.
        notes: What the user must know before any verdict.
    """

    experiment: dict[str, Any]
    guesses: tuple[Guess, ...] = ()
    notes: tuple[str, ...] = ()


def experiment_of(source: Path, request: Asked) -> dict[str, Any]:
    """Return the experiment of a kernel, as the keys of a file; see `try_draft`."""
    return try_draft(source, request).experiment


def try_draft(source: Path, request: Asked) -> TrialDraft:
    """Draft the experiment of a kernel, with the command line in place of guesses.

    Raises:
        UserError: The source cannot be read or has no such kernel, or an option names what the kernel does not have.
    """
    if source.suffix == ".py":
        return _try_triton(source, request)
    swept = {words.partition("=")[0].strip() for words in request.parameters}
    unit = read_sources(source, request.sources).without_macros(swept)
    draft = drafted_sequence(unit.whole, source.name, choose_launched(unit, request.kernel))
    keys: dict[str, Any] = yamlfile.parse(draft.text, source.with_suffix(".yaml")).data
    keys |= {"source": str(source.resolve()), "root": str(unit.tree.root)}
    keys["include"] = [str(one) for one in unit.tree.search]
    if unit.flags.options:
        keys["options"] = list(unit.flags.options)
    keys.pop("question", None)
    notes = [*draft.warnings, *_problem(keys, request.problem, draft.blocks)]
    for words in request.parameters:
        name, values = _pair(words, "-D", "name=1,2,4")
        keys.setdefault("parameters", {})[name] = [_value(word) for word in values.split(",")]
    named = _set_arguments(keys, request)
    if request.geometry and "launches" in keys:
        message = "the host launches several kernels, whose geometry no option sets"
        raise UserError(
            message,
            code="wrong-value",
            key=f"--{next(iter(request.geometry))}",
            accepted="--kernel, or a file that lab new writes",
        )
    if "block" in request.geometry:
        _set_sides(keys, draft.threads, request.geometry["block"])
    keys |= {name: _sizes(words) if name != "shared_bytes" else words for name, words in request.geometry.items()}
    named |= set(request.geometry)
    return TrialDraft(keys, tuple(guess for guess in draft.guesses if guess.key not in named), tuple(notes))


def _set_arguments(keys: dict[str, Any], request: Asked) -> set[str]:
    """Put arguments and references of the command line in place of drafted ones; return the keys that were set.

    Raises:
        UserError: The kernel has no such argument.
    """
    named = set[str]()
    for words in request.arguments:
        name, text = _pair(words, "--argument", "name=out float32[n]")
        structures = [value for value in keys["arguments"].values() if isinstance(value, dict)]
        holder = next((held for held in (keys["arguments"], *structures) if isinstance(held.get(name), str)), None)
        if holder is None:
            raise _unknown(name, keys["arguments"], "--argument", "the kernel has no such argument")
        holder[name] = text
        named.add(f"arguments.{name}")
    if request.reference:
        keys["reference"] = dict(_pair(words, "--reference", "name=a + b") for words in request.reference)
    return named


_GUESSED = re.compile(r"\s*(?P<name>\w+): (?P<value>.*?)  # TODO: (?P<reason>.*)\Z")
_TRITON_OPTIONS = {"arguments": "--argument '{name}=…'", "parameters": "-D {name}=…", "grid": "--grid '…'"}


def _try_triton(source: Path, request: Asked) -> TrialDraft:
    """Draft the experiment of a Triton function; see `try_draft`."""
    function = triton_function(source, request.kernel)
    text = draft_triton(yamlfile.read_text(source), source.name, function)
    keys: dict[str, Any] = yamlfile.parse(text, source.with_suffix(".yaml")).data
    keys["source"] = f"{source.resolve()}:{function.name}"
    keys.pop("question", None)
    notes = _problem(keys, request.problem, {})
    named = set[str]()
    for words in request.parameters:
        name, values = _pair(words, "-D", "BLOCK=128,256")
        keys.setdefault("parameters", {})[name] = [_value(word) for word in values.split(",")]
        named.add(f"parameters.{name}")
    named |= _set_arguments(keys, request)
    for name, words in request.geometry.items():
        if name != "grid":
            raise UserError(
                "Triton chooses the threads of a program and its shared memory",
                code="unsupported",
                key=f"--{name.replace('_', '-')}",
                found=words,
                accepted="--grid; num_warps in the decorator's configs",
            )
        keys["grid"] = _sizes(words)
        named.add("grid")
    guesses = tuple(guess for guess in _guesses_of_triton(text) if guess.key not in named)
    return TrialDraft(keys, guesses, tuple(notes))


def _guesses_of_triton(text: str) -> Iterator[Guess]:
    """Yield the values of a drafted file that are marked TODO."""
    section = ""
    for line in text.splitlines():
        if not line.startswith((" ", "#")):
            section = line.partition(":")[0]
        if (match := _GUESSED.match(line)) and section in _TRITON_OPTIONS:
            name = match["name"]
            key = section if section == name else f"{section}.{name}"
            option = _TRITON_OPTIONS[section].format(name=name)
            reason = "the host does not launch it" if section == "grid" else f"the host does not say {match['reason']}"
            yield Guess(key, match["value"].strip('"'), reason, option)


def _set_sides(keys: dict[str, Any], threads: Sequence[str], block: str) -> None:
    """Put a block of the user's in place of the parameters that are its sides, wherever these stand."""
    given, sides = _sizes(block), keys["block"]
    named = dict(
        zip(sides if isinstance(sides, list) else [sides], given if isinstance(given, list) else [given], strict=False)
    )
    for name in threads:
        value = named.get(name, name)

        def replaced(held: Any, name: str = name, value: str = value) -> Any:  # noqa: ANN401 - any value of YAML
            if isinstance(held, dict):
                return {key: replaced(inner) for key, inner in held.items()}
            if isinstance(held, list):
                return [replaced(inner) for inner in held]
            return re.sub(rf"(?<!\w){name}(?!\w)", value, held) if isinstance(held, str) else held

        if value != name:
            keys |= {key: replaced(keys[key]) for key in ("grid", "shared_bytes", "arguments") if key in keys}
            keys["parameters"].pop(name, None)


def _problem(experiment: dict[str, Any], sizes: Mapping[str, str], blocks: Mapping[str, str]) -> list[str]:
    """Set sizes, and return what the user may not expect of them.

    `--n` is the size of a kernel whatever the kernel calls it: its only size, all of them, or the elements along
    the axes of a grid of which the caller chooses the blocks.
    """
    problem, notes = experiment.get("problem") or {}, []
    for name, word in sizes.items():
        names = [name] if name in problem else _meant(name, problem)
        if not names and (problem or name != "n"):
            raise _unknown(name, problem, f"--{name}", "the kernel has no such size")
        if not names:
            notes.append(f"--{name} {word} is not used: the kernel has no size that a caller sets")
        parameters = experiment.get("parameters") or {}
        covered = {size: _largest(text, parameters) for size, text in blocks.items() if size != name}
        values = {size: _whole_blocks(_value(word), covered.get(size, 1)) for size in names}
        if names and names != [name]:
            words = [size if values[size] == _value(word) else f"{size} to {values[size]}" for size in names]
            notes.append(f"--{name} {word} sets {' and '.join(words)}")
        for size in names:
            problem[size] = values[size]
            small = (experiment.get("emulate") or {}).get(size, _LARGEST_ON_CPU)
            if isinstance(problem[size], int) and isinstance(small, int):
                experiment.setdefault("emulate", {})[size] = min(small, problem[size])
    return notes


def _whole_blocks(size: Any, covered: int) -> Any:  # noqa: ANN401 - any value of YAML
    """Return the number of blocks that cover a size."""
    return -(-size // covered) if isinstance(size, int) else size


def _largest(text: str, parameters: Mapping[str, Any]) -> int:
    """Return the value of an expression with the largest values of the parameters; 1 where it names something else."""
    names = {name: max(values) if isinstance(values, list) else values for name, values in parameters.items()}
    try:
        value = evaluate(text, names, at=Location(Path()), key="")
    except UserError:
        return 1
    return value if isinstance(value, int) and value > 0 else 1


def _meant(name: str, known: Mapping[str, Any]) -> list[str]:
    """Return the sizes that `--n` means where none has that name."""
    if name != "n":
        return []
    same = [one for one in known if one.lower() == "n"]
    sides = [one for one, value in known.items() if value not in (1, 256)]
    return same or sides or list(known)


def _unknown(name: str, choices: Mapping[str, Any], key: str, message: str) -> UserError:
    accepted = list(choices) or "none"
    return UserError(
        message, code="unknown-name", key=key, found=name, accepted=accepted, suggestion=did_you_mean(name, choices)
    )


def macros_of(words: Sequence[str]) -> dict[str, bool | int | float | str]:
    """Return macros given as ``name=value``.

    Raises:
        UserError: A macro is not of that form.
    """
    return {name: _value(value) for name, value in (_pair(word, "-D", "name=1") for word in words)}


def _pair(words: str, key: str, form: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UserError("not of the form", code="syntax", key=key, found=words, accepted=form)
    return name.strip(), value.strip()


def _sizes(words: str) -> str | list[str]:
    """Return one expression, or one per dimension between semicolons; commas may stand in calls."""
    parts = [expression.strip() for expression in words.split(";")]
    return parts if len(parts) > 1 else parts[0]


def _value(word: str) -> bool | int | float | str:
    """Return a word as YAML reads it."""
    value = yamlfile.parse(f"value: {word}", "-D").data["value"] if word.strip() else word
    return value if isinstance(value, bool | int | float | str) else word
