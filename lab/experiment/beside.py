"""A user's kernel in an experiment with an operator, whose arrays and scalars are passed to the kernel.

The operator defines the computation, its inputs and the expected outputs. The entry gives, for each parameter of the
kernel, the operator's array or scalar that is passed for it, or a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lab.base.errors import UserError, did_you_mean
from lab.base.expressions import Scalar, evaluate, names_in
from lab.base.yamlfile import Document, Key, dotted
from lab.experiment.model import KernelEntry
from lab.experiment.plain import plain_kernel
from lab.experiment.plain_checks import Reading, check_names
from lab.experiment.problems import ProblemCase
from lab.experiment.schema import KernelModel, Passed
from lab.experiment.triton_entry import is_triton, triton_kernel
from lab.operators.base import Offered, Problem
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.mapped import MARK, PARTS
from lab.operators.declared.specification import Argument, Direction, FillKind, parse, places
from lab.operators.foreign import Described
from lab.templates.front_matter import NO_VALUE, WorkspaceDeclaration
from lab.templates.plain.bound import BoundArgument, Source

_TYPED = re.compile(r"\s*(?:(?:in|out|inout|scratch)\s+(?:(?:partial|unordered)\s+)*)?(\w+)\s*(?:\[|=(?!=)|$)")
"""A text that begins like `TYPE[SHAPE]` or `TYPE = EXPRESSION`."""

Cases = tuple[tuple[ProblemCase, Offered], ...]


def offered(computed: Described, cases: Sequence[ProblemCase]) -> Cases:
    """Return the problems, each with the arguments available to its kernels.

    Names and types depend only on the words of a problem, so one of those that differ in numbers is queried, at
    the emulated size if there is one.
    """
    by_words = dict[str, Offered]()
    for case in cases:
        if (words := _words(case.values)) not in by_words:
            by_words[words] = computed.offered(case.values if case.emulate is None else case.emulate)
    return tuple((case, by_words[_words(case.values)]) for case in cases)


def _words(problem: Problem) -> str:
    return repr([(name, value) for name, value in problem.items() if isinstance(value, str) and name != "name"])


def own_kernel(raw: KernelModel, document: Document, cases: Cases) -> KernelEntry:
    """Check an entry that names a source.

    Args:
        raw: The entry.
        document: The entry alone.
        cases: The problems of the experiment.

    Raises:
        UserError: Every mistake that was found, together; keys are those of the entry.
    """
    reading = BesideReading(raw, document, cases=cases)
    kernel = triton_kernel(reading) if is_triton(reading.source) else plain_kernel(reading)
    return kernel.entry


@dataclass
class BesideReading(Reading):
    """An entry that names a source, in an experiment with an operator.

    Attributes:
        cases: The problems of the experiment, each with the arguments the operator offers.
    """

    raw: KernelModel
    cases: Cases = ()
    _bound: list[BoundArgument] = field(default_factory=list)
    _workspace: dict[str, WorkspaceDeclaration] = field(default_factory=dict)

    @property
    def fields(self) -> set[str]:
        """Fields of any problem, including those it may lack."""
        return {name for case, _ in self.cases for name in (*case.values, *case.values.absent)}

    @property
    def bound(self) -> tuple[BoundArgument, ...]:
        """Values bound to the declared arguments."""
        return tuple(self._bound)

    @property
    def workspace(self) -> dict[str, WorkspaceDeclaration]:
        """Scratch buffers among the declared arguments."""
        return self._workspace

    @property
    def named(self) -> frozenset[str]:
        """Fields that constraints name: a problem with a value for them does not exclude the kernel."""
        names = frozenset[str]()
        for i, text in enumerate(self.raw.constraints):
            names |= names_in(text, at=self.document.at("constraints", i), key=f"constraints[{i}]")
        return names

    def declared(
        self, name: str, axes: Mapping[str, tuple[Scalar, ...]], own: Mapping[str, str | None]
    ) -> Declaration | None:
        """Parse the value bound to each parameter of the kernel."""
        passed, before = self.raw.arguments, len(self.mistakes)
        if not passed:
            accepted = f"the value for each parameter of the kernel, in its order: {{a: {next(iter(self._arrays))}}}"
            self.refuse("a key is missing", ("arguments",), accepted=f"{accepted}; {self._known()}")
            return None
        arguments = [self._argument(place, text, axes, own.get(place[-1])) for place, text in places(passed)]  # type: ignore[arg-type]
        if len(self.mistakes) == before and not any(bound.is_written for bound in self._bound):
            outputs = ", ".join(dict.fromkeys(name for _, available in self.cases for name in available.outputs))
            self.refuse("no argument is an output of the operator", ("arguments",), accepted=outputs)
        complete = tuple(argument for argument in arguments if argument is not None)
        return Declaration(name, complete) if len(self.mistakes) == before else None

    # ---- parts

    @property
    def _arrays(self) -> dict[str, str]:
        """Every array of the operator, with its element type or the problem field that determines it."""
        types = dict[str, set[str]]()
        for _, available in self.cases:
            for name, dtype in available.arrays.items():
                types.setdefault(name, set()).add(dtype)
        return {name: self._element(name, kinds) for name, kinds in types.items()}

    def _element(self, name: str, kinds: set[str]) -> str:
        if len(kinds) == 1:
            return next(iter(kinds))
        following = [
            (case.values, available.arrays[name]) for case, available in self.cases if name in available.arrays
        ]
        matching = [key for key in sorted(self.fields) if all(values.get(key) == kind for values, kind in following)]
        return f"{{{matching[0]}}}" if matching else ""

    def _argument(
        self, place: tuple[str, ...], passed: Passed, axes: Mapping[str, tuple[Scalar, ...]], own: str | None
    ) -> Argument | None:
        name, structure = place[-1], "" if len(place) == 1 else place[0]
        path: Key = ("arguments", *place)
        text = str(passed).lower() if isinstance(passed, bool) else str(passed).strip()
        arrays = self._arrays
        typed = _TYPED.match(text)
        if any(bound.name == name for bound in self._bound) or name in self._workspace:
            self.refuse(f"two arguments have the name {name}", path, accepted="different names")
        elif text in arrays:
            return self._array(name, text, arrays[text], path, structure)
        elif (marked := MARK.search(text)) and text[: marked.start()].strip() in arrays and not structure:
            return self._mapped(name, text, marked, path, axes)
        elif typed is not None and typed[1] in ELEMENT_TYPES:
            return self._typed(name, text, path, structure, axes)
        elif self._is_scalar_alone(text):
            values = [available.scalars[text] for _, available in self.cases if text in available.scalars]
            self._bound.append(BoundArgument(name, Source.SCALAR, text))
            return Argument(name, own or _type_of(values), value=text, structure=structure)
        elif self._expression(text, path, axes) and (kind := self._kind(text, path, axes)):
            self._bound.append(BoundArgument(name, Source.EXPRESSION, text))
            return Argument(name, own or kind, value=text, structure=structure)
        return None

    def _array(self, name: str, array: str, dtype: str, path: Key, structure: str) -> Argument | None:
        if not dtype:
            kinds = sorted({available.arrays[array] for _, available in self.cases if array in available.arrays})
            accepted = "problems in which it has one type, or whose fields name it"
            self.refuse(f"the problems differ in the element type of {array}", path, found=kinds, accepted=accepted)
            return None
        is_written = any(array in available.outputs for _, available in self.cases)
        self._bound.append(BoundArgument(name, Source.ARRAY, array, is_written))
        return Argument(name, dtype, Direction.OUT if is_written else Direction.IN, (), structure=structure)

    def _mapped(
        self, name: str, text: str, marked: re.Match[str], path: Key, axes: Mapping[str, tuple[Scalar, ...]]
    ) -> Argument | None:
        """Parse a tensor map of an operator's array: `A as map[64, 64] of [m, k] strides [lda, 1]`."""
        begin = marked.start()
        array, tail = text[:begin].strip(), text[begin:].strip()
        argument = self._array(name, array, self._arrays[array], path, "")
        if not PARTS["of"].search(tail):
            accepted = "as map[BOX] of [EXTENTS] strides [STRIDES], over the problem"
            self.refuse("a map of an operator's array must state its dimensions", path, found=tail, accepted=accepted)
            return None
        with self.noting():
            try:
                view = parse(name, f"float32[1] {tail}").view
            except UserError as error:
                raise error.placed(self.document.at(*path), dotted(path)) from None
            if view is None or argument is None:
                return None
            for expression in view.expressions:
                check_names(self, expression, path, {*self.fields, *axes}, "an argument")
            return replace(argument, view=view)
        return None

    def _typed(
        self, name: str, text: str, path: Key, structure: str, axes: Mapping[str, tuple[Scalar, ...]]
    ) -> Argument | None:
        """Parse a typed scalar or a scratch buffer."""
        with self.noting():
            try:
                argument = parse(name, text, structure)
            except UserError as error:
                raise error.placed(self.document.at(*path), dotted(path)) from None
            for expression in argument.expressions:
                check_names(self, expression, path, {*self.fields, *axes}, "an argument")
            if argument.is_array:
                return self._buffer(argument, text, path)
            if argument.value is None:
                self.refuse(
                    f"the scalar {name} has no value", path, found=text, accepted=f"{argument.dtype} = EXPRESSION"
                )
                return None
            self._bound.append(BoundArgument(name, Source.EXPRESSION, argument.value))
            return argument
        return None

    def _buffer(self, argument: Argument, text: str, path: Key) -> Argument | None:
        if argument.view is not None:
            self.refuse(
                "a scratch buffer cannot have a tensor map",
                path,
                found=text,
                accepted=str(replace(argument, view=None)),
            )
            return None
        zero = argument.fill is not None and argument.fill.kind is FillKind.ZEROS
        if not zero and not text.rstrip().endswith("]"):
            accepted = "TYPE[SHAPE] for a scratch buffer, which zeros may follow; data are the operator's"
            self.refuse("a scratch buffer cannot have initial contents", path, found=text, accepted=accepted)
            return None
        if argument.name in {*self._arrays, *self.fields}:
            self.refuse(
                "the scratch buffer has the name of an array or a field of the operator",
                path,
                found=argument.name,
                accepted="another name for it, if need be in the kernel, too",
            )
            return None
        elements = " * ".join(f"({extent})" for extent in argument.shape or ())
        self._workspace[argument.name] = WorkspaceDeclaration(type=argument.dtype, elements=elements, zero=zero)
        return Argument(argument.name, argument.dtype, Direction.INOUT, (), structure=argument.structure)

    def _is_scalar_alone(self, text: str) -> bool:
        """Return whether a text names a scalar of the operator that is not a field of the problem."""
        having = [(case, available) for case, available in self.cases if text in available.scalars]
        return bool(having) and not all(
            (case.values if case.emulate is None else case.emulate).get(text) == available.scalars[text]
            for case, available in having
        )

    def _expression(self, text: str, path: Key, axes: Mapping[str, tuple[Scalar, ...]]) -> bool:
        """Check the names of an expression."""
        valid_names, before = {*self.fields, *axes}, len(self.mistakes)
        if text.isidentifier() and text not in {*valid_names, "true", "false", "none"}:
            everything = [*self._arrays, *self._scalars, *valid_names]
            suggestion = did_you_mean(text, everything)
            self.refuse(
                f"the operator has no array or scalar {text!r}", path, accepted=self._known(), suggestion=suggestion
            )
        else:
            check_names(self, text, path, valid_names, "an argument")
        return len(self.mistakes) == before

    @property
    def _scalars(self) -> list[str]:
        return list(dict.fromkeys(name for _, available in self.cases for name in available.scalars))

    def _known(self) -> str:
        arrays, scalars = ", ".join(self._arrays), ", ".join(self._scalars)
        return f"an array ({arrays}), a scalar ({scalars}), or an expression over the problem and parameters"

    def _kind(self, text: str, path: Key, axes: Mapping[str, tuple[Scalar, ...]]) -> str | None:
        """Return the type of an expression, unless the kernel has one; None if it has no value."""
        values, refused = list[Scalar](), list[UserError]()
        for problem in self._problems():
            names = {
                **dict.fromkeys(problem.absent, NO_VALUE),
                **problem,
                **{key: axis_values[0] for key, axis_values in axes.items()},
            }
            try:
                values.append(evaluate(text, names, at=self.document.at(*path), key=dotted(path)))
            except UserError as error:  # constraints may exclude this problem
                refused.append(error)
        numbers = [value for value in values if not isinstance(value, str)]
        if not numbers and values:
            self.refuse("not a number", path, found=values[0], accepted="an expression that yields a number")
        elif not numbers:
            self.mistakes.append(refused[0])
        return _type_of(numbers) if numbers else None

    def _problems(self) -> Iterator[Problem]:
        for case, _ in self.cases:
            yield from (problem for problem in (case.values, case.emulate) if problem is not None)


def _type_of(values: Sequence[Scalar]) -> str:
    """Return the type in which Triton passes a number; other kernels use it, too, unless they declare a type."""
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if not all(isinstance(value, int) for value in values):
        return "float32"
    limits = np.iinfo(np.int32)
    return "int32" if all(limits.min <= int(value) <= limits.max for value in values) else "int64"
