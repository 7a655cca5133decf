"""The operator interface: problems, inputs, reference, tolerance and operation counts.

An operator defines *what* is computed: the fields of its problems, the inputs, the NumPy reference, the tolerance, and
the minimum number of operations and bytes. It knows nothing of kernels or GPUs. Buffers and scalars are named; a
template's `arguments` refer to these names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, ValidationError

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.validation import Strict, refusal
from lab.base.yamlfile import dotted
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Merit
from lab.operators.indexed import IndexedInputs, WholeArray

Array = NDArray[np.generic]
"""A host array; its problem says which element type it has."""

Floats = NDArray[np.float64]

STORED_AS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Element types NumPy lacks, mapped to the host type that holds their bits."""

MOST_ELEMENTS = 2**31 - 1
"""The largest number of elements: kernels index with 32-bit integers, as BLAS does with `int`."""

Extent = Annotated[int, Field(ge=1, le=MOST_ELEMENTS)]
"""A size field of a problem, at least 1."""


class Problem(Strict, Mapping[str, Scalar]):
    """One problem of an operator: a frozen model whose subclass declares the operator's fields.

    It is also a mapping from the name of each field to its value, for callers that know field names only from a file.
    Defaults and derived fields are included, fields without a value are not.
    ``dict(problem)`` is the plain form that is
    hashed, stored and sent to other processes. A field whose name is taken by a method has an alias, which is its name
    in files and in the mapping.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    """Optional fields that extend the operator: only templates that name one in their `problem` support it."""
    number_lists: ClassVar[tuple[str, ...]] = ()
    """Fields of several numbers, as text `0,3,2`. A file may list the numbers of one value, or list such lists."""

    _title: str | None = PrivateAttr(None)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Validate a problem's fields and fill in defaults.

        Raises:
            UserError: An unknown or missing field, a wrong type, or a value out of range. `key` is the field's,
                ``problem.m``.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            path, refused = refusal(error, cls)
            raise refused.placed(None, dotted(("problem", *path))) from error

    @classmethod
    def restored(cls, values: Mapping[str, Scalar]) -> Self:
        """Rebuild a problem from its plain form; derived fields are computed again."""
        if isinstance(values, cls):
            return values
        left_out = {"name", *cls.derived_names()} - cls.model_fields.keys()
        problem = cls.of({name: value for name, value in values.items() if name not in left_out})
        return problem.titled(str(values["name"])) if "name" in values and "name" in left_out else problem

    @property
    def title(self) -> str | None:
        """The problem's name in reports (`name` in files and in the mapping), or None."""
        return self._title

    def titled(self, title: str) -> Self:
        """Return a copy of the problem with this name."""
        copy = self.model_copy()
        copy.__dict__.pop("plain", None)  # cached without the name
        copy._title = title  # noqa: SLF001 - its own class
        return copy

    @classmethod
    def derived_names(cls) -> tuple[str, ...]:
        """Return the names of the fields `derived` adds."""
        return ()

    @property
    def derived(self) -> Mapping[str, Scalar]:
        """Fields derived from the declared ones, for templates and reports."""
        return {}

    @property
    def absent(self) -> frozenset[str]:
        """Names of possible fields, declared or derived, that this problem lacks."""
        declared = {field.alias or key for key, field in type(self).model_fields.items()}
        return frozenset({*declared, *self.derived_names()} - self.plain.keys())

    @cached_property
    def plain(self) -> Mapping[str, Scalar]:
        """The plain mapping, in order: name, declared fields, fields that vary with the problem, derived fields."""
        declared = {field.alias or key: getattr(self, key) for key, field in type(self).model_fields.items()}
        present = {key: value for key, value in declared.items() if value is not None}
        title: dict[str, Scalar] = {} if self._title is None else {"name": self._title}
        return {**title, **present, **(self.model_extra or {}), **self.derived}

    def __getitem__(self, name: str) -> Scalar:
        return self.plain[name]

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)

    def __eq__(self, other: object) -> bool:
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(frozenset(self.plain.items()))


P = TypeVar("P", bound=Problem)

_MOST_WHOLE_BYTES = 1 << 30
"""Largest problem in bytes whose arrays are materialised when they are not functions of the index."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The arguments available to kernels, by name and type; `Inputs` holds their data.

    Attributes:
        scalars: Name to number.
        arrays: Name to element type.
        outputs: Names of the arrays that kernels write.
    """

    scalars: Mapping[str, Scalar]
    arrays: Mapping[str, str]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a launch.

    Attributes:
        scalars: Name to Python number: dimensions, leading dimensions, factors.
        arrays: Name to host array, 1-D, in the memory layout that the kernel sees, the padding of leading dimensions
            included. They include the outputs, with their contents before the launch.
        outputs: Names of the arrays that the kernel writes.
        required: Names of the outputs of which every element must be written, and none read before.
        scratch: Names of the arrays that the kernel may write and that are not compared, and whether each is
            initialised before the launch.
    """

    scalars: Mapping[str, Scalar]
    arrays: Mapping[str, Array]
    outputs: tuple[str, ...]
    required: tuple[str, ...] = ()
    scratch: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherInputs:
    """Another set of inputs for the same launch.

    Attributes:
        inputs: The inputs.
        changed: Names of the arrays whose contents differ in kind from the first set.
        contents: A description of their contents.
    """

    inputs: Inputs
    changed: tuple[str, ...]
    contents: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected values of one output, with the scale of their errors.

    Attributes:
        values: Expected values, float64, in the output's logical shape.
        scale: Divisor of each element's error, float64, the same shape, never 0.
    """

    values: Floats
    scale: Floats


class StandInMismatchError(UserError):
    """The outputs that stand in for a reference differ in size from this problem's and cannot be compared."""


class Operator(ABC, Generic[P]):
    """A computation, defined for any problem of its type.

    Attributes:
        name: Its name in reports: `gemm`.
        merit: The throughput metric: `Merit.TFLOPS`, or `Merit.BANDWIDTH` for memory-bound operators.
        problem_type: The class of its problems.
    """

    name: str
    merit: Merit
    problem_type: type[P]

    def problem(self, values: Mapping[str, object]) -> P:
        """Validate a problem's fields and fill in defaults; see `Problem.of`.

        Raises:
            UserError: A field is unknown, missing or wrong.
        """
        return self.problem_type.of(values)

    def restored(self, values: Mapping[str, Scalar]) -> P:
        """Rebuild a problem from its plain form; see `Problem.restored`."""
        return self.problem_type.restored(values)

    @property
    def has_reference(self) -> bool:
        """Return whether there is a reference; without one, `as_expected` uses a variant's outputs."""
        return True

    @property
    def refuses_sizes(self) -> bool:
        """Return whether the reference rejects sizes that do not fit, such as rows above the leading dimension."""
        return True

    def for_parameters(
        self,
        problem: P,
        parameters: Mapping[str, Scalar],  # noqa: ARG002 - operators that override this use it
    ) -> P:
        """Return the problem as a variant with these parameters solves it.

        An operator whose shapes, values or references depend on parameters adds those to the problem as fields.
        """
        return problem

    @abstractmethod
    def inputs(self, problem: P, seed: int) -> Inputs:
        """Make random normal inputs; padding and write-only outputs are filled with NaN."""

    def other_inputs(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        seed: int,  # noqa: ARG002
    ) -> tuple[OtherInputs, ...]:
        """Make further inputs that expose errors which those of `inputs` hide; none by default.

        They only suit kernels in which no address and no loop depends on integers of the `changed` arrays. If the
        reference rejects them, nothing follows for the kernel.
        """
        return ()

    def other_problem(self, problem: P) -> P | None:  # noqa: ARG002 - operators that override this use it
        """Return the problem without neutral field values, which hide that a kernel ignores a field.

        Neutral values are factors of 1 or 0 and leading dimensions without padding. A kernel's front matter may rule
        the problem out. Return None if no field has a neutral value.
        """
        return None

    def offered(self, problem: P) -> Offered:
        """Return the arguments available to kernels. Use a small problem: its inputs are made.

        An array with the bits of a type NumPy lacks gets the type of that storage named in the problem.
        """
        inputs = self.inputs(problem, 0)
        bit_types = {STORED_AS[word]: word for word in map(str, problem.values()) if word in STORED_AS}
        types = {name: array.dtype.name for name, array in inputs.arrays.items()}
        arrays = {name: bit_types.get(kind, kind) for name, kind in types.items()}
        return Offered(dict(inputs.scalars), arrays, tuple(inputs.outputs))

    @abstractmethod
    def reference(self, problem: P, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute the expected outputs in float64. Expensive for large problems: done once per problem."""

    def as_expected(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        outputs: Mapping[str, Array],  # noqa: ARG002
        first: P | None = None,  # noqa: ARG002
    ) -> Mapping[str, Expected]:
        """Use one variant's outputs as the expected values of the others.

        Args:
            problem: The problem of the variant to compare.
            outputs: The outputs of the first variant.
            first: Its problem; None for the same one.

        Raises:
            StandInMismatchError: The variant's arrays have another size or type than this problem's.
            UserError: The operator has a reference of its own.
        """
        raise UserError("the operator has a reference of its own", code="conflict", key="operator", found=self.name)

    @abstractmethod
    def verify(
        self, problem: P, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare outputs with the reference.

        Returns:
            The largest error, the tolerance, and the worst element in words; see `lab.measured.timing.Verification`.
            The outputs pass when ``max_error <= tolerance``, so NaN fails.
        """

    def doubts(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        inputs: Inputs,  # noqa: ARG002
        outputs: Mapping[str, Array],  # noqa: ARG002
    ) -> tuple[str, ...]:
        """Return reasons to doubt outputs that passed `verify`, as sentences; none by default.

        Args:
            problem: The problem.
            inputs: The inputs of the launch, unmodified.
            outputs: The kernel's outputs.
        """
        return ()

    def elementwise(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        reference: Mapping[str, Expected],  # noqa: ARG002
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Lay the reference out like the outputs' buffers, so that the GPU can compare them in place.

        Returns:
            Expected values and a tolerance, where `verify` finds ``max |output - values| / scale`` in float64. `values`
            and `scale` are 1-D, one element for each of the buffer's; `scale` is NaN where the buffer must keep its
            NaN (integers: its bytes of `POISON_BYTE`). A complex element counts as two, the real part first. An output
            of uint16 holds bits of bfloat16. None where `verify` compares in another way.
        """
        return None

    def indexed_inputs(self, problem: P, seed: int) -> IndexedInputs | None:
        """Return inputs as functions of the index, for problems of any size; None where that takes too much memory.

        By default they are those of `inputs`, for problems of at most 1 GiB, cached per problem.
        """
        if self.bytes_moved(problem) > _MOST_WHOLE_BYTES:
            return None
        return _whole_inputs(self, problem, seed)

    def representative(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        indices: Mapping[str, NDArray[np.int64]],
    ) -> Mapping[str, NDArray[np.int64]]:
        """Thin out the selected elements to those whose reference is worth computing; all by default."""
        return indices

    def reference_at(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        inputs: IndexedInputs,  # noqa: ARG002
        indices: Mapping[str, NDArray[np.int64]],  # noqa: ARG002
    ) -> Mapping[str, Expected] | None:
        """Compute the expected values of selected output elements.

        Args:
            problem: The problem.
            inputs: Of `indexed_inputs`.
            indices: For each output, (count,) indices into its buffer, ascending.

        Returns:
            (count,) values for each output; None where all of a reference would have to be computed.
        """
        return None

    def why_not_restricted(self, problem: P) -> str:  # noqa: ARG002 - operators that override this use it
        """Explain why `reference_at` returns None."""
        return "its reference can only be computed as a whole"

    def verify_at(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        reference: Mapping[str, Expected],  # noqa: ARG002
        indices: Mapping[str, NDArray[np.int64]],  # noqa: ARG002
        got: Mapping[str, Array],  # noqa: ARG002
    ) -> tuple[float, float, str]:
        """Compare selected elements with the values of `reference_at`, as `verify` does for all elements.

        Raises:
            UserError: The operator has no such reference.
        """
        raise UserError(
            "the operator has no reference for selected elements", code="out-of-range", key="operator", found=self.name
        )

    @abstractmethod
    def flops(self, problem: P) -> int:
        """Count the floating-point operations of the problem, an fma as two; 0 where throughput counts bytes."""

    @abstractmethod
    def bytes_moved(self, problem: P) -> int:
        """Count the minimum DRAM traffic in bytes: each input read once, each output written once."""

    def declared_rate(self, problem: P) -> DeclaredRate | None:  # noqa: ARG002 - operators that override this use it
        """Return the declared throughput metric, or None if `merit` defines throughput.

        `merit` is then `Merit.BANDWIDTH`: such a kernel is assumed to be limited by memory traffic.
        """
        return None

    def declared_figures(self, problem: P) -> tuple[DeclaredFigure, ...]:  # noqa: ARG002
        """Return further figures of a launch, for tables; none by default."""
        return ()

    @abstractmethod
    def fma_dtype(self, problem: P) -> np.dtype[Any]:
        """Return the arithmetic type that decides which peak applies: float32, float64 or float16."""


@lru_cache(maxsize=2)  # the variants of a sweep share a problem
def _whole_inputs(computed: Operator[Any], problem: Problem, seed: int) -> IndexedInputs:
    inputs = computed.inputs(problem, seed)
    arrays = {name: WholeArray(array) for name, array in inputs.arrays.items()}
    return IndexedInputs(inputs.scalars, arrays, inputs.outputs, inputs.required, inputs.scratch)
