"""A kernel of the user's own beside an operator's: what the operator has stands for the parameters of the kernel.

The operator says what is computed, of which inputs, and what is right. The entry says, for each parameter of the
kernel, which array or scalar of the operator is passed for it, or which value.
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
from lab.experiment.problems import ProblemCase
from lab.experiment.reading import Reading, check_names
from lab.experiment.schema import KernelModel, Passed
from lab.experiment.triton import is_triton, triton_kernel
from lab.operators.base import Offered, Problem
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.mapped import MARK, PARTS
from lab.operators.declared.specification import Argument, Direction, FillKind, parse, places
from lab.operators.foreign import Described
from lab.templates.front_matter import NO_VALUE, WorkspaceDeclaration
from lab.templates.plain.bound import BoundArgument, Source

_TYPED = re.compile(r"\s*(?:(?:in|out|inout|scratch)\s+(?:(?:partial|unordered)\s+)*)?(\w+)\s*(?:\[|=(?!=)|$)")
"""A text that begins as `TYPE[SHAPE]` and `TYPE = EXPRESSION` do."""

Cases = tuple[tuple[ProblemCase, Offered], ...]


def offered(computed: Described, cases: Sequence[ProblemCase]) -> Cases:
    """Return the problems with what kernels of each may take.

    Names and types follow the words of a problem, so that of those which differ in numbers one is asked, at the size
    that is executed on the CPU where there is one.
    """
    found = dict[str, Offered]()
    for case in cases:
        if (words := _words(case.values)) not in found:
            found[words] = computed.offered(case.values if case.emulate is None else case.emulate)
    return tuple((case, found[_words(case.values)]) for case in cases)


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
    given = triton_kernel(reading) if is_triton(reading.source) else plain_kernel(reading)
    return given.entry


@dataclass
class BesideReading(Reading):
    """An entry that names a source, in an experiment with an operator.

    Attributes:
        cases: The problems of the experiment, with what the operator has for each.
    """

    raw: KernelModel
    cases: Cases = ()
    _bound: list[BoundArgument] = field(default_factory=list)
    _workspace: dict[str, WorkspaceDeclaration] = field(default_factory=dict)

    @property
    def fields(self) -> set[str]:
        """Fields of any problem, those that it may lack among them."""
        return {name for case, _ in self.cases for name in (*case.values, *case.values.absent)}

    @property
    def bound(self) -> tuple[BoundArgument, ...]:
        """What stands for the arguments that were declared."""
        return tuple(self._bound)

    @property
    def workspace(self) -> dict[str, WorkspaceDeclaration]:
        """Scratch buffers among the arguments that were declared."""
        return self._workspace

    @property
    def named(self) -> frozenset[str]:
        """Fields that constraints name: the kernel is told apart by them, so it is not left out for having them."""
        found = frozenset[str]()
        for i, text in enumerate(self.raw.constraints):
            found |= names_in(text, at=self.document.at("constraints", i), key=f"constraints[{i}]")
        return found

    def declared(
        self, name: str, axes: Mapping[str, tuple[Scalar, ...]], own: Mapping[str, str | None]
    ) -> Declaration | None:
        """Read what stands for each parameter of the kernel."""
        given, before = self.raw.arguments, len(self.mistakes)
        if not given:
            accepted = f"what stands for each parameter of the kernel, in its order: {{a: {next(iter(self._arrays))}}}"
            self.refuse("a key is missing", ("arguments",), accepted=f"{accepted}; {self._known()}")
            return None
        read = [self._argument(place, text, axes, own.get(place[-1])) for place, text in places(given)]  # type: ignore[arg-type]
        if len(self.mistakes) == before and not any(one.is_written for one in self._bound):
            outputs = ", ".join(dict.fromkeys(name for _, one in self.cases for name in one.outputs))
            self.refuse("the kernel gets no output of the operator", ("arguments",), accepted=outputs)
        taken = tuple(one for one in read if one is not None)
        return Declaration(name, taken) if len(self.mistakes) == before else None

    # ---- parts

    @property
    def _arrays(self) -> dict[str, str]:
        """Every array of the operator, with its element type or the field of the problem that says it."""
        found = dict[str, set[str]]()
        for _, one in self.cases:
            for name, dtype in one.arrays.items():
                found.setdefault(name, set()).add(dtype)
        return {name: self._element(name, kinds) for name, kinds in found.items()}

    def _element(self, name: str, kinds: set[str]) -> str:
        if len(kinds) == 1:
            return next(iter(kinds))
        following = [(case.values, one.arrays[name]) for case, one in self.cases if name in one.arrays]
        named = [key for key in sorted(self.fields) if all(values.get(key) == kind for values, kind in following)]
        return f"{{{named[0]}}}" if named else ""

    def _argument(
        self, place: tuple[str, ...], given: Passed, axes: Mapping[str, tuple[Scalar, ...]], own: str | None
    ) -> Argument | None:
        name, structure = place[-1], "" if len(place) == 1 else place[0]
        path: Key = ("arguments", *place)
        text = str(given).lower() if isinstance(given, bool) else str(given).strip()
        arrays = self._arrays
        typed = _TYPED.match(text)
        if any(one.name == name for one in self._bound) or name in self._workspace:
            self.refuse(f"two arguments are called {name}", path, accepted="different names")
        elif text in arrays:
            return self._array(name, text, arrays[text], path, structure)
        elif (marked := MARK.search(text)) and text[: marked.start()].strip() in arrays and not structure:
            return self._mapped(name, text, marked, path, axes)
        elif typed is not None and typed[1] in ELEMENT_TYPES:
            return self._typed(name, text, path, structure, axes)
        elif self._is_scalar_alone(text):
            values = [one.scalars[text] for _, one in self.cases if text in one.scalars]
            self._bound.append(BoundArgument(name, Source.SCALAR, text))
            return Argument(name, own or _type_of(values), value=text, structure=structure)
        elif self._expression(text, path, axes) and (kind := self._kind(text, path, axes)):
            self._bound.append(BoundArgument(name, Source.EXPRESSION, text))
            return Argument(name, own or kind, value=text, structure=structure)
        return None

    def _array(self, name: str, array: str, dtype: str, path: Key, structure: str) -> Argument | None:
        if not dtype:
            kinds = sorted({one.arrays[array] for _, one in self.cases if array in one.arrays})
            accepted = "problems in which it has one type, or whose fields name it"
            self.refuse(f"the problems differ in the element type of {array}", path, found=kinds, accepted=accepted)
            return None
        is_written = any(array in one.outputs for _, one in self.cases)
        self._bound.append(BoundArgument(name, Source.ARRAY, array, is_written))
        return Argument(name, dtype, Direction.OUT if is_written else Direction.IN, (), structure=structure)

    def _mapped(
        self, name: str, text: str, marked: re.Match[str], path: Key, axes: Mapping[str, tuple[Scalar, ...]]
    ) -> Argument | None:
        """A tensor map of an array of the operator: `A as map[64, 64] of [m, k] strides [lda, 1]`."""
        begin = marked.start()
        array, tail = text[:begin].strip(), text[begin:].strip()
        taken = self._array(name, array, self._arrays[array], path, "")
        if not PARTS["of"].search(tail):
            accepted = "as map[BOX] of [EXTENTS] strides [STRIDES], over the problem"
            self.refuse("a map of an operator's array says its dimensions", path, found=tail, accepted=accepted)
            return None
        with self.noting():
            try:
                view = parse(name, f"float32[1] {tail}").view
            except UserError as error:
                raise error.placed(self.document.at(*path), dotted(path)) from None
            if view is None or taken is None:
                return None
            for expression in view.expressions:
                check_names(self, expression, path, {*self.fields, *axes}, "an argument")
            return replace(taken, view=view)
        return None

    def _typed(
        self, name: str, text: str, path: Key, structure: str, axes: Mapping[str, tuple[Scalar, ...]]
    ) -> Argument | None:
        """A scalar with its type, or a scratch buffer."""
        with self.noting():
            try:
                one = parse(name, text, structure)
            except UserError as error:
                raise error.placed(self.document.at(*path), dotted(path)) from None
            for expression in one.expressions:
                check_names(self, expression, path, {*self.fields, *axes}, "an argument")
            if one.is_array:
                return self._buffer(one, text, path)
            if one.value is None:
                self.refuse(f"the scalar {name} has no value", path, found=text, accepted=f"{one.dtype} = EXPRESSION")
                return None
            self._bound.append(BoundArgument(name, Source.EXPRESSION, one.value))
            return one
        return None

    def _buffer(self, one: Argument, text: str, path: Key) -> Argument | None:
        if one.view is not None:
            self.refuse("a scratch buffer has no tensor map", path, found=text, accepted=str(replace(one, view=None)))
            return None
        zero = one.fill is not None and one.fill.kind is FillKind.ZEROS
        if not zero and not text.rstrip().endswith("]"):
            accepted = "TYPE[SHAPE] for a scratch buffer, which zeros may follow; data are the operator's"
            self.refuse("a scratch buffer has no contents", path, found=text, accepted=accepted)
            return None
        if one.name in {*self._arrays, *self.fields}:
            self.refuse(
                "the scratch buffer has the name of an array or a field of the operator",
                path,
                found=one.name,
                accepted="another name for it, if need be in the kernel, too",
            )
            return None
        elements = " * ".join(f"({extent})" for extent in one.shape or ())
        self._workspace[one.name] = WorkspaceDeclaration(type=one.dtype, elements=elements, zero=zero)
        return Argument(one.name, one.dtype, Direction.INOUT, (), structure=one.structure)

    def _is_scalar_alone(self, text: str) -> bool:
        """Whether a text names a scalar of the operator that no field of the problem is."""
        having = [(case, one) for case, one in self.cases if text in one.scalars]
        return bool(having) and not all(
            (case.values if case.emulate is None else case.emulate).get(text) == one.scalars[text]
            for case, one in having
        )

    def _expression(self, text: str, path: Key, axes: Mapping[str, tuple[Scalar, ...]]) -> bool:
        """Check the names of an expression."""
        known, before = {*self.fields, *axes}, len(self.mistakes)
        if text.isidentifier() and text not in {*known, "true", "false", "none"}:
            everything = [*self._arrays, *self._scalars, *known]
            suggestion = did_you_mean(text, everything)
            self.refuse(
                f"the operator has no array or scalar {text!r}", path, accepted=self._known(), suggestion=suggestion
            )
        else:
            check_names(self, text, path, known, "an argument")
        return len(self.mistakes) == before

    @property
    def _scalars(self) -> list[str]:
        return list(dict.fromkeys(name for _, one in self.cases for name in one.scalars))

    def _known(self) -> str:
        arrays, scalars = ", ".join(self._arrays), ", ".join(self._scalars)
        return f"an array ({arrays}), a scalar ({scalars}), or an expression over the problem and parameters"

    def _kind(self, text: str, path: Key, axes: Mapping[str, tuple[Scalar, ...]]) -> str | None:
        """The type of an expression, unless the kernel says it; None where it has no value."""
        values, refused = list[Scalar](), list[UserError]()
        for problem in self._problems():
            names = {**dict.fromkeys(problem.absent, NO_VALUE), **problem, **{key: one[0] for key, one in axes.items()}}
            try:
                values.append(evaluate(text, names, at=self.document.at(*path), key=dotted(path)))
            except UserError as error:  # constraints may leave this problem out
                refused.append(error)
        numbers = [value for value in values if not isinstance(value, str)]
        if not numbers and values:
            self.refuse("not a number", path, found=values[0], accepted="an expression that yields a number")
        elif not numbers:
            self.mistakes.append(refused[0])
        return _type_of(numbers) if numbers else None

    def _problems(self) -> Iterator[Problem]:
        for case, _ in self.cases:
            yield from (one for one in (case.values, case.emulate) if one is not None)


def _type_of(values: Sequence[Scalar]) -> str:
    """The type in which Triton passes a number, whose rule serves for other kernels, too, unless they say a type."""
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if not all(isinstance(value, int) for value in values):
        return "float32"
    limits = np.iinfo(np.int32)
    return "int32" if all(limits.min <= int(value) <= limits.max for value in values) else "int64"
