"""What the main process asks of an operator, and how it asks one of the user's own: in a worker with limits.

A Python file of the user's is never imported by the main process. Reading an experiment starts one worker, which
imports the file, checks every problem and counts its operations; each answer has a time limit. The worker ends when the
experiment is read. Stages that need inputs and references import the file in their own workers, under their own limits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pydantic import PrivateAttr

from lab.base import workers
from lab.base.errors import Location, UserError
from lab.base.executor import ProcessExecutor, WorkerLostError
from lab.base.expressions import Scalar
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Merit
from lab.operators.base import Offered, Problem
from lab.operators.builtin import is_file, operator
from lab.operators.checked import OperatorFault

SECONDS = 60.0
"""Longest time of one answer: importing the file, or checking one problem and counting its operations."""

VARIABLE = "LAB_OPERATOR_SECONDS"
"""Environment variable with another limit, in seconds."""


class Described(Protocol):
    """What is known of an operator where its inputs and references are not needed; every `Operator` is one."""

    @property
    def name(self) -> str:
        """See `Operator`."""

    @property
    def merit(self) -> Merit:
        """See `Operator`."""

    @property
    def has_reference(self) -> bool:
        """See `Operator`."""

    def problem(self, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - a Problem of its own type
        """Check the fields of a problem; see `Operator.problem`."""

    def offered(self, problem: Any) -> Offered:  # noqa: ANN401
        """Return what kernels may take; see `Operator.offered`."""

    def for_parameters(self, problem: Any, parameters: Mapping[str, Scalar]) -> Any:  # noqa: ANN401
        """Add what is needed of a variant's parameters; see `Operator.for_parameters`."""

    def flops(self, problem: Any) -> int:  # noqa: ANN401
        """Count operations; see `Operator.flops`."""

    def bytes_moved(self, problem: Any) -> int:  # noqa: ANN401
        """Count bytes; see `Operator.bytes_moved`."""

    def declared_rate(self, problem: Any) -> DeclaredRate | None:  # noqa: ANN401
        """Return what throughput is where `merit` does not say it; see `Operator.declared_rate`."""

    def declared_figures(self, problem: Any) -> tuple[DeclaredFigure, ...]:  # noqa: ANN401
        """Return further figures; see `Operator.declared_figures`."""

    def fma_dtype(self, problem: Any) -> np.dtype[Any]:  # noqa: ANN401
        """Return the arithmetic type; see `Operator.fma_dtype`."""


@dataclass(frozen=True, slots=True)
class ProblemCounts:
    """What an operator says of one problem.

    Attributes:
        flops: Operations.
        bytes_moved: Least bytes through DRAM.
        dtype: Arithmetic type by NumPy's name.
    """

    flops: int
    bytes_moved: int
    dtype: str


class PlainProblem(Problem):
    """A problem whose class only workers know: its fields, and what the operator says of it."""

    _values: dict[str, Scalar] = PrivateAttr(default_factory=dict)
    _counts: ProblemCounts = PrivateAttr(ProblemCounts(0, 0, "float32"))

    @classmethod
    def made(cls, fields: Mapping[str, Scalar], counts: ProblemCounts) -> PlainProblem:
        """Return the problem with these fields."""
        problem = cls()
        problem._values, problem._counts = dict(fields), counts
        return problem

    @property
    def counts(self) -> ProblemCounts:
        """What the operator says of it."""
        return self._counts

    @cached_property
    def plain(self) -> Mapping[str, Scalar]:
        """The mapping; see `Problem.plain`."""
        named: dict[str, Scalar] = {} if self.title is None else {"name": self.title}
        return {**named, **self._values}


@dataclass(frozen=True, slots=True)
class ForeignOperator:
    """An operator of the user's own, as the main process knows it.

    Attributes:
        name: See `Operator`.
        merit: See `Operator`.
        ask: Asks the worker for the problem with some fields.
        ask_offered: Asks the worker what kernels of a problem may take.
    """

    name: str
    merit: Merit
    ask: Callable[[Mapping[str, object]], PlainProblem]
    ask_offered: Callable[[Mapping[str, Scalar]], Offered]
    has_reference: bool = True

    def problem(self, values: Mapping[str, object]) -> PlainProblem:
        """Check the fields of a problem, in the worker.

        Raises:
            UserError: A field is unknown, missing or wrong.
            OperatorFault: The user's code raised, returned what it must not, or took too long.
        """
        return self.ask(values)

    def offered(self, problem: PlainProblem) -> Offered:
        """Return what kernels may take; the worker makes the problem's inputs for it.

        Raises:
            OperatorFault: The user's code raised, returned what it must not, or took too long.
        """
        return self.ask_offered(dict(problem))

    def for_parameters(self, problem: PlainProblem, parameters: Mapping[str, Scalar]) -> PlainProblem:  # noqa: ARG002
        """Return the problem; a variant's parameters are nothing to an operator of the user's own."""
        return problem

    def flops(self, problem: PlainProblem) -> int:
        """Return the operations that the worker counted."""
        return problem.counts.flops

    def bytes_moved(self, problem: PlainProblem) -> int:
        """Return the bytes that the worker counted."""
        return problem.counts.bytes_moved

    def declared_rate(self, problem: PlainProblem) -> None:
        """Return None: `merit` says what throughput is."""

    def declared_figures(self, problem: PlainProblem) -> tuple[DeclaredFigure, ...]:  # noqa: ARG002
        """Return none: only short experiment files declare figures."""
        return ()

    def fma_dtype(self, problem: PlainProblem) -> np.dtype[Any]:
        """Return the arithmetic type that the worker named."""
        return np.dtype(problem.counts.dtype)


@contextmanager
def opened(
    reference: str, base: Path | None = None, *, at: Location | None = None, trusted: bool = True
) -> Iterator[Described]:
    """Open an operator for the time in which an experiment is read.

    Args:
        reference: A built-in name, or ``path/to/file.py:Class``.
        base: Folder that a relative path starts from; the current one by default.
        at: Where the reference stands, for errors.
        trusted: A file of the user's may run.

    Raises:
        UserError: There is no such operator, its file cannot be used, or it is a file and not `trusted`.
        OperatorFault: The file took too long, or ended its worker.
    """
    if not is_file(reference):
        yield operator(reference, base, at=at)
        return
    if not trusted:
        raise UserError(
            "this operator is Python code, which this command does not run unasked",
            code="refused",
            at=at,
            key="operator",
            found=reference,
            accepted="a built-in operator",
            suggestion="read the file, then pass --run-operator, which runs it in a worker process with limits",
        )
    limit_s = _seconds()
    with ProcessExecutor(1, memory_of=workers.cores()) as executor:

        def ask(function: Callable[..., Any], doing: str, *arguments: object) -> Any:  # noqa: ANN401
            promised = executor.submit(function, reference, base or Path.cwd(), at, *arguments, timeout_s=limit_s)
            place = f"{at}: " if at else ""
            try:
                return promised.result()
            except TimeoutError as error:
                why = f"took longer than {limit_s:g} s {doing}; {VARIABLE} sets another limit"
                raise OperatorFault(f"{place}{reference} {why}") from error
            except MemoryError as error:
                raise OperatorFault(f"{place}{reference} needs more memory than its share {doing}") from error
            except WorkerLostError as error:
                why = f"ended its worker process, which was asked {doing}: {error}"
                raise OperatorFault(f"{place}{reference} {why}") from error

        def problem(values: Mapping[str, object]) -> PlainProblem:
            fields, counts = ask(_stated, "to check a problem and count its operations", dict(values))
            return PlainProblem.made(fields, counts)

        def offered(problem: Mapping[str, Scalar]) -> Offered:
            found: Offered = ask(_offered, "to make the inputs of a problem", problem)
            return found

        name, merit = ask(_described, "to import")
        yield ForeignOperator(name, merit, problem, offered)


def _seconds() -> float:
    """The time limit of one answer."""
    text = os.environ.get(VARIABLE, "")
    try:
        limit_s = float(text or SECONDS)
    except ValueError:
        limit_s = 0.0
    if not 0 < limit_s < float("inf"):
        raise UserError(
            f"{VARIABLE} is no time limit", code="wrong-value", found=text, accepted="seconds, a number > 0"
        )
    return limit_s


def _described(reference: str, base: Path, at: Location | None) -> tuple[str, Merit]:
    """Import an operator in the worker; its name and merit."""
    found = operator(reference, base, at=at)
    return found.name, found.merit


def _stated(
    reference: str, base: Path, at: Location | None, values: Mapping[str, object]
) -> tuple[dict[str, Scalar], ProblemCounts]:
    """Make a problem in the worker; its plain form, and what the operator says of it."""
    found = operator(reference, base, at=at)
    problem = found.problem(values)
    counts = ProblemCounts(found.flops(problem), found.bytes_moved(problem), str(found.fma_dtype(problem)))
    return dict(problem), counts


def _offered(reference: str, base: Path, at: Location | None, problem: Mapping[str, Scalar]) -> Offered:
    """Make the inputs of a problem in the worker; what kernels may take of them."""
    found = operator(reference, base, at=at)
    return found.offered(found.restored(problem))
