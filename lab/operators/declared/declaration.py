"""The declaration of a kernel's operator as a value: checked once, hashable and serialisable.

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
from lab.operators.declared.array_files import files_of, is_file, names_in_path
from lab.operators.declared.declared_metrics import TIME, Metric
from lab.operators.declared.functions import CONSTANTS
from lab.operators.declared.signatures import signature_in
from lab.operators.declared.specification import Argument, Direction, FillKind, parse, parse_all, places
from lab.operators.declared.tolerance import Tolerance

PREFIX: Final = "declared:"
"""Prefix of a declaration's operator reference."""

_MOST_FILE_BYTES: Final = 2**34

Place = Callable[..., Location | None]
"""Maps the path of a key to its location."""


@dataclass(frozen=True)
class Declaration:
    """The declared operator of a short experiment file.

    Attributes:
        name: The operator's name in reports: the kernel's name.
        arguments: The kernel's arguments, in its order, structures expanded into their members, followed by the
            contents of constant memory.
        references: Each output's expression or file; empty if there is a function or no reference.
        function: The user's function that computes the outputs, ``ref.py:function``; empty if there is none.
        tolerances: The user's tolerances, by output.
        metrics: Declared metrics; the first defines throughput.
        parameters: Variant parameters used by its expressions or its function.
        folder: Base of relative paths; empty if it names no file.
        files: Every file it names, with the SHA-256 of its contents.
        constants: Names of the arguments that launches do not pass: variables in constant memory.
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
            "arguments": [
                [argument.name, str(argument), *filter(None, [argument.structure])] for argument in self.arguments
            ],
            "references": self.references,
            "function": self.function,
            "tolerances": [[name, tolerance.relative, tolerance.absolute] for name, tolerance in self.tolerances],
            "metrics": [[metric.unit, metric.expression] for metric in self.metrics],
            "parameters": self.parameters,
            "folder": self.folder,
            "files": self.files,
            **({"constants": self.constants} if self.constants else {}),
        }
        return PREFIX + json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def restored(cls, reference: str) -> Declaration:
        """Return the declaration an operator reference encodes.

        Raises:
            UserError: The text was not made by `reference`.
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
        """Return the parameters or problem fields that determine element types."""
        return tuple(dict.fromkeys(argument.type_parameter for argument in self.arguments if argument.type_parameter))

    def typed(self, values: Mapping[str, object]) -> Declaration:
        """Return the declaration with element types resolved.

        Args:
            values: The problem, and the parameters it uses.

        Raises:
            UserError: A value is not a type, or contents do not suit it.
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
            argument.typed(str(types[argument.type_parameter])) if argument.type_parameter else argument
            for argument in self.arguments
        )
        return replace(self, arguments=arguments)

    @cached_property
    def passed(self) -> tuple[Argument, ...]:
        """Return the arguments launches pass, in the kernel's order, structures expanded into their members."""
        return tuple(argument for argument in self.arguments if argument.name not in self.constants)

    @cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """Return the arguments the kernel writes, in its order."""
        return tuple(argument for argument in self.arguments if argument.is_written)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Return the outputs that must be written completely: not `partial`, and their contents are compared."""
        ignored = {name for name, tolerance in self.tolerances if tolerance.ignores_contents}
        only_written = (
            output for output in self.outputs if output.direction is Direction.OUT and not output.is_partial
        )
        return tuple(output.name for output in only_written if output.name not in ignored)

    @cached_property
    def argument(self) -> Mapping[str, Argument]:
        """Return the arguments by name."""
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def needed(self) -> frozenset[str]:
        """Return the names a problem must have, parameters included."""
        with_value = {
            argument.name for argument in self.arguments if not argument.is_array and argument.value is not None
        }
        without_value = {
            argument.name for argument in self.arguments if not argument.is_array and argument.value is None
        }
        return frozenset(
            (without_value | _mentioned(self))
            - with_value
            - {argument.name for argument in self.arguments if argument.is_array}
        )


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
    """Check a file's declaration.

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
        at: Returns a key's location in the file, for errors: `lab.base.yamlfile.Document.at`.

    Returns:
        The declaration, or None if there are mistakes, and every mistake.
    """
    checking = _Checking(Path(folder), frozenset(problem), frozenset(parameters), at)
    declaration = checking.declaration(
        name, arguments, constants, reference=reference, tolerance=tolerance, metrics=metrics
    )
    return (None if checking.mistakes else declaration), tuple(checking.mistakes)


class _Checking:
    """Collects mistakes while it reads a file's sections."""

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
        parsed, mistakes = parse_all(arguments, lambda *keys: self._at("arguments", *keys), writes=writes)
        self.mistakes += mistakes
        # only the name of an argument that failed to parse is known
        argument_names = {place[-1] for place, _ in places(arguments)} if isinstance(arguments, dict) else set()
        unread = frozenset(argument_names - {argument.name for argument in parsed})
        constant_arguments = self._constants(constants, {argument.name for argument in parsed} | unread)
        parsed = (*parsed, *constant_arguments)
        for argument in parsed:
            self._argument(argument, {other.name for other in parsed if not other.is_array} | unread)
        references, function = self._reference(reference, parsed, unread)
        declared = Declaration(
            name,
            parsed,
            references,
            function,
            self._tolerances(tolerance, parsed, unread),
            self._metrics(metrics, parsed, unread),
            constants=tuple(argument.name for argument in constant_arguments),
        )
        mentioned = tuple(
            sorted(((declared.needed | self._function(function, parsed)) - self._problem) & self._parameters)
        )
        files = tuple(sorted(self._files.items()))
        folder = str(self._folder.resolve()) if files else ""
        return replace(declared, parameters=mentioned, files=files, folder=folder)

    def _mistake(
        self,
        message: str,
        *key: str,
        code: Code = "wrong-value",
        **details: Any,  # noqa: ANN401 - those of UserError
    ) -> None:
        self.mistakes.append(UserError(message, code=code, at=self._at(*key), key=".".join(key), **details))

    # ---- arguments

    def _constants(self, section: object, taken_names: Collection[str]) -> tuple[Argument, ...]:
        """Read the contents of constant memory."""
        constants: list[Argument] = []
        if section is not None and not isinstance(section, dict):
            self._mistake(
                "wrong type",
                "constants",
                code="wrong-type",
                found=section,
                accepted="a mapping, {filter: float32[9] normal}",
            )
            return ()
        for name, text in (section or {}).items():
            try:
                argument = parse(str(name), text)
            except UserError as error:
                self.mistakes.append(error.placed(self._at("constants", name), f"constants.{name}"))
                continue
            if argument.name in taken_names:
                self._mistake("an argument has this name, too", "constants", argument.name, accepted="different names")
            elif argument.is_written and argument.view is None:  # by a map in constant memory, the array is written
                self._mistake(
                    "a kernel cannot write constant memory",
                    "constants",
                    argument.name,
                    code="unwritable",
                    accepted=argument.undirected,
                )
            else:
                constants.append(argument)
        self._kept = frozenset(argument.name for argument in constants)
        return tuple(constants)

    def _argument(self, argument: Argument, scalars: Collection[str]) -> None:
        place = ("constants",) if argument.name in self._kept else ("arguments", *filter(None, [argument.structure]))
        key = (*place, argument.name)
        valid_names = self._problem | self._parameters
        if argument.type_parameter and argument.type_parameter not in valid_names:
            self._unknown(argument.type_parameter, argument.dtype, valid_names, *key)
        if argument.name in valid_names and argument.is_array:
            kind = "field of the problem" if argument.name in self._problem else "parameter"
            self._mistake(
                f"the array {argument.name} and a {kind} have the same name",
                *key,
                code="duplicate",
                accepted="different names",
            )
        if not argument.is_array and argument.value is None and argument.name not in valid_names:
            accepted = (
                f"a field of the problem or a parameter of that name, or {argument.dtype} = EXPRESSION; "
                f"{argument.dtype}[SHAPE] is an array"
            )
            suggestion = did_you_mean(argument.name, valid_names)
            self._mistake(f"the scalar {argument.name} has no value", *key, accepted=accepted, suggestion=suggestion)
        if argument.view is not None:  # what a launch passes is known before the scalars of a run are
            self._names(argument.view.expressions, valid_names, *key)
        valid_names |= frozenset(scalars) if argument.is_array else frozenset()
        if argument.fill is not None and argument.fill.kind is FillKind.VALUES:
            self._expression(argument.fill.operands[0], valid_names, *key)
            texts = argument.shape or ()
        else:
            texts = replace(argument, view=None).expressions
        self._names(texts, valid_names, *key)
        if argument.fill is not None and argument.fill.kind is FillKind.FILE:
            self._file(argument.fill.operands[0], "an .npy file", *key)

    def _names(self, texts: Iterable[str], valid_names: Collection[str], *key: str) -> None:
        for text in texts:
            for name in sorted(names_in(text, at=Location("arguments"), key=".".join(key)) - frozenset(valid_names)):
                self._unknown(name, text, valid_names, *key)

    def _unknown(self, name: str, text: str, valid_names: Collection[str], *key: str) -> None:
        accepted = (
            f"fields of the problem, parameters and scalars: {', '.join(sorted(valid_names)) or 'there are none'}"
        )
        suggestion = did_you_mean(name, valid_names)
        self._mistake(
            f"unknown name {name!r}", *key, code="unknown-name", found=text, accepted=accepted, suggestion=suggestion
        )

    def _expression(self, text: str, valid_names: Collection[str], *key: str) -> None:
        self.mistakes += [
            error.placed(self._at(*key), ".".join(key)) for error in arrays.check(text, frozenset(valid_names))
        ]

    def _file(self, path: str, description: str, *key: str) -> None:
        valid_names = self._problem | self._parameters
        for name in names_in_path(path):
            if name not in valid_names:
                self._unknown(name, path, valid_names, *key)
        paths = files_of(path, self._folder)
        if not paths:
            self._mistake(
                "no such file",
                *key,
                code="unknown-name",
                found=path,
                accepted=f"{description}, relative to the experiment file",
            )
        for relative_path in paths:
            file = self._folder / relative_path
            if file.stat().st_size > _MOST_FILE_BYTES:
                self._mistake(
                    "the file is too large",
                    *key,
                    code="out-of-range",
                    found=relative_path,
                    accepted=f"at most {_MOST_FILE_BYTES} bytes",
                )
            else:
                with file.open("rb") as stream:
                    self._files[relative_path] = hashlib.file_digest(stream, "sha256").hexdigest()

    # ---- reference, tolerance, metrics

    def _reference(
        self, section: object, parsed: tuple[Argument, ...], unread: frozenset[str]
    ) -> tuple[tuple[tuple[str, str], ...], str]:
        accepted = "a mapping from outputs to expressions, such as {c: a + b}, or ./file.py:function"
        if section is None:
            return (), ""
        if isinstance(section, str):
            path, _, function = section.rpartition(":")
            if not path.endswith(".py") or not function.isidentifier():
                self._mistake("wrong value", "reference", found=section, accepted=accepted)
                return (), ""
            self._file(path, "path/to/file.py:function", "reference")
            return (), section
        if not isinstance(section, dict):
            self._mistake("wrong type", "reference", code="wrong-type", found=section, accepted=accepted)
            return (), ""
        outputs = [argument.name for argument in parsed if argument.is_written]
        references = []
        for key, value in section.items() if outputs else ():  # having none is reported separately
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
                    self._of_inputs(text, parsed, unread, name)
                references.append((name, text))
        for name in outputs:
            if name not in map(str, section):
                self._mistake(f"no reference for {name}", "reference", accepted=_wanted(name, outputs, parsed))
        return tuple(references), ""

    def _function(self, function: str, parsed: tuple[Argument, ...]) -> frozenset[str]:
        """Check the names a reference function asks for, and return them."""
        path, _, name = function.rpartition(":")
        signature = signature_in(self._folder / path, name) if path in self._files else None
        if signature is None:
            return frozenset()
        valid_names = self._problem | self._parameters | {argument.name for argument in parsed}
        for required_name in signature.required:
            if required_name not in valid_names:
                self._mistake(
                    f"line {signature.line} of {path}: {name} asks for {required_name!r}, which is not known",
                    "reference",
                    found=function,
                    accepted=f"arguments, fields of the problem and parameters: {', '.join(sorted(valid_names))}",
                    suggestion=did_you_mean(required_name, valid_names),
                )
        return frozenset(signature.names)

    def _of_inputs(self, text: str, parsed: tuple[Argument, ...], unread: frozenset[str], output: str) -> None:
        """Check an expression, which may read arrays initialised before the launch."""
        only_written = {argument.name for argument in parsed if argument.direction is Direction.OUT}
        self._expression(
            text,
            self._problem | self._parameters | {argument.name for argument in parsed} | unread,
            "reference",
            output,
        )
        for name in sorted(only_written & _array_names(text)):
            accepted = f"inout in front of its type if the kernel reads it: inout {_kind(parsed, name)}"
            self._mistake(f"{name} is only written", "reference", output, found=text, accepted=accepted)

    def _tolerances(
        self, section: object, parsed: tuple[Argument, ...], unread: frozenset[str]
    ) -> tuple[tuple[str, Tolerance], ...]:
        outputs = [argument.name for argument in parsed if argument.is_written]
        if section is None:
            return ()
        places = section if isinstance(section, dict) else dict.fromkeys(outputs, section)
        tolerances = []
        for key, value in places.items():
            place = ("tolerance", str(key)) if isinstance(section, dict) else ("tolerance",)
            if str(key) not in {*outputs, *unread}:
                suggestion = did_you_mean(str(key), outputs)
                self._mistake("not an output", *place, found=key, accepted=outputs, suggestion=suggestion)
            elif (tolerance := _tolerance(value)) is None:
                accepted = "a number of at least 0, such as 1e-5, or {relative: 1e-5, absolute: 1e-6}"
                self._mistake("wrong value", *place, found=value, accepted=accepted)
                if not isinstance(section, dict):
                    break
            else:
                tolerances.append((str(key), tolerance))
        return tuple(tolerances)

    def _metrics(self, section: object, parsed: tuple[Argument, ...], unread: frozenset[str]) -> tuple[Metric, ...]:
        if section is None:
            return ()
        accepted = f"a mapping from units to expressions, such as {{GB/s: 12 * n / {TIME}}}"
        if not isinstance(section, dict) or not section:
            self._mistake("wrong value", "metrics", found=section, accepted=accepted)
            return ()
        valid_names = (
            self._problem
            | self._parameters
            | {argument.name for argument in parsed if not argument.is_array}
            | {TIME}
            | unread
        )
        metrics = []
        for unit, text in section.items():
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
            for name in sorted(used - valid_names):
                self._unknown(name, str(text), valid_names, *key)
            metrics.append(Metric(str(unit), str(text)))
        return tuple(metrics)


def _kind(parsed: tuple[Argument, ...], name: str) -> str:
    """Return an argument's text without its direction."""
    return next(argument.undirected for argument in parsed if argument.name == name)


def _wanted(name: str, outputs: list[str], parsed: tuple[Argument, ...]) -> str:
    """Describe the reference an output lacks; with several outputs it may also be declared scratch."""
    description = f"an expression for each output: {', '.join(outputs)}"
    if len(outputs) == 1:
        return description
    return f"{description}; or, for an array that is not compared: {{{name}: 'scratch {_kind(parsed, name)}'}}"


def _mentioned(declaration: Declaration) -> frozenset[str]:
    """Return every name in the expressions except `time`."""
    return frozenset(_names(declaration)) - {TIME}


def _tolerance(section: object) -> Tolerance | None:
    """Parse a tolerance; None if it is invalid."""
    parts: dict[str, Any] = section if isinstance(section, dict) else {"relative": section}
    if not parts or not set(parts) <= {"relative", "absolute"}:
        return None
    numbers = [
        setting for setting in parts.values() if isinstance(setting, int | float) and not isinstance(setting, bool)
    ]
    if len(numbers) < len(parts) or not all(number >= 0 for number in numbers) or parts.get("relative", 0) == math.inf:
        return None
    return Tolerance(float(parts.get("relative", 0)), float(parts["absolute"]) if "absolute" in parts else None)


def _names(declaration: Declaration) -> Iterator[str]:
    yield from declaration.type_parameters
    for argument in declaration.arguments:
        if argument.fill is not None and argument.fill.kind is FillKind.FILE:
            yield from names_in_path(argument.fill.operands[0])
        values = argument.fill is not None and argument.fill.kind is FillKind.VALUES
        for text in argument.expressions:
            if values and argument.fill is not None and text in argument.fill.operands:
                yield from _array_names(text)
            else:
                yield from names_in(text, at=Location("arguments"), key=argument.name)
    for _, text in declaration.references:
        yield from names_in_path(text) if is_file(text) else _array_names(text)
    for metric in declaration.metrics:
        yield from names_in(metric.expression, at=Location("metrics"), key=metric.key)


def _array_names(text: str) -> frozenset[str]:
    try:
        return arrays.names_of(text) - frozenset(CONSTANTS)
    except UserError:  # reported where the expression is checked
        return frozenset()
