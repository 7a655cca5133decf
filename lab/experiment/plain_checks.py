"""Shared checks of plain kernel files: parameters, names in expressions, and mistakes reported together."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.base.elements import element_named
from lab.base.errors import Code, Location, UserError, did_you_mean
from lab.base.expressions import Scalar, names_in
from lab.base.files import read_regular, with_target, within
from lab.base.yamlfile import Document, Key, decoded, dotted
from lab.experiment.machine import FACTS
from lab.experiment.problems import values_of
from lab.experiment.schema import KernelModel, PlainFile, Sizes
from lab.operators.declared.declaration import Declaration, declare
from lab.templates.front_matter import WorkspaceDeclaration
from lab.templates.plain.bound import BoundArgument
from lab.toolchain.includes import Tree, decoded_source

MOST_SOURCE_BYTES = 4 << 20
"""Maximum size of a source in bytes."""

_TYPES: Mapping[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass
class Reading(ABC):
    """A source and its declarations while they are checked.

    Attributes:
        raw: The validated keys.
        document: The same with source lines.
        mistakes: The mistakes found so far.
        omitted: Arguments that the file names and launches do not pass.
    """

    raw: PlainFile | KernelModel
    document: Document
    mistakes: list[UserError] = field(default_factory=list)
    omitted: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def fields(self) -> set[str]:
        """Names of the fields of any problem."""

    @abstractmethod
    def declared(
        self, name: str, axes: Mapping[str, tuple[Scalar, ...]], own: Mapping[str, str | None]
    ) -> Declaration | None:
        """Parse the kernel's arguments; None if there are mistakes, which are recorded.

        Args:
            name: The kernel's.
            axes: Values of the parameters.
            own: Types of the kernel's parameters by name, as far as its source defines them.
        """

    @property
    def bound(self) -> tuple[BoundArgument, ...]:
        """Values of the operator bound to the declared arguments; none by default."""
        return ()

    @property
    def workspace(self) -> dict[str, WorkspaceDeclaration]:
        """Scratch buffers among the declared arguments; none by default."""
        return {}

    @property
    def named(self) -> frozenset[str]:
        """Problem fields that are named for this kernel, if it has an operator; none by default."""
        return frozenset()

    @property
    def baseline(self) -> Mapping[str, Scalar]:
        """Baseline setting of the parameters; none by default."""
        return {}

    @property
    def summary(self) -> str:
        """One sentence that describes the kernel."""
        return f"The kernels of {self.source}."

    @property
    def source(self) -> str:
        """The source file, with the function's name if the file gives one."""
        assert self.raw.source is not None  # noqa: S101 - the caller has looked
        return self.raw.source

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record a mistake and continue after the block."""
        try:
            yield
        except UserError as error:
            self.mistakes.append(error)

    def refuse(
        self,
        message: str,
        path: Key,
        *,
        code: Code = "wrong-value",
        **details: Any,  # noqa: ANN401 - those of UserError
    ) -> None:
        """Record a mistake at a path of the file."""
        self.mistakes.append(UserError(message, code=code, at=self.document.at(*path), key=dotted(path), **details))

    @property
    def folder(self) -> Path:
        """Folder of the file."""
        return Path(self.document.file).parent

    def text(self, name: str) -> str | None:
        """Read the source, a file in the folder or below; None if that fails."""
        with self.noting():
            path = within(name, self.folder, at=self.document.at("source"), key="source")
            try:
                content = read_regular(path, MOST_SOURCE_BYTES, "the source")
            except UserError as error:
                error.found = with_target(name, self.folder) if error.found is None else error.found
                raise error.placed(self.document.at("source"), "source") from None
            if path.suffix == ".ptx":
                return decoded(content, self.folder / name, "the source")
            return decoded_source(content).replace("\r", "\n")
        return None

    @property
    def tree(self) -> Tree:
        """The files that the source may include.

        Raises:
            UserError: The root is not a folder above this file, or a folder of headers is not below the root.
        """
        folder = self.folder.resolve()
        root = (folder / self.raw.root).resolve() if self.raw.root else folder
        if not root.is_dir() or not folder.is_relative_to(root):
            accepted = "a folder above this file, such as .. or ../.."
            raise UserError(
                "not a root",
                code="wrong-value",
                at=self.document.at("root"),
                key="root",
                found=self.raw.root,
                accepted=accepted,
            )
        search = [(folder / one).resolve() for one in self.raw.include]
        for i, one in enumerate(search):
            if not one.is_dir() or not one.is_relative_to(root):
                at, given = self.document.at("include", i), self.raw.include[i]
                raise UserError(
                    "not a folder of headers",
                    code="wrong-value",
                    at=at,
                    key=f"include[{i}]",
                    found=given,
                    accepted="a folder below the root; the key root names a higher one",
                )
        return Tree((folder / self.source).parent.resolve(), root, tuple(search))

    @property
    def constraints(self) -> tuple[tuple[str, Location], ...]:
        """The constraints, each with its source line."""
        return tuple((text, self.document.at("constraints", i)) for i, text in enumerate(self.raw.constraints))

    def values(self, setting: object, path: Key) -> tuple[Scalar, ...]:
        """Return the distinct values of a parameter; none if the entry is wrong."""
        with self.noting():
            values: list[Any] = values_of(setting, self.document, path)
            for value in values:
                if type(value) not in _TYPES:
                    self.refuse(
                        "wrong type", path, code="wrong-type", found=value, accepted="a number, true or false, or text"
                    )
            if {isinstance(value, bool | str) for value in values} == {True, False}:
                self.refuse(
                    "the values are of several types",
                    path,
                    code="mismatch",
                    found=values,
                    accepted="values of one type",
                )
            # Python says that 1 equals true and 1.0; types are those of the file
            return tuple({repr(value): value for value in values}.values())
        return ()


@dataclass
class PlainReading(Reading):
    """The file of a plain kernel, which declares its arguments and expected outputs."""

    raw: PlainFile

    @property
    def fields(self) -> set[str]:
        """Fields of the problem or of any problem in a list.

        Raises:
            UserError: The problem is not a mapping.
        """
        problem = self.raw.problem
        if not isinstance(problem, dict | list):  # without names for its values, nothing else can be judged
            accepted = f"names and values: {{n: {problem}}}"
            at = self.document.at("problem")
            raise UserError("not a mapping", code="wrong-type", at=at, key="problem", found=problem, accepted=accepted)
        entries = problem if isinstance(problem, list) else [problem]
        return {str(name) for entry in entries if isinstance(entry, dict) for name in entry} - {"emulate"}

    @property
    def summary(self) -> str:
        """The question, if there is one."""
        return self.raw.question or super().summary

    def declared(
        self,
        name: str,
        axes: Mapping[str, tuple[Scalar, ...]],
        own: Mapping[str, str | None],
    ) -> Declaration | None:
        """Parse the file's declaration; the build compares it with the kernel."""
        del own
        raw = self.raw
        declaration, refused = declare(
            name,
            arguments={name: one for name, one in self.document.data["arguments"].items() if name not in self.omitted},
            constants=self.document.data.get("constants"),
            reference=raw.reference,
            tolerance=raw.tolerance,
            metrics=raw.metrics or None,
            folder=self.folder,
            problem=self.fields,
            parameters=axes,
            at=self.document.at,
        )
        self.mistakes += refused
        return declaration

    @property
    def baseline(self) -> Mapping[str, Scalar]:
        """The file's baseline setting."""
        return self.raw.baseline or {}


def axes_of(reading: Reading) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of every parameter."""
    axes = dict[str, tuple[Scalar, ...]]()
    for name, setting in reading.raw.parameters.items():
        path: Key = ("parameters", name)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            reading.refuse("not the name of a macro", path, found=name, accepted="letters, digits and _")
        elif name in reading.fields:
            reading.refuse("a parameter and a field of the problem have one name", path, found=name)
        if values := reading.values(setting, path):
            axes[name] = values
    return axes


def check_constraints(reading: Reading, valid_names: set[str]) -> None:
    """Check that constraints only use known names."""
    for i, constraint in enumerate(reading.raw.constraints):
        check_names(reading, constraint, ("constraints", i), {*valid_names, *FACTS}, "a constraint")


def check_emulated(reading: PlainReading) -> None:
    """Check that the emulated size has the problem's fields."""
    for name in reading.raw.emulate if isinstance(reading.raw.emulate, dict) else {}:
        fields = reading.fields
        if name not in fields:
            reading.refuse(
                "the problem has no such field",
                ("emulate", name),
                code="unknown-name",
                found=name,
                accepted=sorted(fields),
                suggestion=did_you_mean(name, fields),
            )


def check_names(reading: Reading, expression: str | float | None, path: Key, valid_names: set[str], label: str) -> None:
    """Check that an expression only uses known names; `label` describes the expression in messages."""
    if not isinstance(expression, str):
        return
    at, key = reading.document.at(*path), dotted(path)
    with reading.noting():
        for name in sorted(names_in(expression, at=at, key=key) - valid_names):
            reading.refuse(
                f"unknown name {name!r} in {label}",
                path,
                code="unknown-name",
                found=expression,
                accepted=sorted(valid_names),
                suggestion=did_you_mean(name, valid_names),
            )


def baseline_of(reading: Reading, axes: Mapping[str, tuple[Scalar, ...]]) -> dict[str, Scalar]:
    """Return the baseline setting of the parameters.

    A rule, an expression over SM limits, is kept as text until the architecture is known.
    """
    chosen: dict[str, Scalar] = {}
    for name, value in reading.baseline.items():
        if name not in axes:
            suggestion = did_you_mean(name, axes)
            path: Key = ("baseline", name)
            reading.refuse(
                "no such parameter", path, code="unknown-name", found=name, accepted=list(axes), suggestion=suggestion
            )
        elif value in axes[name]:
            chosen[name] = value
        elif equal_types := [
            axis_value
            for axis_value in axes[name]
            if element_named(str(axis_value)) == element_named(str(value)) is not None
        ]:
            chosen[name] = equal_types[0]  # a type has several names
        elif isinstance(value, str) and _is_rule(reading, name, value):
            check_names(reading, value, ("baseline", name), {*FACTS}, "the rule")
            chosen[name] = value
        else:
            reading.refuse(
                "no variant has this value", ("baseline", name), code="nothing-left", found=value, accepted=axes[name]
            )
    return chosen


def _is_rule(reading: Reading, name: str, text: str) -> bool:
    """Return whether a text uses SM limits; False if it is not an expression."""
    try:
        names = names_in(text, at=reading.document.at("baseline", name), key=dotted(("baseline", name)))
    except UserError:
        return False
    return not FACTS.keys().isdisjoint(names)


def type_of(values: tuple[Scalar, ...]) -> Any:  # noqa: ANN401 - one of the words of `Parameter.type`
    """Return the type a template declares for a parameter with these values."""
    kinds = {type(value) for value in values}
    return "float" if kinds == {int, float} else _TYPES[kinds.pop()]


def listed(sizes: Sizes) -> list[str | int]:
    """Return the sizes of a grid or block as a list."""
    return list(sizes) if isinstance(sizes, list) else [sizes]
