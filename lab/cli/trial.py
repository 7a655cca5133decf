"""What `lab try` runs: the experiment that `lab new` would write, with the command line in place of guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.base.errors import UserError, did_you_mean
from lab.cli.new import SourceFolders, check_result, choose, read_sources
from lab.templates.plain.draft import draft

_LARGEST_ON_CPU = 10_000


@dataclass(frozen=True)
class Asked:
    """What the command line says of a kernel.

    Attributes:
        kernel: Its name; None for the only one of the file.
        problem: Words behind ``--n``, by name.
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


def experiment_of(source: Path, asked: Asked) -> dict[str, Any]:
    """Return the experiment of a kernel, as the keys of a file.

    Raises:
        UserError: The source cannot be read or has no such kernel, or an option names what the kernel does not have.
    """
    swept = {words.partition("=")[0].strip() for words in asked.parameters}
    unit = read_sources(source, asked.sources).without_macros(swept)
    chosen = choose(unit.kernels, asked.kernel, source)
    check_result(chosen, source)
    made: dict[str, Any] = yamlfile.parse(draft(unit.whole, source.name, chosen), source.with_suffix(".yaml")).data
    made |= {"source": str(source.resolve()), "root": str(unit.tree.root)}
    made["include"] = [str(one) for one in unit.tree.search]
    if unit.flags.options:
        made["options"] = list(unit.flags.options)
    made.pop("question", None)
    _problem(made, asked.problem)
    for words in asked.parameters:
        name, values = _pair(words, "-D", "name=1,2,4")
        made.setdefault("parameters", {})[name] = [_value(word) for word in values.split(",")]
    for words in asked.arguments:
        name, given = _pair(words, "--argument", "name=out float32[n]")
        structures = [one for one in made["arguments"].values() if isinstance(one, dict)]
        holder = next((one for one in (made["arguments"], *structures) if isinstance(one.get(name), str)), None)
        if holder is None:
            raise _unknown(name, made["arguments"], "--argument", "the kernel has no such argument")
        holder[name] = given
    if asked.reference:
        made["reference"] = dict(_pair(words, "--reference", "name=a + b") for words in asked.reference)
    made |= {name: _sizes(words) if name != "shared_bytes" else words for name, words in asked.geometry.items()}
    return made


def _problem(made: dict[str, Any], given: Mapping[str, str]) -> None:
    known = made.get("problem") or {}
    for name, word in given.items():
        if name not in known:
            raise _unknown(name, known, f"--{name}", "the kernel has no such size")
        known[name] = _value(word)
        small = (made.get("emulate") or {}).get(name, _LARGEST_ON_CPU)
        if isinstance(known[name], int) and isinstance(small, int):
            made.setdefault("emulate", {})[name] = min(small, known[name])


def _unknown(name: str, known: Mapping[str, Any], key: str, message: str) -> UserError:
    accepted = list(known) or "none"
    return UserError(message, key=key, found=name, accepted=accepted, suggestion=did_you_mean(name, known))


def macros_of(words: Sequence[str]) -> dict[str, bool | int | float | str]:
    """Return macros, each given as ``name=value``.

    Raises:
        UserError: One is not of that form.
    """
    return {name: _value(value) for name, value in (_pair(word, "-D", "name=1") for word in words)}


def _pair(words: str, key: str, form: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UserError("not of the form", key=key, found=words, accepted=form)
    return name.strip(), value.strip()


def _sizes(words: str) -> str | list[str]:
    """One expression, or one for each dimension between semicolons; commas may stand in calls."""
    parts = [part.strip() for part in words.split(";")]
    return parts if len(parts) > 1 else parts[0]


def _value(word: str) -> bool | int | float | str:
    """Return a word as YAML reads it."""
    found = yamlfile.parse(f"value: {word}", "-D").data["value"] if word.strip() else word
    return found if isinstance(found, bool | int | float | str) else word
