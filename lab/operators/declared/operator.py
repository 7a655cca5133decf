"""The operator that a declaration describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Inputs, Operator, OtherInputs, Problem, StandInMismatchError
from lab.operators.boxes import fewer, thinned
from lab.operators.declared import foreign, judging
from lab.operators.declared.arrays import evaluate_arrays
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.discriminating import other_inputs, other_problems
from lab.operators.declared.doubts import doubts
from lab.operators.declared.elements import DOUBLE
from lab.operators.declared.files import array_in, is_file, path_for
from lab.operators.declared.foreign import tracked
from lab.operators.declared.functions import Given
from lab.operators.declared.indexing import indexed_inputs
from lab.operators.declared.inputs import ArgumentPlan, inputs, plan
from lab.operators.declared.judging import DeclaredExpected, Unwritten
from lab.operators.declared.metrics import Metric, MetricKind
from lab.operators.declared.restricted import NamedArray, evaluate_at, multiplies
from lab.operators.declared.specification import Argument, Direction
from lab.operators.declared.tolerance import Tolerance
from lab.operators.declared.tracked import Rules, Tracked
from lab.operators.indexed import IndexedInputs

_COMPARED: Final = ("float16", "bfloat16", "float32", "float64")
"""Element types that the device compares as `compare` does."""


_FEW_SIDES: Final = 16
"""Rows, and columns, of each box of elements whose products are computed."""

_FEW_BOXES: Final = 9
"""Such boxes."""

_LARGE_PRODUCT: Final = 1 << 28
"""Elements of an output of which one such box is computed: its columns lie on many pages."""

_MOST_BOXES: Final = 64
"""Boxes of elements that are computed at most."""

_MOST_READ: Final = 1 << 23
"""Elements of the largest array that are read at most, if each of an output needs an equal share of them."""

_FEW_ELEMENTS: Final = 16
"""Elements of an output that are computed in any case."""


class DeclaredProblem(Problem):
    """A problem of a declared operator: whatever fields the file gives it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, bool | int | float | str]


Result = TypeVar("Result")
Others = ParamSpec("Others")


def _of_types(
    method: Callable[Concatenate[Declared, DeclaredProblem, Others], Result],
) -> Callable[Concatenate[Declared, DeclaredProblem, Others], Result]:
    """Call a method of the operator whose element types are those of the problem."""

    @wraps(method)
    def called(self: Declared, problem: DeclaredProblem, *args: Others.args, **named: Others.kwargs) -> Result:
        return method(self.typed(problem), problem, *args, **named)

    return cast("Callable[Concatenate[Declared, DeclaredProblem, Others], Result]", called)


@dataclass(frozen=True)
class Declared(Operator[DeclaredProblem]):
    """The operator of a short experiment file.

    Attributes:
        declaration: What the file declares.
    """

    declaration: Declaration
    problem_type = DeclaredProblem

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """Return the kernel's name."""
        return self.declaration.name

    @cached_property
    def merit(self) -> Merit:  # type: ignore[override]
        """Return what the first metric counts; bytes where it counts neither operations nor bytes."""
        first = self._throughput
        return Merit.TFLOPS if first is not None and first.kind is MetricKind.FLOPS else Merit.BANDWIDTH

    @property
    def has_reference(self) -> bool:
        """Whether the file says what the outputs must hold."""
        return bool(self.declaration.references or self.declaration.function)

    @property
    def refuses_sizes(self) -> bool:
        """Return whether the references are expressions: a function may take any sizes for valid."""
        return not self.declaration.function

    def problem(self, values: Mapping[str, object]) -> DeclaredProblem:
        """Check the fields of a problem; what depends on parameters is checked with them.

        Raises:
            UserError: A field is missing, or a shape or scalar does not come out right.
        """
        made = self.problem_type.of(values)
        if not set(self.declaration.parameters) - made.keys():
            self._plan(made)
            self._check_metrics(made)
            return made
        for name in sorted(self.declaration.needed - made.keys() - set(self.declaration.parameters)):
            raise UserError(
                "a key is missing", code="missing-key", key=f"problem.{name}", accepted="a value: the file mentions it"
            )
        return made

    def for_parameters(self, problem: DeclaredProblem, parameters: Mapping[str, Scalar]) -> DeclaredProblem:
        """Add the parameters of a variant that shapes, values, references or metrics mention.

        Raises:
            UserError: A shape or scalar does not come out right.
        """
        mentioned = {name: parameters[name] for name in self.declaration.parameters if name in parameters}
        added = {name: value for name, value in mentioned.items() if name not in problem}
        if not added:
            return problem
        made = self.problem_type.of({**{key: problem[key] for key in problem if key != "name"}, **added})
        self._plan(made)
        self._check_metrics(made)
        return made.titled(problem.title) if problem.title else made

    def typed(self, problem: Mapping[str, Scalar]) -> Declared:
        """Return the operator with the element types that follow the problem; itself where none does.

        Raises:
            UserError: A value is no type, or contents do not suit it.
        """
        names = self.declaration.type_parameters
        return _typed(self, tuple((name, problem.get(name)) for name in names)) if names else self

    @_of_types
    def scalars(self, problem: DeclaredProblem) -> Mapping[str, Scalar]:
        """Return the values of the kernel's scalars, as their types hold them.

        Raises:
            UserError: A shape or scalar does not come out right.
        """
        return self._plan(problem).scalars

    @_of_types
    def inputs(self, problem: DeclaredProblem, seed: int) -> Inputs:
        """Fill arrays as the file says; what is only written holds NaN, or bytes of 0xA5."""
        return inputs(self.declaration, self._plan(problem), seed)

    @_of_types
    def other_inputs(self, problem: DeclaredProblem, seed: int) -> tuple[OtherInputs, ...]:
        """Change the arrays of whose contents the file says nothing: `lab.operators.declared.discriminating`."""
        return other_inputs(self.declaration, self._plan(problem), seed)

    def other_problems(
        self, small: Mapping[str, Scalar], real: Mapping[str, Scalar]
    ) -> tuple[Mapping[str, Scalar], ...]:
        """Return what to change in a small problem: `lab.operators.declared.discriminating.other_problems`."""
        return other_problems(self.typed(small).declaration, small, real)

    @_of_types
    def reference(self, problem: DeclaredProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Evaluate the references in float64, complex128 or 64-bit integers, from the arguments as they are stored.

        Raises:
            UserError: The file has none, or one does not fit its output.
        """
        planned = self._plan(problem)
        if not self.has_reference:
            accepted = "a reference for each output, such as {c: a + b}"
            raise UserError("the file has no reference", code="missing-key", key="reference", accepted=accepted)
        if self.declaration.function:
            return self._called(problem, inputs)
        arrays = self._arrays(planned, inputs)
        tolerances = dict(self.declaration.tolerances)
        found: dict[str, Expected] = {}
        for name, text in self.declaration.references:
            argument = self.declaration.argument[name]
            rules = self._rules(planned, name)
            if is_file(text):
                found[name] = self._held(planned, name, text)
                continue
            try:
                value = evaluate_arrays(text, {**_numbers(planned, rules), **arrays}, rules)
            except UserError as error:
                raise error.placed(error.at, f"reference.{name}") from error
            shape = planned.shapes[name]
            found[name] = judging.expected(
                name, argument.element, shape, value, tolerance=tolerances.get(name), rules=rules
            )
        return found

    @_of_types
    def as_expected(self, problem: DeclaredProblem, outputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """Take one variant's outputs for what the others must hold, where the file has no reference.

        Raises:
            StandInMismatchError: An output has another size or type than this problem's: these follow a parameter.
        """
        planned = self._plan(problem)
        for one in self.declaration.outputs:
            shape, size = planned.shapes[one.name], outputs[one.name].size
            if outputs[one.name].dtype != one.element.dtype:
                raise StandInMismatchError(
                    f"{one.name} has another type than the first variant's: not compared",
                    code="wrong-type",
                    found=f"{outputs[one.name].dtype} in the first variant, {one.element.name} in this one",
                    accepted="a reference, which fits every type",
                )
            if size != math.prod(shape):
                found = f"{size} elements in the first variant, {math.prod(shape)} in this one"
                raise StandInMismatchError(
                    f"{one.name} has another shape than the first variant's: not compared",
                    code="mismatch",
                    found=found,
                    accepted="a reference, which fits every shape",
                )
        return {
            one.name: judging.from_outputs(
                one.element, planned.shapes[one.name], outputs[one.name], self._tolerance(planned, one.name)
            )
            for one in self.declaration.outputs
        }

    @_of_types
    def verify(
        self, problem: DeclaredProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        The error of an element is |got - expected| over a bound of it, so the tolerance is 1. The bound is twice that
        of `lab.operators.declared.tracked`, plus the unit roundoff of types that are coarser than float32; or what the
        file's `tolerance` says, see `lab.operators.declared.tolerance`. Integers, and floats that are only
        moved, must be right. A NaN must be where the reference has one, and nowhere else.
        """
        del problem
        worst = (-1.0, "")
        for one in self.declaration.outputs:
            known = reference[one.name]
            assert isinstance(known, DeclaredExpected)  # noqa: S101 - made by `reference` or `as_expected`
            if self._ignores(one.name):
                continue
            compare = judging.compare_sorted if one.is_unordered else judging.compare
            found = compare(one.name, one.element, known, outputs[one.name], _unwritten(one))
            worst = max(worst, found, key=lambda error: error[0])
        return max(worst[0], 0.0), 1.0, worst[1]

    @_of_types
    def doubts(self, problem: DeclaredProblem, inputs: Inputs, outputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return a sentence for each output with NaN out of finite inputs: `lab.operators.declared.doubts`."""
        ignored = {one.name for one in self.declaration.outputs if self._ignores(one.name)}
        return doubts(self.declaration, inputs, outputs, self._plan(problem).shapes, ignored=ignored)

    @_of_types
    def indexed_inputs(self, problem: DeclaredProblem, seed: int) -> IndexedInputs | None:
        """Return the arrays as functions of the index; None where one cannot be described so.

        Of the same problem, they are the same ones.
        """
        return _indexed(self.declaration, _fields(problem), seed)

    @_of_types
    def representative(
        self, problem: DeclaredProblem, wanted: Mapping[str, NDArray[np.int64]]
    ) -> Mapping[str, NDArray[np.int64]]:
        """Return the elements that one block decides: fewer where they are scattered, or where they take long.

        Where an element of an unordered output stands, all blocks decide. Products of matrices take long.
        """
        planned, references = self._plan(problem), dict(self.declaration.references)
        largest = max(map(math.prod, planned.shapes.values()), default=1)
        found: dict[str, NDArray[np.int64]] = {}
        for name, elements in wanted.items():
            shape, text = planned.shapes[name], references.get(name, "")
            size = math.prod(shape)
            if self.declaration.argument[name].is_unordered or self._ignores(name):
                continue
            if not text or is_file(text):
                found[name] = elements
            elif multiplies(text):
                few = fewer(elements, shape, max(1, min(_FEW_BOXES, _LARGE_PRODUCT // size)))
                found[name] = thinned(few, shape, _FEW_SIDES)
            else:
                most = max(_FEW_ELEMENTS, _MOST_READ * size // largest)
                kept = np.unique(np.linspace(0, len(elements) - 1, min(most, len(elements))).astype(np.int64))
                found[name] = fewer(elements[kept], shape, _MOST_BOXES)
        return found

    @_of_types
    def reference_at(
        self, problem: DeclaredProblem, inputs: IndexedInputs, wanted: Mapping[str, NDArray[np.int64]]
    ) -> Mapping[str, Expected] | None:
        """Evaluate the references at chosen elements; None where `why_not_restricted` has a reason, or they refuse.

        Outputs whose contents do not matter are left out. An element's bound is at least what rounding may change,
        since of the neighbours that a relative tolerance looks at only chosen ones are known.
        """
        planned, references = self._plan(problem), dict(self.declaration.references)
        wanted = {name: elements for name, elements in wanted.items() if not self._ignores(name)}
        if self._why_not_at(wanted):
            return None
        arrays = {
            one.name: NamedArray(inputs.arrays[one.name], planned.shapes[one.name], one.element)
            for one in self.declaration.arguments
            if one.is_array and one.direction is not Direction.OUT
        }
        tolerances, found = dict(self.declaration.tolerances), dict[str, Expected]()
        for name, elements in wanted.items():
            argument, rules = self.declaration.argument[name], self._rules(planned, name)
            numbers, shape = _numbers(planned, rules), planned.shapes[name]
            try:
                value = evaluate_at(
                    references[name], arrays, numbers, rules, shape=shape, elements=elements, kept=inputs.kept
                )
                found[name] = judging.expected_at(
                    name, argument.element, elements.shape, value, tolerance=tolerances.get(name), rules=rules
                )
            except (UnrestrictedError, UserError):  # what the reference refuses says nothing of a kernel
                return None
        return found

    @_of_types
    def why_not_restricted(self, problem: DeclaredProblem) -> str:
        """Say why values were compared at the small size alone."""
        del problem
        return self._why_not_at([one.name for one in self.declaration.outputs]) or (
            "its reference needs more elements than can be read"
        )

    def _why_not_at(self, outputs: Iterable[str]) -> str:
        """Say why references are not evaluated at chosen elements of outputs; empty where they can be."""
        references = dict(self.declaration.references)
        if self.declaration.function:
            return "its reference is a Python function"
        if not references:
            return "it has no reference"
        for name in outputs:
            if self.declaration.argument[name].is_unordered:
                return f"the elements of {name} may stand in any order"
            if is_file(references[name]):
                return f"the reference of {name} is a file"
        return ""

    @_of_types
    def verify_at(
        self,
        problem: DeclaredProblem,
        reference: Mapping[str, Expected],
        wanted: Mapping[str, NDArray[np.int64]],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare chosen elements, as `verify` does all."""
        planned, worst = self._plan(problem), (-1.0, "")
        for name, elements in wanted.items():
            if self._ignores(name):
                continue
            known = reference[name]
            assert isinstance(known, DeclaredExpected)  # noqa: S101 - made by `reference_at`
            chosen = (elements, planned.shapes[name])
            element = self.declaration.argument[name].element
            found = judging.compare(name, element, known, got[name], Unwritten.KEPT, chosen=chosen)
            worst = max(worst, found, key=lambda error: error[0])
        return max(worst[0], 0.0), 1.0, worst[1]

    @_of_types
    def elementwise(
        self, problem: DeclaredProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Return the reference in the buffers' order where all outputs are floats that the device compares."""
        del problem
        found: dict[str, Expected] = {}
        for one in self.declaration.outputs:
            if self._ignores(one.name) or one.is_unordered:
                return None
            known = reference[one.name]
            laid = judging.laid_out(known, _unwritten(one)) if isinstance(known, DeclaredExpected) else None
            if one.dtype not in _COMPARED or laid is None:
                return None
            found[one.name] = laid
        return found, 1.0

    @_of_types
    def flops(self, problem: DeclaredProblem) -> int:
        """Return the work that the first metric counts if that is operations; else 0."""
        planned, first = self._plan(problem), self._throughput
        counts = first is not None and first.kind is MetricKind.FLOPS
        return first.work(planned.names, self._array_bytes(planned)) if first is not None and counts else 0

    @_of_types
    def bytes_moved(self, problem: DeclaredProblem) -> int:
        """Return the work that the first metric counts if that is bytes.

        Else every array counts: an input or an output once, an array that is read and written twice.
        """
        planned, first = self._plan(problem), self._throughput
        if first is not None and first.kind is MetricKind.BYTES:
            return first.work(planned.names, self._array_bytes(planned))
        return self._array_bytes(planned)

    @_of_types
    def constant_bytes(self, problem: DeclaredProblem) -> Mapping[str, int]:
        """Return the size of everything that constant memory holds, in bytes, by its name."""
        declaration, shapes = self.declaration, self._plan(problem).shapes
        return {
            name: int(np.prod(shapes.get(name, ()), dtype=np.int64)) * declaration.argument[name].element.dtype.itemsize
            for name in declaration.constants
        }

    @_of_types
    def fma_dtype(self, problem: DeclaredProblem) -> np.dtype[Any]:
        """Return float64 if an output has that precision, else float32, in which 16-bit results are computed, too."""
        del problem
        return np.dtype(np.float64 if self._is_double() else np.float32)

    @_of_types
    def declared_rate(self, problem: DeclaredProblem) -> DeclaredRate | None:
        """Return what throughput is where the first metric counts neither operations nor bytes; else None."""
        planned, first = self._plan(problem), self._throughput
        if first is None or first.kind is not MetricKind.OTHER:
            return None
        return DeclaredRate(first.unit, first.amount(planned.names, self._array_bytes(planned)) / first.factor)

    @_of_types
    def declared_figures(self, problem: DeclaredProblem) -> tuple[DeclaredFigure, ...]:
        """Return every metric but the first, with the values of the names that it reads."""
        names = self._plan(problem).names
        return tuple(metric.figure(names) for metric in self.declaration.metrics[1:])

    # ---- parts

    @_of_types
    def _check_metrics(self, problem: DeclaredProblem) -> None:
        """Refuse a throughput that is no rate, and metrics that are no numbers, before anything is built."""
        planned, first = self._plan(problem), self._throughput
        if first is not None:
            first.amount(planned.names, self._array_bytes(planned))
        for metric in self.declaration.metrics[1:]:
            metric.value(planned.names, 1.0)

    def _array_bytes(self, planned: ArgumentPlan) -> int:
        """Bytes of the arrays that are passed; those of what is read and written count twice."""
        return sum(
            (2 if one.direction is Direction.INOUT else 1)
            * int(np.prod(planned.shapes[one.name], dtype=np.int64))
            * one.element.dtype.itemsize
            for one in self.declaration.passed
            if one.is_array
        )

    @property
    def _throughput(self) -> Metric | None:
        return self.declaration.metrics[0] if self.declaration.metrics else None

    @_of_types
    def _plan(self, problem: DeclaredProblem) -> ArgumentPlan:
        return _planned(self.declaration, _fields(problem))

    def _is_double(self) -> bool:
        """Whether outputs are of 64-bit floats; of integers, whether all float inputs are."""
        inexact = [one for one in self.declaration.outputs if not one.element.is_exact]
        inexact = inexact or [one for one in self.declaration.arguments if not one.element.is_exact]
        return bool(inexact) and all(one.element.arithmetic is DOUBLE for one in inexact)

    def _rules(self, planned: ArgumentPlan, output: str) -> Rules:
        element = self.declaration.argument[output].element
        rules = planned.rules(self.declaration.argument[output])
        return Rules(DOUBLE, rules.most_elements) if element.is_exact and self._is_double() else rules

    def _held(self, planned: ArgumentPlan, output: str, path: str) -> Expected:
        """What a file says that an output must hold."""
        key, element = f"reference.{output}", self.declaration.argument[output].element
        held = array_in(Path(self.declaration.folder) / path_for(path.strip(), planned.names), key)
        bits = element.is_bits and held.dtype == element.dtype
        value = tracked(output, element.widened(np.asarray(held)) if bits else held, key)
        tolerance, rules = self._tolerance(planned, output), self._rules(planned, output)
        return judging.expected(output, element, planned.shapes[output], value, tolerance=tolerance, rules=rules)

    def _ignores(self, output: str) -> bool:
        """Return whether an output's contents do not matter."""
        given = dict(self.declaration.tolerances).get(output)
        return given is not None and given.ignores_contents

    def _tolerance(self, planned: ArgumentPlan, output: str) -> Tolerance:
        longest = max((n for shape in planned.shapes.values() for n in shape), default=1)
        default = judging.unanalysed(self.declaration.argument[output].element, longest)
        return dict(self.declaration.tolerances).get(output, default)

    def _arrays(self, planned: ArgumentPlan, inputs: Inputs) -> Mapping[str, Given]:
        """The arrays that hold something before the launch, in their shapes."""
        names: dict[str, Given] = {}
        for one in self.declaration.arguments:
            if one.is_array and one.direction is not Direction.OUT:
                held = one.element.widened(inputs.arrays[one.name])
                names[one.name] = Tracked(held.reshape(planned.shapes[one.name]))
        return names

    @_of_types
    def available(self, problem: DeclaredProblem, inputs: Inputs) -> dict[str, object]:
        """Return what a user's function may ask for: numbers, and the arrays that hold something.

        Arrays have their shapes and are read-only; of types that NumPy lacks, they are float64.
        """
        planned = self._plan(problem)
        available: dict[str, object] = dict(planned.names)
        for one in self.declaration.arguments:
            if one.is_array and one.direction is not Direction.OUT:
                held = inputs.arrays[one.name]
                held = one.element.widened(held) if one.element.is_bits else held.view()
                held = held.reshape(planned.shapes[one.name])
                held.flags.writeable = False
                available[one.name] = held
        return available

    def _called(self, problem: DeclaredProblem, inputs: Inputs) -> Mapping[str, Expected]:
        planned, available = self._plan(problem), self.available(problem, inputs)
        outputs = tuple(one.name for one in self.declaration.outputs)
        values = foreign.called(self.declaration.function, Path(self.declaration.folder), available, outputs)
        return {
            name: judging.expected(
                name,
                self.declaration.argument[name].element,
                planned.shapes[name],
                value,
                tolerance=self._tolerance(planned, name),
                rules=self._rules(planned, name),
            )
            for name, value in values.items()
        }


def _unwritten(argument: Argument) -> Unwritten:
    if argument.direction is not Direction.OUT:
        return Unwritten.KEPT
    return Unwritten.PARTIAL if argument.is_partial else Unwritten.POISON


def _numbers(planned: ArgumentPlan, rules: Rules) -> Mapping[str, Given]:
    """The numbers that a reference can name. Scalars are what the kernel gets; it rounds others where it uses them."""
    exact = Rules(DOUBLE)
    return {
        name: value if isinstance(value, str) else (exact if name in planned.scalars else rules).literal(value)
        for name, value in planned.names.items()
    }


_Fields = tuple[tuple[str, type, Scalar], ...]


def _fields(problem: DeclaredProblem) -> _Fields:
    """Return a problem as a key. Types are in it because 1, 1.0 and true are equal."""
    return tuple((key, type(value), value) for key, value in problem.items() if key != "name")


@lru_cache(maxsize=256)
def _planned(declaration: Declaration, fields: _Fields) -> ArgumentPlan:
    """Cached, since a sweep asks for each variant."""
    return plan(declaration, {name: value for name, _, value in fields})


@lru_cache(maxsize=1)
def _indexed(declaration: Declaration, fields: _Fields, seed: int) -> IndexedInputs | None:
    """Cached with the pages that are drawn, since the variants of a sweep share a problem."""
    return indexed_inputs(declaration, _planned(declaration, fields), seed)


@lru_cache(maxsize=64)
def _typed(operator: Declared, values: tuple[tuple[str, object], ...]) -> Declared:
    return Declared(operator.declaration.typed(dict(values)))


@lru_cache(maxsize=64)
def declared(reference: str) -> Declared:
    """Return the operator of a reference that begins with `lab.operators.declared.declaration.PREFIX`.

    Raises:
        UserError: It is none that `Declaration.reference` made.
    """
    return Declared(Declaration.restored(reference))
