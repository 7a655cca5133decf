"""What an operator must provide.

An operator says *what* is computed: the fields of its problems, the inputs, the NumPy reference, how close an output
must come, and how many operations and bytes it takes at least. It knows nothing of kernels or GPUs. Buffers and scalars
are named; a template's `arguments` refer to these names.
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
"""Element types that NumPy lacks, and the type of the host arrays that hold their bits."""

MOST_ELEMENTS = 2**31 - 1
"""Kernels index with 32-bit integers, as BLAS does with `int`."""

Extent = Annotated[int, Field(ge=1, le=MOST_ELEMENTS)]
"""A problem's field that counts something."""


class Problem(Strict, Mapping[str, Scalar]):
    """One problem of an operator: a frozen model whose subclass declares the operator's fields.

    It is also a mapping, for those who know a field's name from a file only: from the name of each field to its value,
    defaults and derived fields included, fields without a value left out. ``dict(problem)`` is the plain form that is
    hashed, stored and sent to other processes. A field whose name is taken by a method has an alias, which is its name
    in files and in the mapping.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    """Fields without a value by default that ask for more than the operator does else: only templates that name such a
    field in their `problem` compute problems in which it has a value."""

    _title: str | None = PrivateAttr(None)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Check the fields of a problem and fill in defaults.

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
        """Return the problem whose plain form is `values`; derived fields are derived again."""
        if isinstance(values, cls):
            return values
        left_out = {"name", *cls.derived_names()} - cls.model_fields.keys()
        found = cls.of({name: value for name, value in values.items() if name not in left_out})
        return found.titled(str(values["name"])) if "name" in values and "name" in left_out else found

    @property
    def title(self) -> str | None:
        """What reports call this problem, `name` in files and in the mapping; None for one without a name."""
        return self._title

    def titled(self, title: str) -> Self:
        """Return the same problem with a name of its own."""
        named = self.model_copy()
        named.__dict__.pop("plain", None)  # cached without the name
        named._title = title  # noqa: SLF001 - its own class
        return named

    @classmethod
    def derived_names(cls) -> tuple[str, ...]:
        """Names of the fields that `derived` adds."""
        return ()

    @property
    def derived(self) -> Mapping[str, Scalar]:
        """Fields that follow from the declared ones, for templates and reports."""
        return {}

    @property
    def absent(self) -> frozenset[str]:
        """Names of the fields that such problems may have and this one lacks."""
        known = {field.alias or key for key, field in type(self).model_fields.items()}
        return frozenset({*known, *self.derived_names()} - self.plain.keys())

    @cached_property
    def plain(self) -> Mapping[str, Scalar]:
        """The mapping, in order: its name, declared fields, fields that vary with the problem, derived fields."""
        declared = {field.alias or key: getattr(self, key) for key, field in type(self).model_fields.items()}
        given = {key: value for key, value in declared.items() if value is not None}
        named: dict[str, Scalar] = {} if self._title is None else {"name": self._title}
        return {**named, **given, **(self.model_extra or {}), **self.derived}

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
"""Bytes of a problem whose arrays are made whole where they are not functions of the index."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What kernels may take as arguments, without the data: `Inputs` has that.

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
    """Everything a launch needs.

    Attributes:
        scalars: Name to Python number: dimensions, leading dimensions, factors.
        arrays: Name to host array, 1-D, in the memory layout that the kernel sees, the padding of leading dimensions
            included. Outputs are among them and hold what they hold before the launch.
        outputs: Names of the arrays that the kernel writes.
        required: Names of the outputs of which every element must be written, and none read before.
        scratch: Names of the arrays that the kernel may write and nobody compares, and whether each has contents before
            the launch.
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
        changed: Names of the arrays whose contents are of another kind than in the first set.
        contents: What these hold, in words.
    """

    inputs: Inputs
    changed: tuple[str, ...]
    contents: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The reference of one output.

    Attributes:
        values: What the output must hold, float64, in its logical shape.
        scale: What the error of each element is relative to, float64, the same shape, never 0.
    """

    values: Floats
    scale: Floats


class StandInMismatchError(UserError):
    """The variant whose outputs stand in for a reference has outputs of another size: they cannot be compared."""


class Operator(ABC, Generic[P]):
    """One thing to compute, for any problem of its type.

    Attributes:
        name: What reports call it: `gemm`.
        merit: What throughput counts: `Merit.TFLOPS`, or `Merit.BANDWIDTH` where moving the bytes is the work.
        problem_type: The class of its problems.
    """

    name: str
    merit: Merit
    problem_type: type[P]

    def problem(self, values: Mapping[str, object]) -> P:
        """Check the fields of a problem and fill in defaults; see `Problem.of`.

        Raises:
            UserError: A field is unknown, missing or wrong.
        """
        return self.problem_type.of(values)

    def restored(self, values: Mapping[str, Scalar]) -> P:
        """Return the problem whose plain form is `values`; see `Problem.restored`."""
        return self.problem_type.restored(values)

    @property
    def has_reference(self) -> bool:
        """Whether `reference` can say what the outputs must hold; if not, `as_expected` can after one launch."""
        return True

    @property
    def refuses_sizes(self) -> bool:
        """Return whether references refuse sizes that do not fit, as an inner one above its leading dimension."""
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
        """Make random normal inputs. Padding, and outputs that are only written, are filled with NaN."""

    def other_inputs(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        seed: int,  # noqa: ARG002
    ) -> tuple[OtherInputs, ...]:
        """Make sets of inputs that show mistakes which those of `inputs` hide; none by default.

        They suit kernels only in which no address and no loop depends on the integers of what is `changed`. A reference
        that refuses them says nothing of a kernel.
        """
        return ()

    def other_problem(self, problem: P) -> P | None:  # noqa: ARG002 - operators that override this use it
        """Return the problem with another value for each field whose value hides that a kernel ignores it.

        Such are factors of 1 or 0 and leading dimensions without padding. Kernels may refuse the problem by what their
        front matter requires. None where there is no such field.
        """
        return None

    def offered(self, problem: P) -> Offered:
        """Return what kernels may take. It follows from the inputs, so that a small problem is quick.

        An array that holds the bits of a type which NumPy lacks has the type of that kind which the problem names.
        """
        made = self.inputs(problem, 0)
        named = {STORED_AS[word]: word for word in map(str, problem.values()) if word in STORED_AS}
        types = {name: array.dtype.name for name, array in made.arrays.items()}
        arrays = {name: named.get(kind, kind) for name, kind in types.items()}
        return Offered(dict(made.scalars), arrays, tuple(made.outputs))

    @abstractmethod
    def reference(self, problem: P, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute in float64 what each output must hold. Costly for large problems: done once a problem."""

    def as_expected(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        outputs: Mapping[str, Array],  # noqa: ARG002
    ) -> Mapping[str, Expected]:
        """Take one variant's outputs for what the others must hold.

        Raises:
            StandInMismatchError: The variant's outputs have another size or type than this problem's.
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
        """Return sentences that say why outputs that passed `verify` are doubtful; none by default.

        Args:
            problem: The problem.
            inputs: What the launch was given, unchanged by it.
            outputs: What the kernel left.
        """
        return ()

    def elementwise(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        reference: Mapping[str, Expected],  # noqa: ARG002
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Lay the reference out like the outputs' buffers, so that the GPU can compare them where they are.

        Returns:
            Expected values and a tolerance, where `verify` finds ``max |output - values| / scale`` in float64. `values`
            and `scale` are 1-D, one element for each of the buffer's; `scale` is NaN where the buffer must keep its
            NaN, or of integers its bytes of `POISON_BYTE`. Of complex elements each part is one, the real one first.
            An output of uint16 holds bits of bfloat16. None where `verify` compares in another way.
        """
        return None

    def indexed_inputs(self, problem: P, seed: int) -> IndexedInputs | None:
        """Return inputs as functions of the index, for problems of any size; None where that takes too much memory.

        By default they are those of `inputs`, for problems of at most a gibibyte; of the same problem, the same ones.
        """
        if self.bytes_moved(problem) > _MOST_WHOLE_BYTES:
            return None
        return _whole_inputs(self, problem, seed)

    def representative(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        wanted: Mapping[str, NDArray[np.int64]],
    ) -> Mapping[str, NDArray[np.int64]]:
        """Return those of the chosen elements whose references are worth their price; all by default."""
        return wanted

    def reference_at(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        inputs: IndexedInputs,  # noqa: ARG002
        wanted: Mapping[str, NDArray[np.int64]],  # noqa: ARG002
    ) -> Mapping[str, Expected] | None:
        """Compute what chosen elements of the outputs must hold.

        Args:
            problem: The problem.
            inputs: Of `indexed_inputs`.
            wanted: Of each output, (count,) indices into its buffer, ascending.

        Returns:
            (count,) values for each output; None where all of a reference would have to be computed.
        """
        return None

    def why_not_restricted(self, problem: P) -> str:  # noqa: ARG002 - operators that override this use it
        """Say why `reference_at` returns None."""
        return "its reference is only computed as a whole"

    def verify_at(
        self,
        problem: P,  # noqa: ARG002 - operators that override this use it
        reference: Mapping[str, Expected],  # noqa: ARG002
        wanted: Mapping[str, NDArray[np.int64]],  # noqa: ARG002
        got: Mapping[str, Array],  # noqa: ARG002
    ) -> tuple[float, float, str]:
        """Compare chosen elements with what `reference_at` returns, as `verify` does all.

        Raises:
            UserError: The operator has no such reference.
        """
        raise UserError(
            "the operator has no reference of chosen elements", code="out-of-range", key="operator", found=self.name
        )

    @abstractmethod
    def flops(self, problem: P) -> int:
        """Count the floating-point operations of the problem, an fma as two; 0 where throughput counts bytes."""

    @abstractmethod
    def bytes_moved(self, problem: P) -> int:
        """Count the least bytes through DRAM: each input read once, each output written once."""

    def declared_rate(self, problem: P) -> DeclaredRate | None:  # noqa: ARG002 - operators that override this use it
        """Return what throughput is where it counts neither operations nor bytes; None where `merit` says it.

        `merit` is then `Merit.BANDWIDTH`: what limits such a kernel is taken to be its traffic.
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
    made = computed.inputs(problem, seed)
    arrays = {name: WholeArray(array) for name, array in made.arrays.items()}
    return IndexedInputs(made.scalars, arrays, made.outputs, made.required, made.scratch)
