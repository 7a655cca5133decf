"""The experiment `lab try` runs: that of `lab new`, with the command line in place of guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.cli.new import check_result, choose
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.draft import draft

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
    """

    kernel: str | None = None
    problem: Mapping[str, str] = field(default_factory=dict)
    parameters: Sequence[str] = ()
    arguments: Sequence[str] = ()
    reference: Sequence[str] = ()
    geometry: Mapping[str, str] = field(default_factory=dict)


def experiment_of(source: Path, request: Asked) -> dict[str, Any]:
    """Return the experiment of a kernel, as the keys of a file.

    Raises:
        UserError: The source cannot be read or has no such kernel, or an option names what the kernel does not have.
    """
    if source.suffix not in (".cu", ".cuh"):
        raise UserError(
            "not a CUDA source file", code="syntax", at=Location(source), found=source.suffix, accepted=".cu"
        )
    text = yamlfile.read_text(source)
    chosen = choose(read_kernels(text), request.kernel, source)
    check_result(chosen, source)
    experiment: dict[str, Any] = yamlfile.parse(draft(text, source.name, chosen), source.with_suffix(".yaml")).data
    experiment["source"] = str(source.resolve())
    experiment.pop("question", None)
    _problem(experiment, request.problem)
    for words in request.parameters:
        name, values = _pair(words, "-D", "name=1,2,4")
        experiment.setdefault("parameters", {})[name] = [_value(word) for word in values.split(",")]
    for words in request.arguments:
        name, declaration = _pair(words, "--argument", "name=out float32[n]")
        structures = [structure for structure in experiment["arguments"].values() if isinstance(structure, dict)]
        holder = next(
            (mapping for mapping in (experiment["arguments"], *structures) if isinstance(mapping.get(name), str)), None
        )
        if holder is None:
            raise _unknown(name, experiment["arguments"], "--argument", "the kernel has no such argument")
        holder[name] = declaration
    if request.reference:
        experiment["reference"] = dict(_pair(words, "--reference", "name=a + b") for words in request.reference)
    experiment |= {name: _sizes(words) if name != "shared_bytes" else words for name, words in request.geometry.items()}
    return experiment


def _problem(experiment: dict[str, Any], sizes: Mapping[str, str]) -> None:
    problem = experiment.get("problem") or {}
    for name, word in sizes.items():
        if name not in problem:
            raise _unknown(name, problem, f"--{name}", "the kernel has no such size")
        problem[name] = _value(word)
        small = (experiment.get("emulate") or {}).get(name, _LARGEST_ON_CPU)
        if isinstance(problem[name], int) and isinstance(small, int):
            experiment.setdefault("emulate", {})[name] = min(small, problem[name])


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
