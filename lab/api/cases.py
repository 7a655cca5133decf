"""The concrete problems of an experiment, each with the files that hold its arrays."""

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
"""Elements of an array that are written at a time."""


@dataclass(frozen=True)
class ConcreteCase:
    """One problem with all that its arrays depend on.

    Attributes:
        problem: The problem, with the parameters that the declaration mentions.
        arguments: Its scalars and shapes.
        emulated: It is executed on the CPU only.
    """

    problem: DeclaredProblem
    arguments: ArgumentPlan
    emulated: bool

    @property
    def fields(self) -> Mapping[str, Scalar]:
        """The problem's fields without its title."""
        return {name: value for name, value in self.problem.items() if name != "name"}


def operator_of(experiment: Experiment) -> Declared:
    """Return the declared operator of an experiment on a plain kernel."""
    return declared(experiment.operator_reference)


def cases_of(experiment: Experiment) -> tuple[ConcreteCase, ...]:
    """List every problem that is measured, then those that are executed on the CPU and differ from all of these."""
    operator = operator_of(experiment)
    axes = experiment.kernels[0].axes
    names = operator.declaration.parameters
    settings = [dict(zip(names, values, strict=True)) for values in itertools.product(*(axes[name] for name in names))]
    found: dict[str, ConcreteCase] = {}
    for emulated, setting, case in itertools.product((False, True), settings, experiment.problems):
        values = case.emulate if emulated else case.values
        if values is not None:
            problem = operator.for_parameters(operator.problem(dict(values)), setting)
            fields = {name: value for name, value in problem.items() if name != "name"}
            made = ConcreteCase(problem, plan(operator.declaration, fields), emulated)
            found.setdefault(repr(sorted(fields.items())), made)
    return tuple(found.values())


def path_of(name: str, cases: Sequence[ConcreteCase], fields: Sequence[str] | None = None) -> str:
    """Return the path of an array's files, with those fields in braces by which the cases differ.

    Raises:
        UserError: Such a field holds text that cannot stand in a file's name.
    """
    differing = [one for one in cases[0].fields if len({repr(case.fields[one]) for case in cases}) > 1]
    chosen = [one for one in differing if fields is None or one in fields]
    for field, case in itertools.product(chosen, cases):
        if not re.fullmatch(r"[\w.+-]{1,60}", text_of(case.fields[field])):
            accepted = "letters, digits and . + - _, since each problem's arrays have a file of that name"
            raise UserError(
                "wrong value", code="wrong-value", key=f"problem.{field}", found=case.fields[field], accepted=accepted
            )
    return "-".join([name, *(f"{{{one}}}" for one in chosen)]) + ".npy"


def leading(
    name: str, array: NDArray[Any], cases: Sequence[ConcreteCase]
) -> Iterator[tuple[ConcreteCase, NDArray[Any]]]:
    """Give each case the leading part of an array that its shape asks for; the whole array fits the largest.

    Raises:
        UserError: The array fits none of the cases, or is too small for one.
    """
    shapes = [case.arguments.shapes[name] for case in cases]
    if array.shape not in shapes or any(
        len(shape) != array.ndim or any(a > b for a, b in zip(shape, array.shape, strict=True)) for shape in shapes
    ):
        wanted = max(shapes, key=np.prod)
        raise UserError(
            f"the array has shape {list(array.shape)}",
            code="mismatch",
            key=f"arguments.{name}",
            accepted=f"an array of shape {list(wanted)}; smaller problems get its leading part",
        )
    for case, shape in zip(cases, shapes, strict=True):
        yield case, array[tuple(slice(extent) for extent in shape)]


def save(folder: Folder, name: str, array: NDArray[Any]) -> None:
    """Write an array, unless the file holds it already."""
    if not folder.holds(name, _npy(array)):
        folder.write(name, _npy(array))


def _npy(array: NDArray[Any]) -> Iterator[bytes]:
    """Yield an array in NumPy's format, in parts, so that a large one is not copied as a whole."""
    values = np.ascontiguousarray(array).reshape(array.shape)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    yield head.getvalue()
    flat = values.reshape(-1)
    for start in range(0, flat.size, _ELEMENTS_A_PART):
        yield flat[start : start + _ELEMENTS_A_PART].tobytes()
