"""The concrete problems of an experiment, each with the files of its arrays."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.folder import Folder
from lab.base.functions import text_of
from lab.experiment.model import Experiment
from lab.operators.declared.inputs import ArgumentPlan, plan
from lab.operators.declared.operator import Declared, DeclaredProblem, declared

_ELEMENTS_A_PART: Final = 1 << 20
"""Number of elements of an array that are written at once."""


@dataclass(frozen=True)
class ConcreteCase:
    """A problem with everything that its arrays depend on.

    Attributes:
        problem: The problem, with the parameters that the declaration uses.
        arguments: Its scalars and shapes.
        emulated: It is only emulated.
    """

    problem: DeclaredProblem
    arguments: ArgumentPlan
    emulated: bool

    @property
    def fields(self) -> Mapping[str, Scalar]:
        """The problem's fields without its title."""
        return {name: value for name, value in self.problem.items() if name != "name"}


def operator_of(experiment: Experiment) -> Declared:
    """Return the declared operator of a plain-kernel experiment."""
    return declared(experiment.operator_reference)


def cases_of(experiment: Experiment) -> tuple[ConcreteCase, ...]:
    """Return every problem that is measured, then those that are only emulated and differ from all of these."""
    operator = operator_of(experiment)
    axes = experiment.kernels[0].axes
    names = operator.declaration.parameters
    settings = [dict(zip(names, values, strict=True)) for values in itertools.product(*(axes[name] for name in names))]
    distinct: dict[str, ConcreteCase] = {}
    for emulated, setting, case in itertools.product((False, True), settings, experiment.problems):
        values = case.emulate if emulated else case.values
        if values is not None:
            problem = operator.for_parameters(operator.problem(dict(values)), setting)
            fields = {name: value for name, value in problem.items() if name != "name"}
            concrete = ConcreteCase(problem, plan(operator.declaration, fields), emulated)
            distinct.setdefault(repr(sorted(fields.items())), concrete)
    return tuple(distinct.values())


def path_of(name: str, cases: Sequence[ConcreteCase], fields: Sequence[str] | None = None) -> str:
    """Return the path of an array's files, with the fields by which the cases differ in braces.

    Raises:
        UserError: Such a field holds text that is not allowed in a file name.
    """
    differing = [field for field in cases[0].fields if len({repr(case.fields[field]) for case in cases}) > 1]
    chosen = [field for field in differing if fields is None or field in fields]
    for field, case in itertools.product(chosen, cases):
        if not re.fullmatch(r"[\w.+-]{1,60}", text_of(case.fields[field])):
            accepted = "letters, digits and . + - _, since each problem's arrays have a file of that name"
            raise UserError(
                "wrong value", code="wrong-value", key=f"problem.{field}", found=case.fields[field], accepted=accepted
            )
    return "-".join([name, *(f"{{{field}}}" for field in chosen)]) + ".npy"


def leading(
    name: str, array: NDArray[Any], cases: Sequence[ConcreteCase]
) -> Iterator[tuple[ConcreteCase, NDArray[Any]]]:
    """Yield each case with the leading part of an array that its shape requires; the largest case gets all of it.

    Raises:
        UserError: The array has the shape of none of the cases, or is too small for one.
    """
    shapes = [case.arguments.shapes[name] for case in cases]
    if array.shape not in shapes or any(
        len(shape) != array.ndim or any(a > b for a, b in zip(shape, array.shape, strict=True)) for shape in shapes
    ):
        largest = max(shapes, key=np.prod)
        raise UserError(
            f"the array has shape {list(array.shape)}",
            code="mismatch",
            key=f"arguments.{name}",
            accepted=f"an array of shape {list(largest)}; smaller problems use its leading part",
        )
    for case, shape in zip(cases, shapes, strict=True):
        yield case, array[tuple(slice(extent) for extent in shape)]


def save(folder: Folder, name: str, array: NDArray[Any]) -> None:
    """Write an array, unless the file already holds it."""
    if not folder.holds(name, _npy(array)):
        folder.write(name, _npy(array))


def _npy(array: NDArray[Any]) -> Iterator[bytes]:
    """Yield an array in NumPy's format in chunks, to avoid a copy of a large array."""
    values = np.ascontiguousarray(array).reshape(array.shape)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    yield head.getvalue()
    flat = values.reshape(-1)
    for start in range(0, flat.size, _ELEMENTS_A_PART):
        yield flat[start : start + _ELEMENTS_A_PART].tobytes()
