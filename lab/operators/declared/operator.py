"""The operator made from a declaration."""

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
from lab.operators.declared.array_files import array_in, is_file, path_for
from lab.operators.declared.arrays import evaluate_arrays
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.declared_metrics import Metric, MetricKind
from lab.operators.declared.discriminating import other_inputs, other_problems
from lab.operators.declared.doubts import doubts
from lab.operators.declared.elements import DOUBLE
from lab.operators.declared.foreign import tracked
from lab.operators.declared.functions import Given
from lab.operators.declared.indexing import indexed_inputs
from lab.operators.declared.inputs import ArgumentPlan, inputs, plan
from lab.operators.declared.judging import DeclaredExpected, Unwritten
from lab.operators.declared.restricted import NamedArray, evaluate_at, multiplies
from lab.operators.declared.specification import Argument, Direction
from lab.operators.declared.tolerance import Tolerance
from lab.operators.declared.tracked import Rules, Tracked
from lab.operators.indexed import IndexedInputs

_COMPARED: Final = ("float16", "bfloat16", "float32", "float64")
"""Element types the device compares in the same way as `compare`."""


_FEW_SIDES: Final = 16
"""Maximum rows, and columns, of each box of elements whose GEMM reference is computed."""

_FEW_BOXES: Final = 9
"""Maximum number of such boxes."""

_LARGE_PRODUCT: Final = 1 << 28
"""Elements of an output from which only one such box is computed: its columns lie on many pages."""

_MOST_BOXES: Final = 64
"""Maximum number of boxes of elements that are computed."""

_MOST_READ: Final = 1 << 23
"""Maximum elements of the largest array that are read, if all output elements need an equal share of it."""

_FEW_ELEMENTS: Final = 16
"""Minimum elements of an output that are computed."""


class DeclaredProblem(Problem):
    """A problem of a declared operator, with the fields the file gives it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, bool | int | float | str]


Result = TypeVar("Result")
Others = ParamSpec("Others")


def _of_types(
    method: Callable[Concatenate[Declared, DeclaredProblem, Others], Result],
) -> Callable[Concatenate[Declared, DeclaredProblem, Others], Result]:
    """Call a method on the operator with the problem's element types."""

    @wraps(method)
    def called(self: Declared, problem: DeclaredProblem, *args: Others.args, **kwargs: Others.kwargs) -> Result:
        return method(self.typed(problem), problem, *args, **kwargs)

    return cast("Callable[Concatenate[Declared, DeclaredProblem, Others], Result]", called)


@dataclass(frozen=True)
class Declared(Operator[DeclaredProblem]):
    """The operator of a short experiment file.

    Attributes:
        declaration: The file's declaration.
    """

    declaration: Declaration
    problem_type = DeclaredProblem

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """Return the kernel's name."""
        return self.declaration.name

    @cached_property
    def merit(self) -> Merit:  # type: ignore[override]
        """Return the kind of work the first metric counts; bandwidth unless it counts operations."""
        first = self._throughput
        return Merit.TFLOPS if first is not None and first.kind is MetricKind.FLOPS else Merit.BANDWIDTH

    @property
    def has_reference(self) -> bool:
        """Return whether the file has a reference."""
        return bool(self.declaration.references or self.declaration.function)

    @property
    def refuses_sizes(self) -> bool:
        """Return whether the references are expressions: a function may accept any sizes."""
        return not self.declaration.function

    def problem(self, values: Mapping[str, object]) -> DeclaredProblem:
        """Check the fields of a problem, without what depends on variant parameters.

        Raises:
            UserError: A field is missing, or a shape or scalar is invalid.
        """
        checked = self.problem_type.of(values)
        if not set(self.declaration.parameters) - checked.keys():
            self._plan(checked)
            self._check_metrics(checked)
            return checked
        for name in sorted(self.declaration.needed - checked.keys() - set(self.declaration.parameters)):
            raise UserError(
                "a key is missing", code="missing-key", key=f"problem.{name}", accepted="a value: the file mentions it"
            )
        return checked

    def for_parameters(self, problem: DeclaredProblem, parameters: Mapping[str, Scalar]) -> DeclaredProblem:
        """Add a variant's parameters that shapes, values, references or metrics use.

        Raises:
            UserError: A shape or scalar does not come out right.
        """
        mentioned = {name: parameters[name] for name in self.declaration.parameters if name in parameters}
        added = {name: value for name, value in mentioned.items() if name not in problem}
        if not added:
            return problem
        extended = self.problem_type.of({**{key: problem[key] for key in problem if key != "name"}, **added})
        self._plan(extended)
        self._check_metrics(extended)
        return extended.titled(problem.title) if problem.title else extended

    def typed(self, problem: Mapping[str, Scalar]) -> Declared:
        """Return the operator with element types resolved for the problem; itself if there are none to resolve.

        Raises:
            UserError: A value is not a type, or contents do not suit it.
        """
        names = self.declaration.type_parameters
        return _typed(self, tuple((name, problem.get(name)) for name in names)) if names else self

    @_of_types
    def scalars(self, problem: DeclaredProblem) -> Mapping[str, Scalar]:
        """Return the values of the kernel's scalars, in their types.

        Raises:
            UserError: A shape or scalar does not come out right.
        """
        return self._plan(problem).scalars

    @_of_types
    def inputs(self, problem: DeclaredProblem, seed: int) -> Inputs:
        """Fill arrays as declared; write-only arrays hold NaN, or bytes of 0xA5."""
        return inputs(self.declaration, self._plan(problem), seed)

    @_of_types
    def other_inputs(self, problem: DeclaredProblem, seed: int) -> tuple[OtherInputs, ...]:
        """Vary the arrays without declared contents; see `lab.operators.declared.discriminating`."""
        return other_inputs(self.declaration, self._plan(problem), seed)

    def other_problems(
        self, small: Mapping[str, Scalar], real: Mapping[str, Scalar]
    ) -> tuple[Mapping[str, Scalar], ...]:
        """Return changes to a small problem; see `lab.operators.declared.discriminating.other_problems`."""
        return other_problems(self.typed(small).declaration, small, real)

    @_of_types
    def reference(self, problem: DeclaredProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Evaluate the references in float64, complex128 or 64-bit integers, from the arguments as they are stored.

        Raises:
            UserError: The file has no reference, or one does not fit its output.
        """
        planned = self._plan(problem)
        if not self.has_reference:
            accepted = "a reference for each output, such as {c: a + b}"
            raise UserError("the file has no reference", code="missing-key", key="reference", accepted=accepted)
        if self.declaration.function:
            return self._called(problem, inputs)
        arrays = self._arrays(planned, inputs)
        tolerances = dict(self.declaration.tolerances)
        expected: dict[str, Expected] = {}
        for name, text in self.declaration.references:
            argument = self.declaration.argument[name]
            rules = self._rules(planned, name)
            if is_file(text):
                expected[name] = self._held(planned, name, text)
                continue
            try:
                value = evaluate_arrays(text, {**_numbers(planned, rules), **arrays}, rules)
            except UserError as error:
                raise error.placed(error.at, f"reference.{name}") from error
            shape = planned.shapes[name]
            expected[name] = judging.expected(
                name, argument.element, shape, value, tolerance=tolerances.get(name), rules=rules
            )
        return expected

    @_of_types
    def as_expected(
        self, problem: DeclaredProblem, outputs: Mapping[str, Array], first: DeclaredProblem | None = None
    ) -> Mapping[str, Expected]:
        """Use one variant's outputs as the expected values of the others, if the file has no reference.

        Raises:
            StandInMismatchError: An array differs in size or type from this problem's: they depend on a parameter.
        """
        planned = self._plan(problem)
        shapes = self._plan(first).shapes if first is not None else planned.shapes
        for name, shape in shapes.items():
            if math.prod(shape) != math.prod(planned.shapes[name]):
                raise _another_shape(name, math.prod(shape), math.prod(planned.shapes[name]))
        for output in self.declaration.outputs:
            shape, size = planned.shapes[output.name], outputs[output.name].size
            if outputs[output.name].dtype != output.element.dtype:
                raise StandInMismatchError(
                    f"{output.name} has another type than the first variant's: not compared",
                    code="wrong-type",
                    found=f"{outputs[output.name].dtype} in the first variant, {output.element.name} in this one",
                    accepted="a reference, which fits every type",
                )
            if size != math.prod(shape):
                raise _another_shape(output.name, size, math.prod(shape))
        return {
            output.name: judging.from_outputs(
                output.element, planned.shapes[output.name], outputs[output.name], self._tolerance(planned, output.name)
            )
            for output in self.declaration.outputs
        }

    @_of_types
    def verify(
        self, problem: DeclaredProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        The error of an element is |got - expected| over a bound on it, so the tolerance is 1. The bound is twice that
        of `lab.operators.declared.tracked`, plus the unit roundoff of types coarser than float32; or the file's
        `tolerance`, see `lab.operators.declared.tolerance`. Integers, and floats that are only moved, must be exact.
        NaNs must be where the reference has them, and nowhere else.
        """
        del problem
        worst = (-1.0, "")
        for output in self.declaration.outputs:
            expected = reference[output.name]
            assert isinstance(expected, DeclaredExpected)  # noqa: S101 - made by `reference` or `as_expected`
            if self._ignores(output.name):
                continue
            compare = judging.compare_sorted if output.is_unordered else judging.compare
            comparison = compare(output.name, output.element, expected, outputs[output.name], _unwritten(output))
            worst = max(worst, comparison, key=lambda error: error[0])
        return max(worst[0], 0.0), 1.0, worst[1]

    @_of_types
    def doubts(self, problem: DeclaredProblem, inputs: Inputs, outputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return a sentence for each output with NaN from finite inputs; see `lab.operators.declared.doubts`."""
        ignored = {output.name for output in self.declaration.outputs if self._ignores(output.name)}
        return doubts(self.declaration, inputs, outputs, self._plan(problem).shapes, ignored=ignored)

    @_of_types
    def indexed_inputs(self, problem: DeclaredProblem, seed: int) -> IndexedInputs | None:
        """Return the arrays as functions of the index; None if one cannot be expressed that way.

        They are cached for the last problem.
        """
        return _indexed(self.declaration, _fields(problem), seed)

    @_of_types
    def representative(
        self, problem: DeclaredProblem, indices: Mapping[str, NDArray[np.int64]]
    ) -> Mapping[str, NDArray[np.int64]]:
        """Thin out the elements to those of one block that are quick to compute and not scattered.

        Unordered outputs are excluded: the position of an element depends on all blocks. GEMMs take long.
        """
        planned, references = self._plan(problem), dict(self.declaration.references)
        largest = max(map(math.prod, planned.shapes.values()), default=1)
        thinned_indices: dict[str, NDArray[np.int64]] = {}
        for name, elements in indices.items():
            shape, text = planned.shapes[name], references.get(name, "")
            size = math.prod(shape)
            if self.declaration.argument[name].is_unordered or self._ignores(name):
                continue
            if not text or is_file(text):
                thinned_indices[name] = elements
            elif multiplies(text):
                boxed = fewer(elements, shape, max(1, min(_FEW_BOXES, _LARGE_PRODUCT // size)))
                thinned_indices[name] = thinned(boxed, shape, _FEW_SIDES)
            else:
                max_elements = max(_FEW_ELEMENTS, _MOST_READ * size // largest)
                sample = np.unique(np.linspace(0, len(elements) - 1, min(max_elements, len(elements))).astype(np.int64))
                thinned_indices[name] = fewer(elements[sample], shape, _MOST_BOXES)
        return thinned_indices

    @_of_types
    def reference_at(
        self, problem: DeclaredProblem, inputs: IndexedInputs, indices: Mapping[str, NDArray[np.int64]]
    ) -> Mapping[str, Expected] | None:
        """Evaluate the references at selected elements; None if they cannot be, or if they reject the inputs.

        Outputs whose contents are not compared are left out. An element's bound is at least that on rounding errors,
        since only selected ones of the neighbours that a relative tolerance depends on are known.
        """
        planned, references = self._plan(problem), dict(self.declaration.references)
        indices = {name: elements for name, elements in indices.items() if not self._ignores(name)}
        if self._why_not_at(indices):
            return None
        arrays = {
            argument.name: NamedArray(inputs.arrays[argument.name], planned.shapes[argument.name], argument.element)
            for argument in self.declaration.arguments
            if argument.is_array and argument.direction is not Direction.OUT
        }
        tolerances, expected = dict(self.declaration.tolerances), dict[str, Expected]()
        for name, elements in indices.items():
            argument, rules = self.declaration.argument[name], self._rules(planned, name)
            numbers, shape = _numbers(planned, rules), planned.shapes[name]
            try:
                value = evaluate_at(
                    references[name], arrays, numbers, rules, shape=shape, elements=elements, cache=inputs.kept
                )
                expected[name] = judging.expected_at(
                    name, argument.element, elements.shape, value, tolerance=tolerances.get(name), rules=rules
                )
            except (UnrestrictedError, UserError):  # a reference that rejects its inputs says nothing about a kernel
                return None
        return expected

    @_of_types
    def why_not_restricted(self, problem: DeclaredProblem) -> str:
        """Explain why values were compared only at the small size."""
        del problem
        return self._why_not_at([output.name for output in self.declaration.outputs]) or (
            "its reference needs more elements than can be read"
        )

    def _why_not_at(self, outputs: Iterable[str]) -> str:
        """Explain why references are not evaluated at selected elements of outputs; empty if they can be."""
        references = dict(self.declaration.references)
        if self.declaration.function:
            return "its reference is a Python function"
        if not references:
            return "it has no reference"
        for name in outputs:
            if self.declaration.argument[name].is_unordered:
                return f"the elements of {name} may be in any order"
            if is_file(references[name]):
                return f"the reference of {name} is a file"
        return ""

    @_of_types
    def verify_at(
        self,
        problem: DeclaredProblem,
        reference: Mapping[str, Expected],
        indices: Mapping[str, NDArray[np.int64]],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare selected elements, as `verify` does for all elements."""
        planned, worst = self._plan(problem), (-1.0, "")
        for name, elements in indices.items():
            if self._ignores(name):
                continue
            expected = reference[name]
            assert isinstance(expected, DeclaredExpected)  # noqa: S101 - made by `reference_at`
            chosen = (elements, planned.shapes[name])
            element = self.declaration.argument[name].element
            comparison = judging.compare(name, element, expected, got[name], Unwritten.KEPT, chosen=chosen)
            worst = max(worst, comparison, key=lambda error: error[0])
        return max(worst[0], 0.0), 1.0, worst[1]

    @_of_types
    def elementwise(
        self, problem: DeclaredProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Return the reference in the buffers' order if all outputs are floats that the device compares."""
        del problem
        references: dict[str, Expected] = {}
        for output in self.declaration.outputs:
            if self._ignores(output.name) or output.is_unordered:
                return None
            expected = reference[output.name]
            laid = judging.laid_out(expected, _unwritten(output)) if isinstance(expected, DeclaredExpected) else None
            if output.dtype not in _COMPARED or laid is None:
                return None
            references[output.name] = laid
        return references, 1.0

    @_of_types
    def flops(self, problem: DeclaredProblem) -> int:
        """Return the work of the first metric if it counts operations; else 0."""
        planned, first = self._plan(problem), self._throughput
        counts = first is not None and first.kind is MetricKind.FLOPS
        return first.work(planned.names, self._array_bytes(planned)) if first is not None and counts else 0

    @_of_types
    def bytes_moved(self, problem: DeclaredProblem) -> int:
        """Return the work of the first metric if it counts bytes.

        Otherwise every array is counted: inputs and outputs once, arrays that are read and written twice.
        """
        planned, first = self._plan(problem), self._throughput
        if first is not None and first.kind is MetricKind.BYTES:
            return first.work(planned.names, self._array_bytes(planned))
        return self._array_bytes(planned)

    @_of_types
    def constant_bytes(self, problem: DeclaredProblem) -> Mapping[str, int]:
        """Return the size in bytes of each variable in constant memory, by name."""
        declaration, shapes = self.declaration, self._plan(problem).shapes
        return {
            name: int(np.prod(shapes.get(name, ()), dtype=np.int64)) * declaration.argument[name].element.dtype.itemsize
            for name in declaration.constants
        }

    @_of_types
    def fma_dtype(self, problem: DeclaredProblem) -> np.dtype[Any]:
        """Return float64 if an output has that precision, else float32, also the arithmetic of 16-bit results."""
        del problem
        return np.dtype(np.float64 if self._is_double() else np.float32)

    @_of_types
    def declared_rate(self, problem: DeclaredProblem) -> DeclaredRate | None:
        """Return the first metric as throughput if it counts neither operations nor bytes; else None."""
        planned, first = self._plan(problem), self._throughput
        if first is None or first.kind is not MetricKind.OTHER:
            return None
        return DeclaredRate(first.unit, first.amount(planned.names, self._array_bytes(planned)) / first.factor)

    @_of_types
    def declared_figures(self, problem: DeclaredProblem) -> tuple[DeclaredFigure, ...]:
        """Return every metric but the first, with the values of the names it reads."""
        names = self._plan(problem).names
        return tuple(metric.figure(names) for metric in self.declaration.metrics[1:])

    # ---- parts

    @_of_types
    def _check_metrics(self, problem: DeclaredProblem) -> None:
        """Reject throughput that is not a rate and metrics that are not numbers, before anything is built."""
        planned, first = self._plan(problem), self._throughput
        if first is not None:
            first.amount(planned.names, self._array_bytes(planned))
        for metric in self.declaration.metrics[1:]:
            metric.value(planned.names, 1.0)

    def _array_bytes(self, planned: ArgumentPlan) -> int:
        """Return the bytes of the arrays that are passed; arrays read and written count twice."""
        return sum(
            (2 if argument.direction is Direction.INOUT else 1)
            * int(np.prod(planned.shapes[argument.name], dtype=np.int64))
            * argument.element.dtype.itemsize
            for argument in self.declaration.passed
            if argument.is_array
        )

    @property
    def _throughput(self) -> Metric | None:
        return self.declaration.metrics[0] if self.declaration.metrics else None

    @_of_types
    def _plan(self, problem: DeclaredProblem) -> ArgumentPlan:
        return _planned(self.declaration, _fields(problem))

    def _is_double(self) -> bool:
        """Return whether the outputs are 64-bit floats; if they are integers, whether all float inputs are."""
        inexact = [output for output in self.declaration.outputs if not output.element.is_exact]
        inexact = inexact or [argument for argument in self.declaration.arguments if not argument.element.is_exact]
        return bool(inexact) and all(argument.element.arithmetic is DOUBLE for argument in inexact)

    def _rules(self, planned: ArgumentPlan, output: str) -> Rules:
        element = self.declaration.argument[output].element
        rules = planned.rules(self.declaration.argument[output])
        return Rules(DOUBLE, rules.most_elements) if element.is_exact and self._is_double() else rules

    def _held(self, planned: ArgumentPlan, output: str, path: str) -> Expected:
        """Return the expected values of an output from a file."""
        key, element = f"reference.{output}", self.declaration.argument[output].element
        array = array_in(Path(self.declaration.folder) / path_for(path.strip(), planned.names), key)
        bits = element.is_bits and array.dtype == element.dtype
        value = tracked(output, element.widened(np.asarray(array)) if bits else array, key)
        tolerance, rules = self._tolerance(planned, output), self._rules(planned, output)
        return judging.expected(output, element, planned.shapes[output], value, tolerance=tolerance, rules=rules)

    def _ignores(self, output: str) -> bool:
        """Return whether an output's contents are not compared."""
        tolerance = dict(self.declaration.tolerances).get(output)
        return tolerance is not None and tolerance.ignores_contents

    def _tolerance(self, planned: ArgumentPlan, output: str) -> Tolerance:
        longest = max((n for shape in planned.shapes.values() for n in shape), default=1)
        default = judging.unanalysed(self.declaration.argument[output].element, longest)
        return dict(self.declaration.tolerances).get(output, default)

    def _arrays(self, planned: ArgumentPlan, inputs: Inputs) -> Mapping[str, Given]:
        """Return the arrays initialised before the launch, in their shapes."""
        names: dict[str, Given] = {}
        for argument in self.declaration.arguments:
            if argument.is_array and argument.direction is not Direction.OUT:
                values = argument.element.widened(inputs.arrays[argument.name])
                names[argument.name] = Tracked(values.reshape(planned.shapes[argument.name]))
        return names

    @_of_types
    def available(self, problem: DeclaredProblem, inputs: Inputs) -> dict[str, object]:
        """Return the values available to a user's function: numbers and initialised arrays.

        Arrays have their shapes and are read-only; types NumPy lacks are converted to float64.
        """
        planned = self._plan(problem)
        available: dict[str, object] = dict(planned.names)
        for argument in self.declaration.arguments:
            if argument.is_array and argument.direction is not Direction.OUT:
                array = inputs.arrays[argument.name]
                array = argument.element.widened(array) if argument.element.is_bits else array.view()
                array = array.reshape(planned.shapes[argument.name])
                array.flags.writeable = False
                available[argument.name] = array
        return available

    def _called(self, problem: DeclaredProblem, inputs: Inputs) -> Mapping[str, Expected]:
        planned, available = self._plan(problem), self.available(problem, inputs)
        outputs = tuple(output.name for output in self.declaration.outputs)
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


def _another_shape(name: str, first: int, own: int) -> StandInMismatchError:
    return StandInMismatchError(
        f"{name} has another shape than the first variant's: not compared",
        code="mismatch",
        found=f"{first} elements in the first variant, {own} in this one",
        accepted="a reference, which fits every shape",
    )


def _numbers(planned: ArgumentPlan, rules: Rules) -> Mapping[str, Given]:
    """Return the numbers a reference can name; scalars as the kernel gets them, others rounded by its arithmetic."""
    exact = Rules(DOUBLE)
    return {
        name: value if isinstance(value, str) else (exact if name in planned.scalars else rules).literal(value)
        for name, value in planned.names.items()
    }


_Fields = tuple[tuple[str, type, Scalar], ...]


def _fields(problem: DeclaredProblem) -> _Fields:
    """Return a problem as a cache key, with types because 1, 1.0 and true are equal."""
    return tuple((key, type(value), value) for key, value in problem.items() if key != "name")


@lru_cache(maxsize=256)
def _planned(declaration: Declaration, fields: _Fields) -> ArgumentPlan:
    """Plan a problem; cached for the variants of a sweep."""
    return plan(declaration, {name: value for name, _, value in fields})


@lru_cache(maxsize=1)
def _indexed(declaration: Declaration, fields: _Fields, seed: int) -> IndexedInputs | None:
    """Return indexed inputs; cached with the drawn pages for the variants of a sweep."""
    return indexed_inputs(declaration, _planned(declaration, fields), seed)


@lru_cache(maxsize=64)
def _typed(operator: Declared, values: tuple[tuple[str, object], ...]) -> Declared:
    return Declared(operator.declaration.typed(dict(values)))


@lru_cache(maxsize=64)
def declared(reference: str) -> Declared:
    """Return the operator of a reference with the prefix `lab.operators.declared.declaration.PREFIX`.

    Raises:
        UserError: The reference was not made by `Declaration.reference`.
    """
    return Declared(Declaration.restored(reference))
