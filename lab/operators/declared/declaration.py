"""What a file declares of its kernel, as a value: checked once, hashable, and the same on both ends of a pipe.

A declaration travels between processes as canonical JSON behind `PREFIX`, in place of an operator's name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lab.base.elements import CUDA_NAMES, element_named
from lab.base.errors import Code, Location, UserError, did_you_mean
from lab.base.expressions import names_in
from lab.operators.declared import arrays
from lab.operators.declared.files import files_of, is_file, names_in_path
from lab.operators.declared.functions import CONSTANTS
from lab.operators.declared.metrics import TIME, Metric
from lab.operators.declared.signatures import signature_in
from lab.operators.declared.specification import Argument, Direction, FillKind, parse, parse_all, places
from lab.operators.declared.tolerance import Tolerance

PREFIX: Final = "declared:"
"""Begins the operator reference of a declaration."""

_MOST_FILE_BYTES: Final = 2**34

Place = Callable[..., Location | None]
"""From the path of a key to its location."""


@dataclass(frozen=True)
class Declaration:
    """Everything that the operator of a short experiment file needs.

    Attributes:
        name: What reports call the operator; the kernel's name.
        arguments: The kernel's arguments, in its order, the members of structures in place of these; behind them what
            constant memory holds.
        references: From each output to its expression or file; empty where there is a function or nothing.
        function: A user's function that computes the outputs, ``ref.py:function``; empty where there is none.
        tolerances: From outputs to the user's own tolerances.
        metrics: Declared figures, the first of which says what throughput is.
        parameters: Parameters of variants that its expressions mention, or that its function asks for.
        folder: Where relative paths start from; empty where it names no file.
        files: Every file that it names, with the SHA-256 of its contents.
        constants: Names of those arguments that no launch passes: they are variables in constant memory.
    """

    name: str
    arguments: tuple[Argument, ...]
    references: tuple[tuple[str, str], ...] = ()
    function: str = ""
    tolerances: tuple[tuple[str, Tolerance], ...] = ()
    metrics: tuple[Metric, ...] = ()
    parameters: tuple[str, ...] = ()
    folder: str = ""
    files: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """Return the operator reference: `PREFIX` and canonical JSON."""
        plain = {
            "name": self.name,
            "arguments": [[one.name, str(one), *filter(None, [one.structure])] for one in self.arguments],
            "references": self.references,
            "function": self.function,
            "tolerances": [[name, one.relative, one.absolute] for name, one in self.tolerances],
            "metrics": [[one.unit, one.expression] for one in self.metrics],
            "parameters": self.parameters,
            "folder": self.folder,
            "files": self.files,
            **({"constants": self.constants} if self.constants else {}),
        }
        return PREFIX + json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def restored(cls, reference: str) -> Declaration:
        """Return the declaration that an operator reference stands for.

        Raises:
            UserError: The text is none that `reference` made.
        """
        try:
            plain = json.loads(reference.removeprefix(PREFIX))
            return cls(
                name=plain["name"],
                arguments=tuple(parse(*parts) for parts in plain["arguments"]),
                references=tuple((name, text) for name, text in plain["references"]),
                function=plain["function"],
                tolerances=tuple((name, Tolerance(*parts)) for name, *parts in plain["tolerances"]),
                metrics=tuple(Metric(unit, text) for unit, text in plain["metrics"]),
                parameters=tuple(plain["parameters"]),
                folder=plain["folder"],
                files=tuple((path, digest) for path, digest in plain["files"]),
                constants=tuple(plain.get("constants", ())),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            accepted = "the JSON of a declaration; write arguments, reference and metrics into the file instead"
            raise UserError(
                "not a declared operator", code="wrong-type", key="operator", found=reference[:200], accepted=accepted
            ) from error

    @cached_property
    def type_parameters(self) -> tuple[str, ...]:
        """Return the parameters, or fields of the problem, that element types follow."""
        return tuple(dict.fromkeys(one.type_parameter for one in self.arguments if one.type_parameter))

    def typed(self, values: Mapping[str, object]) -> Declaration:
        """Return the declaration with element types in place of the names that they follow.

        Args:
            values: The problem, and the parameters that are mentioned.

        Raises:
            UserError: A value is no type, or contents do not suit it.
        """
        types = {}
        for name in self.type_parameters:
            types[name] = element_named(str(values.get(name)))
            if types[name] is None:
                accepted = f"a type: {', '.join(CUDA_NAMES.values())}, or NumPy's name of one"
                raise UserError(
                    "unknown type",
                    code="unknown-name",
                    key=f"problem.{name}",
                    found=values.get(name),
                    accepted=accepted,
                )
        arguments = tuple(
            one.typed(str(types[one.type_parameter])) if one.type_parameter else one for one in self.arguments
        )
        return replace(self, arguments=arguments)

    @cached_property
    def passed(self) -> tuple[Argument, ...]:
        """Return the arguments that launches pass, in the kernel's order, the members of structures in their place."""
        return tuple(one for one in self.arguments if one.name not in self.constants)

    @cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """Return the arguments that the kernel writes, in its order."""
        return tuple(one for one in self.arguments if one.is_written)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Return the outputs of which every element must be written: not `partial`, and their contents matter."""
        ignored = {name for name, one in self.tolerances if one.ignores_contents}
        only_written = (one for one in self.outputs if one.direction is Direction.OUT and not one.is_partial)
        return tuple(one.name for one in only_written if one.name not in ignored)

    @cached_property
    def argument(self) -> Mapping[str, Argument]:
        """Return the arguments by name."""
        return {one.name: one for one in self.arguments}

    @cached_property
    def needed(self) -> frozenset[str]:
        """Return the names that a problem must have, parameters among them."""
        given = {one.name for one in self.arguments if not one.is_array and one.value is not None}
        asked = {one.name for one in self.arguments if not one.is_array and one.value is None}
        return frozenset((asked | _mentioned(self)) - given - {one.name for one in self.arguments if one.is_array})


def declare(
    name: str,
    *,
    arguments: object,
    constants: object = None,
    reference: object = None,
    tolerance: object = None,
    metrics: object = None,
    folder: Path,
    problem: Collection[str],
    parameters: Collection[str],
    at: Place = lambda *_: None,
) -> tuple[Declaration | None, tuple[UserError, ...]]:
    """Check what a file declares.

    Args:
        name: The kernel's name.
        arguments: The file's `arguments`, a mapping from names to texts.
        constants: The file's `constants`, likewise, or None.
        reference: The file's `reference`: a mapping from outputs to expressions, ``./file.py:function``, or None.
        tolerance: The file's `tolerance`: a number, a mapping from outputs to numbers or to ``{relative: …,
            absolute: …}``, or None.
        metrics: The file's `metrics`: a mapping from units to expressions, or None.
        folder: The file's folder.
        problem: Names of the problem's fields.
        parameters: Names of the kernel's parameters.
        at: Where a key stands in the file, for errors: `lab.base.yamlfile.Document.at`.

    Returns:
        The declaration, or None if there are mistakes, and every mistake.
    """
    checking = _Checking(Path(folder), frozenset(problem), frozenset(parameters), at)
    found = checking.declaration(name, arguments, constants, reference=reference, tolerance=tolerance, metrics=metrics)
    return (None if checking.mistakes else found), tuple(checking.mistakes)


class _Checking:
    """Collects mistakes while it reads the parts of a file."""

    def __init__(self, folder: Path, problem: frozenset[str], parameters: frozenset[str], at: Place) -> None:
        self._folder, self._problem, self._parameters, self._at = folder, problem, parameters, at
        self.mistakes: list[UserError] = []
        self._files: dict[str, str] = {}
        self._kept = frozenset[str]()

    def declaration(
        self, name: str, arguments: object, constants: object, *, reference: object, tolerance: object, metrics: object
    ) -> Declaration:
        texts = constants.values() if isinstance(constants, dict) else ()
        writes = not any(str(text).startswith(("out ", "inout ")) for text in texts)  # by no map in constant memory
        read, mistakes = parse_all(arguments, lambda *keys: self._at("arguments", *keys), writes=writes)
        self.mistakes += mistakes
        # of an argument that could not be read, only the name is known
        named = {place[-1] for place, _ in places(arguments)} if isinstance(arguments, dict) else set()
        unread = frozenset(named - {one.name for one in read})
        kept = self._constants(constants, {one.name for one in read} | unread)
        read = (*read, *kept)
        for one in read:
            self._argument(one, {other.name for other in read if not other.is_array} | unread)
        references, function = self._reference(reference, read, unread)
        made = Declaration(
            name,
            read,
            references,
            function,
            self._tolerances(tolerance, read, unread),
            self._metrics(metrics, read, unread),
            constants=tuple(one.name for one in kept),
        )
        mentioned = tuple(sorted(((made.needed | self._function(function, read)) - self._problem) & self._parameters))
        files = tuple(sorted(self._files.items()))
        folder = str(self._folder.resolve()) if files else ""
        return replace(made, parameters=mentioned, files=files, folder=folder)

    def _mistake(
        self,
        message: str,
        *key: str,
        code: Code = "wrong-value",
        **details: Any,  # noqa: ANN401 - those of UserError
    ) -> None:
        self.mistakes.append(UserError(message, code=code, at=self._at(*key), key=".".join(key), **details))

    # ---- arguments

    def _constants(self, given: object, taken: Collection[str]) -> tuple[Argument, ...]:
        """Read what constant memory holds."""
        made: list[Argument] = []
        if given is not None and not isinstance(given, dict):
            self._mistake(
                "wrong type",
                "constants",
                code="wrong-type",
                found=given,
                accepted="a mapping, {filter: float32[9] normal}",
            )
            return ()
        for name, text in (given or {}).items():
            try:
                one = parse(str(name), text)
            except UserError as error:
                self.mistakes.append(error.placed(self._at("constants", name), f"constants.{name}"))
                continue
            if one.name in taken:
                self._mistake("an argument has this name, too", "constants", one.name, accepted="different names")
            elif one.is_written and one.view is None:  # by a map in constant memory, the array is written
                self._mistake(
                    "a kernel cannot write constant memory",
                    "constants",
                    one.name,
                    code="unwritable",
                    accepted=one.undirected,
                )
            else:
                made.append(one)
        self._kept = frozenset(one.name for one in made)
        return tuple(made)

    def _argument(self, one: Argument, scalars: Collection[str]) -> None:
        place = ("constants",) if one.name in self._kept else ("arguments", *filter(None, [one.structure]))
        key = (*place, one.name)
        known = self._problem | self._parameters
        if one.type_parameter and one.type_parameter not in known:
            self._unknown(one.type_parameter, one.dtype, known, *key)
        if one.name in known and one.is_array:
            kind = "field of the problem" if one.name in self._problem else "parameter"
            self._mistake(
                f"the array {one.name} and a {kind} have the same name",
                *key,
                code="duplicate",
                accepted="different names",
            )
        if not one.is_array and one.value is None and one.name not in known:
            accepted = (
                f"a field of the problem or a parameter of that name, or {one.dtype} = EXPRESSION; "
                f"{one.dtype}[SHAPE] is an array"
            )
            suggestion = did_you_mean(one.name, known)
            self._mistake(f"the scalar {one.name} has no value", *key, accepted=accepted, suggestion=suggestion)
        if one.view is not None:  # what a launch passes is known before the scalars of a run are
            self._names(one.view.expressions, known, *key)
        known |= frozenset(scalars) if one.is_array else frozenset()
        if one.fill is not None and one.fill.kind is FillKind.VALUES:
            self._expression(one.fill.operands[0], known, *key)
            texts = one.shape or ()
        else:
            texts = replace(one, view=None).expressions
        self._names(texts, known, *key)
        if one.fill is not None and one.fill.kind is FillKind.FILE:
            self._file(one.fill.operands[0], "an .npy file", *key)

    def _names(self, texts: Iterable[str], known: Collection[str], *key: str) -> None:
        for text in texts:
            for name in sorted(names_in(text, at=Location("arguments"), key=".".join(key)) - frozenset(known)):
                self._unknown(name, text, known, *key)

    def _unknown(self, name: str, text: str, known: Collection[str], *key: str) -> None:
        accepted = f"fields of the problem, parameters and scalars: {', '.join(sorted(known)) or 'there are none'}"
        suggestion = did_you_mean(name, known)
        self._mistake(
            f"unknown name {name!r}", *key, code="unknown-name", found=text, accepted=accepted, suggestion=suggestion
        )

    def _expression(self, text: str, known: Collection[str], *key: str) -> None:
        self.mistakes += [error.placed(self._at(*key), ".".join(key)) for error in arrays.check(text, frozenset(known))]

    def _file(self, path: str, what: str, *key: str) -> None:
        known = self._problem | self._parameters
        for name in names_in_path(path):
            if name not in known:
                self._unknown(name, path, known, *key)
        found = files_of(path, self._folder)
        if not found:
            self._mistake(
                "no such file",
                *key,
                code="unknown-name",
                found=path,
                accepted=f"{what}, relative to the experiment file",
            )
        for one in found:
            file = self._folder / one
            if file.stat().st_size > _MOST_FILE_BYTES:
                self._mistake(
                    "the file is too large",
                    *key,
                    code="out-of-range",
                    found=one,
                    accepted=f"at most {_MOST_FILE_BYTES} bytes",
                )
            else:
                with file.open("rb") as stream:
                    self._files[one] = hashlib.file_digest(stream, "sha256").hexdigest()

    # ---- reference, tolerance, metrics

    def _reference(
        self, given: object, read: tuple[Argument, ...], unread: frozenset[str]
    ) -> tuple[tuple[tuple[str, str], ...], str]:
        accepted = "a mapping from outputs to expressions, such as {c: a + b}, or ./file.py:function"
        if given is None:
            return (), ""
        if isinstance(given, str):
            path, _, function = given.rpartition(":")
            if not path.endswith(".py") or not function.isidentifier():
                self._mistake("wrong value", "reference", found=given, accepted=accepted)
                return (), ""
            self._file(path, "path/to/file.py:function", "reference")
            return (), given
        if not isinstance(given, dict):
            self._mistake("wrong type", "reference", code="wrong-type", found=given, accepted=accepted)
            return (), ""
        outputs = [one.name for one in read if one.is_written]
        found = []
        for key, value in given.items() if outputs else ():  # that there are none is a mistake of its own
            name = str(key)
            if name not in {*outputs, *unread}:
                suggestion = did_you_mean(name, outputs)
                self._mistake("not an output", "reference", name, found=name, accepted=outputs, suggestion=suggestion)
            elif not isinstance(value, bool | int | float | str):
                self._mistake(
                    "wrong type",
                    "reference",
                    name,
                    code="wrong-type",
                    found=value,
                    accepted="an expression, such as a + b",
                )
            else:
                text = str(value)
                if is_file(text):
                    self._file(text, "an .npy file", "reference", name)
                else:
                    self._of_inputs(text, read, unread, name)
                found.append((name, text))
        for name in outputs:
            if name not in map(str, given):
                self._mistake(f"no reference for {name}", "reference", accepted=_wanted(name, outputs, read))
        return tuple(found), ""

    def _function(self, function: str, read: tuple[Argument, ...]) -> frozenset[str]:
        """Check what a reference function asks for, and return it."""
        path, _, name = function.rpartition(":")
        asked = signature_in(self._folder / path, name) if path in self._files else None
        if asked is None:
            return frozenset()
        known = self._problem | self._parameters | {one.name for one in read}
        for wanted in asked.required:
            if wanted not in known:
                self._mistake(
                    f"line {asked.line} of {path}: {name} asks for {wanted!r}, which is not known",
                    "reference",
                    found=function,
                    accepted=f"arguments, fields of the problem and parameters: {', '.join(sorted(known))}",
                    suggestion=did_you_mean(wanted, known),
                )
        return frozenset(asked.names)

    def _of_inputs(self, text: str, read: tuple[Argument, ...], unread: frozenset[str], output: str) -> None:
        """Check an expression that may read what holds something before the launch."""
        only_written = {one.name for one in read if one.direction is Direction.OUT}
        self._expression(
            text, self._problem | self._parameters | {one.name for one in read} | unread, "reference", output
        )
        for name in sorted(only_written & _array_names(text)):
            accepted = f"inout in front of its type if the kernel reads it: inout {_kind(read, name)}"
            self._mistake(f"{name} is only written", "reference", output, found=text, accepted=accepted)

    def _tolerances(
        self, given: object, read: tuple[Argument, ...], unread: frozenset[str]
    ) -> tuple[tuple[str, Tolerance], ...]:
        outputs = [one.name for one in read if one.is_written]
        if given is None:
            return ()
        places = given if isinstance(given, dict) else dict.fromkeys(outputs, given)
        found = []
        for key, value in places.items():
            place = ("tolerance", str(key)) if isinstance(given, dict) else ("tolerance",)
            if str(key) not in {*outputs, *unread}:
                suggestion = did_you_mean(str(key), outputs)
                self._mistake("not an output", *place, found=key, accepted=outputs, suggestion=suggestion)
            elif (tolerance := _tolerance(value)) is None:
                accepted = "a number of at least 0, such as 1e-5, or {relative: 1e-5, absolute: 1e-6}"
                self._mistake("wrong value", *place, found=value, accepted=accepted)
                if not isinstance(given, dict):
                    break
            else:
                found.append((str(key), tolerance))
        return tuple(found)

    def _metrics(self, given: object, read: tuple[Argument, ...], unread: frozenset[str]) -> tuple[Metric, ...]:
        if given is None:
            return ()
        accepted = f"a mapping from units to expressions, such as {{GB/s: 12 * n / {TIME}}}"
        if not isinstance(given, dict) or not given:
            self._mistake("wrong value", "metrics", found=given, accepted=accepted)
            return ()
        known = self._problem | self._parameters | {one.name for one in read if not one.is_array} | {TIME} | unread
        made = []
        for unit, text in given.items():
            key = ("metrics", str(unit))
            if isinstance(text, bool) or not isinstance(text, int | float | str):
                self._mistake(
                    "wrong type", *key, code="wrong-type", found=text, accepted=f"an expression over {TIME} in seconds"
                )
                continue
            try:
                used = names_in(str(text), at=Location("metrics"), key=".".join(key))
            except UserError as error:
                self.mistakes.append(error.placed(self._at(*key), error.key))
                continue
            for name in sorted(used - known):
                self._unknown(name, str(text), known, *key)
            made.append(Metric(str(unit), str(text)))
        return tuple(made)


def _kind(read: tuple[Argument, ...], name: str) -> str:
    """Return an argument's text without its direction."""
    return next(one.undirected for one in read if one.name == name)


def _wanted(name: str, outputs: list[str], read: tuple[Argument, ...]) -> str:
    """Say what an output without a reference needs: a reference, unless it is a counter or a workspace."""
    wanted = f"an expression for each output: {', '.join(outputs)}"
    if len(outputs) == 1:
        return wanted
    return f"{wanted}; or, for an array that is not compared: {{{name}: 'scratch {_kind(read, name)}'}}"


def _mentioned(declaration: Declaration) -> frozenset[str]:
    """Every name in an expression, arguments and `time` among them where they are mentioned."""
    return frozenset(_names(declaration)) - {TIME}


def _tolerance(given: object) -> Tolerance | None:
    """Read a tolerance; None where it is none."""
    parts: dict[str, Any] = given if isinstance(given, dict) else {"relative": given}
    if not parts or not set(parts) <= {"relative", "absolute"}:
        return None
    numbers = [one for one in parts.values() if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) < len(parts) or not all(one >= 0 for one in numbers) or parts.get("relative", 0) == math.inf:
        return None
    return Tolerance(float(parts.get("relative", 0)), float(parts["absolute"]) if "absolute" in parts else None)


def _names(declaration: Declaration) -> Iterator[str]:
    yield from declaration.type_parameters
    for one in declaration.arguments:
        if one.fill is not None and one.fill.kind is FillKind.FILE:
            yield from names_in_path(one.fill.operands[0])
        values = one.fill is not None and one.fill.kind is FillKind.VALUES
        for text in one.expressions:
            if values and one.fill is not None and text in one.fill.operands:
                yield from _array_names(text)
            else:
                yield from names_in(text, at=Location("arguments"), key=one.name)
    for _, text in declaration.references:
        yield from names_in_path(text) if is_file(text) else _array_names(text)
    for metric in declaration.metrics:
        yield from names_in(metric.expression, at=Location("metrics"), key=metric.key)


def _array_names(text: str) -> frozenset[str]:
    try:
        return arrays.names_of(text) - frozenset(CONSTANTS)
    except UserError:  # a mistake that is reported where the expression is checked
        return frozenset()
