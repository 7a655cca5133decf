"""Loads a task file and a candidate's source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.base.validation import validate
from lab.base.yamlfile import Document
from lab.judging.schema import HeaderModel, SourceKind, TaskFile

KINDS: Final[Mapping[str, SourceKind]] = {".cu": "cu", ".cuh": "cu", ".ptx": "ptx", ".py": "triton"}
"""The kind of a source, by the suffix of its file."""

_BOUNDS: Final = 3
"""Numbers of a range: start, stop and step."""

_BLOCK = re.compile(r"/\*[ \t]*lab[ \t]*\n(?P<text>.*?)\*/", re.DOTALL)
_LINES = re.compile(r"^(?P<mark>//|#)[ \t]*lab[ \t]*\n(?P<text>(?:(?P=mark)[^\n]*\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """A checked task file.

    Attributes:
        file: The file.
        raw: Its keys.
        document: The same with lines.
    """

    file: Path
    raw: TaskFile
    document: Document

    @property
    def name(self) -> str:
        """The file's name without suffixes; of a file called task.yaml, that of its folder."""
        stem = self.file.name.split(".")[0]
        return self.file.resolve().parent.name if stem.lower() == "task" else stem

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits of a hash of the text."""
        return hashlib.sha256(self.document.text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class CandidateSource:
    """The source of a candidate, with its header.

    Attributes:
        file: The file that the user names, for messages.
        text: The source.
        kind: The kind of source.
        header: The launch that it declares; all defaults without a header.
        document: The header with lines of the source.
    """

    file: str
    text: str
    kind: SourceKind
    header: HeaderModel
    document: Document = field(compare=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate to judge, as it is sent to a worker.

    Attributes:
        task: The task file.
        task_text: Its text: the file may change while workers live.
        file: Name of the candidate's file; its suffix says the kind of source.
        text: The candidate's source.
        seed: Seed of everything that is drawn.
    """

    task: Path
    task_text: str
    file: str
    text: str
    seed: int


class CandidateError(UserError):
    """A mistake in a candidate: it decides about the candidate, not about the task."""


def load_task(file: Path, text: str | None = None) -> Task:
    """Read a task file; what depends on a candidate is checked with it.

    Args:
        file: The file.
        text: Its text; None reads the file.

    Raises:
        UserError: The file is invalid; the error has file and line.
    """
    document = yamlfile.parse(yamlfile.read_text(file, label="the task") if text is None else text, file)
    raw = validate(TaskFile, document)
    if raw.baseline is not None and (raw.baseline.source is None) == (raw.baseline.ms is None):
        raise UserError(
            "a baseline is either a source or a time",
            code="conflict",
            at=document.at("baseline"),
            key="baseline",
            accepted="one of source and ms",
        )
    for name in raw.hidden.sizes:
        if name not in raw.problem:
            raise UserError(
                "the problem has no such field",
                code="unknown-name",
                at=document.at("hidden", "sizes", name),
                key=f"hidden.sizes.{name}",
                found=name,
                accepted=list(raw.problem),
            )
    for name in raw.hidden.sizes:
        _ = choices_of(raw, document, name)
    for i, pair in enumerate(raw.policy.aliases):
        if unknown := [name for name in pair if name not in raw.arguments]:
            raise UserError(
                "no such argument",
                code="unknown-name",
                at=document.at("policy", "aliases", i),
                key=f"policy.aliases[{i}]",
                found=unknown[0],
                accepted=list(raw.arguments),
            )
    return Task(file, raw, document)


def choices_of(raw: TaskFile, document: Document, name: str) -> Sequence[Scalar]:
    """Return the values that the judge may draw for a field of the problem.

    Raises:
        UserError: There is none, or the range is not one.
    """
    setting = raw.hidden.sizes[name]
    values: Any = setting if isinstance(setting, list) else [setting]
    if isinstance(setting, dict):
        values = _range_of(setting)
    if not values or any(isinstance(value, list | dict) for value in values[:_BOUNDS]):
        raise UserError(
            "no values to draw from",
            code="wrong-value",
            at=document.at("hidden", "sizes", name),
            key=f"hidden.sizes.{name}",
            found=setting,
            accepted="a list of values, or {range: [start, stop, step]} with stop included",
        )
    return cast("Sequence[Scalar]", values)


def _range_of(setting: Mapping[str, object]) -> Sequence[int]:
    """Return the values of `{range: [start, stop, step]}`, stop included; none if it is not of this form."""
    match dict(setting):
        case {"range": [int(start), int(stop), int(step)], **others} if not others and step >= 1:
            return range(start, stop + 1, step)
    return ()


def candidate_of(text: str, file: str, task: Task) -> CandidateSource:
    """Return the candidate with a text; the suffix of `file` says its kind.

    Raises:
        CandidateError: Its kind is not accepted, or its header is invalid.
    """
    kind = KINDS.get(Path(file).suffix)
    if kind is None or kind not in task.raw.sources:
        suffixes = [suffix for suffix, name in KINDS.items() if name in task.raw.sources]
        raise CandidateError(
            "the task does not take such a source",
            code="unsupported",
            at=Location(file),
            key="sources",
            found=Path(file).suffix,
            accepted=suffixes,
        )
    try:
        document = _header(text, file)
        return CandidateSource(file, text, kind, validate(HeaderModel, document), document)
    except UserError as error:
        raise of_candidate(error) from None


def _header(text: str, file: str) -> Document:
    """Return the header of a source, with lines of the source; without one, an empty document."""
    match = _BLOCK.search(text) or _LINES.search(text)
    if match is None:
        return Document(file, "", {}, {})
    body = match["text"]
    if "mark" in match.re.groupindex:
        body = re.sub(r"^(//|#)[ ]?", "", body, flags=re.MULTILINE)
    before = "\n" * text.count("\n", 0, match.start("text"))
    document = yamlfile.parse(before + body, file)
    return document if document.data is not None else Document(file, "", {}, {})


def of_candidate(error: UserError) -> CandidateError:
    """Return a mistake as one of the candidate."""
    return CandidateError(
        error.message,
        code=error.code,
        at=error.at,
        key=error.key,
        found=error.found,
        accepted=error.accepted,
        suggestion=error.suggestion,
    )
