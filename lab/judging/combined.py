"""A task and a candidate as one experiment, written into a folder that holds nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lab.api.given import anchored, yaml_of
from lab.base.errors import CollectedError, UserError, together
from lab.experiment.load import from_text
from lab.experiment.model import Experiment
from lab.isa.cuda.kernels import read_kernels
from lab.judging.schema import HeaderModel, TaskFile
from lab.judging.task import CandidateError, CandidateSource, Task, of_candidate
from lab.operators.declared.specification import Direction, parse

_FILES: Final = {"cu": "candidate.cu", "ptx": "candidate.ptx", "triton": "candidate.py"}
"""The name under which a candidate is compiled: its own may not say anything to the task."""

_OF_HEADER: Final = frozenset(
    {"kernel", "grid", "block", "shared_bytes", "cluster", "launches", "parameters", "configs", "source"}
)


def experiment_of(task: Task, candidate: CandidateSource, folder: Path, seed: int) -> Experiment:
    """Write the experiment of a candidate into a folder, with its source alone, and load it.

    Raises:
        CandidateError: The candidate's header or source does not fit.
        UserError: The task is wrong.
    """
    name = _FILES[candidate.kind]
    (folder / name).write_text(candidate.text, encoding="utf-8", errors="surrogatepass")
    keys = _keys(task, candidate, name) | {"seed": seed}
    file = folder / f"{task.name}.yaml"
    text = yaml_of(keys)
    file.write_text(text, encoding="utf-8")
    try:
        return from_text(text, file)
    except UserError as error:
        raise placed(error, task, candidate) from None


def placed(error: UserError, task: Task, candidate: CandidateSource) -> UserError:
    """Return a mistake in the experiment, placed in the file that is at fault."""
    if isinstance(error, CollectedError):
        errors = [placed(member, task, candidate) for member in error.errors]
        faults = [member for member in errors if not isinstance(member, CandidateError)]
        return together(faults) if faults else of_candidate(together(errors))
    key = error.key or ""
    path = tuple(key.split("."))
    first = path[0].partition("[")[0]
    in_scratch = first == "arguments" and len(path) > 1 and path[1] in candidate.header.scratch
    if in_scratch:
        return of_candidate(error.placed(candidate.document.at("scratch", path[1]), f"scratch.{path[1]}"))
    if first in _OF_HEADER or not key:
        is_tasks = first in task.raw.model_fields_set and first not in candidate.header.model_fields_set
        if not is_tasks or first == "kernel":
            return of_candidate(error.placed(candidate.document.at(first), key or "source"))
    return error.placed(task.document.at(*path), key)


def _keys(task: Task, candidate: CandidateSource, name: str) -> dict[str, Any]:
    """Return the keys of the experiment: the task's, with the launch and the buffers of the candidate."""
    raw, header = task.raw, candidate.header
    source = name if candidate.kind != "triton" else f"{name}:{header.kernel}" if header.kernel else name
    folder = task.file.resolve().parent
    keys: dict[str, Any] = {
        "source": source,
        "question": raw.title or task.name,
        "problem": dict(raw.problem),
        "emulate": {name: raw.problem[name] for name in raw.problem} | dict(raw.emulate),
        "arguments": {
            **{key: _anchored(key, value, folder) for key, value in raw.arguments.items()},
            **{key: _scratch(key, value, candidate) for key, value in header.scratch.items()},
        },
        "constants": {key: _anchored(key, value, folder) for key, value in raw.constants.items()},
        "reference": _reference(raw.reference, folder),
        "metrics": dict(raw.metrics),
        "archs": [raw.arch],
    }
    keys |= {"tolerance": raw.tolerance} if raw.tolerance is not None else {}
    keys |= {"gpu": raw.gpu} if raw.gpu is not None else {}
    if candidate.kind != "triton":
        keys["options"] = list(raw.options)
    keys |= {"parameters": dict(header.parameters)} if header.parameters else {}
    keys |= {"configs": dict(header.configs)} if header.configs else {}
    duplicate = next((key for key in header.scratch if key in raw.arguments or key in raw.problem), None)
    if duplicate is not None:
        raise CandidateError(
            "the task has this name",
            code="duplicate",
            at=candidate.document.at("scratch", duplicate),
            key=f"scratch.{duplicate}",
            found=duplicate,
            accepted="another name",
        )
    _check_parameters(task, candidate)
    return keys | _launch(raw, header, candidate)


def _check_parameters(task: Task, candidate: CandidateSource) -> None:
    """Reject parameters with names that the task uses: they could change the arguments or the reference.

    Raises:
        CandidateError: There is one.
    """
    texts = (task.raw.problem, task.raw.arguments, task.raw.constants, task.raw.reference, task.raw.metrics)
    words = set(re.findall(r"\w+", " ".join(map(str, texts))))
    for name in (*candidate.header.parameters, *candidate.header.configs):
        if name in words:
            raise CandidateError(
                "the task uses this name",
                code="conflict",
                at=candidate.document.at("parameters", name),
                key=f"parameters.{name}",
                found=name,
                accepted="another name",
            )


def _launch(raw: TaskFile, header: HeaderModel, candidate: CandidateSource) -> dict[str, Any]:
    """Return the keys of the launch: the candidate's, or the task's for what it leaves out."""
    if header.launches is not None:
        return {"launches": [launch.model_dump(exclude_unset=True) for launch in header.launches]}
    keys: dict[str, Any] = {}
    names = ("grid",) if candidate.kind == "triton" else ("kernel", "grid", "block", "shared_bytes", "cluster")
    for name in names:
        for model in (header, raw):
            if name in model.model_fields_set and getattr(model, name) is not None:
                keys[name] = getattr(model, name)
                break
    if "kernel" in keys and "kernel" not in header.model_fields_set and candidate.kind == "cu":
        kernels = read_kernels(candidate.text)  # a source with a single kernel may call it as it likes
        if len(kernels) == 1:
            del keys["kernel"]
    return keys


def _scratch(name: str, text: str, candidate: CandidateSource) -> str:
    """Return the declaration of a candidate's buffer; it may hold nothing that a launch would have to compute.

    Raises:
        CandidateError: It is not an array, or has contents other than zeros.
    """
    try:
        argument = parse(name, text)
    except UserError as error:
        raise of_candidate(error.placed(candidate.document.at("scratch", name), f"scratch.{name}")) from None
    words = text.partition("]")[2].strip()
    plain = argument.is_array and argument.direction is Direction.IN and argument.view is None
    if not plain or words not in ("", "zeros"):
        raise CandidateError(
            "a scratch buffer begins empty or with zeros",
            code="refused",
            at=candidate.document.at("scratch", name),
            key=f"scratch.{name}",
            found=text,
            accepted="TYPE[SHAPE], or TYPE[SHAPE] zeros",
        )
    return f"scratch {text}"


def _anchored(name: str, value: str | Mapping[str, str], folder: Path) -> str | dict[str, str]:
    """Return an argument with the path of a file relative to the task's folder made absolute."""
    if isinstance(value, Mapping):
        return {key: anchored(key, text, folder) for key, text in value.items()}
    return anchored(name, value, folder)


def _reference(reference: Mapping[str, str | int | float] | str, folder: Path) -> Any:  # noqa: ANN401 - as in YAML
    if isinstance(reference, str):
        path, _, function = reference.rpartition(":")
        return f"{(folder / path).resolve()}:{function}" if path.endswith(".py") else reference
    return {
        key: str((folder / value).resolve()) if isinstance(value, str) and value.endswith(".npy") else value
        for key, value in reference.items()
    }
