"""User-defined operators for the main process: queried in a worker process with limits.

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
"""Time limit of one query: importing the file, or checking one problem and counting its operations."""

VARIABLE = "LAB_OPERATOR_SECONDS"
"""Environment variable that overrides the limit, in seconds."""


class Described(Protocol):
    """The part of an operator needed without inputs or references; every `Operator` conforms."""

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
        """Return the arguments available to kernels; see `Operator.offered`."""

    def for_parameters(self, problem: Any, parameters: Mapping[str, Scalar]) -> Any:  # noqa: ANN401
        """Return the problem for a variant's parameters; see `Operator.for_parameters`."""

    def flops(self, problem: Any) -> int:  # noqa: ANN401
        """Count operations; see `Operator.flops`."""

    def bytes_moved(self, problem: Any) -> int:  # noqa: ANN401
        """Count bytes; see `Operator.bytes_moved`."""

    def declared_rate(self, problem: Any) -> DeclaredRate | None:  # noqa: ANN401
        """Return the declared throughput metric; see `Operator.declared_rate`."""

    def declared_figures(self, problem: Any) -> tuple[DeclaredFigure, ...]:  # noqa: ANN401
        """Return further figures; see `Operator.declared_figures`."""

    def fma_dtype(self, problem: Any) -> np.dtype[Any]:  # noqa: ANN401
        """Return the arithmetic type; see `Operator.fma_dtype`."""


@dataclass(frozen=True, slots=True)
class ProblemCounts:
    """The operations, bytes and arithmetic type of one problem.

    Attributes:
        flops: Operations.
        bytes_moved: Least bytes through DRAM.
        dtype: Arithmetic type by NumPy's name.
    """

    flops: int
    bytes_moved: int
    dtype: str


class PlainProblem(Problem):
    """A problem whose class exists only in workers: its fields and counts."""

    _values: dict[str, Scalar] = PrivateAttr(default_factory=dict)
    _counts: ProblemCounts = PrivateAttr(ProblemCounts(0, 0, "float32"))

    @classmethod
    def made(cls, fields: Mapping[str, Scalar], counts: ProblemCounts) -> PlainProblem:
        """Return the problem with these fields and counts."""
        problem = cls()
        problem._values, problem._counts = dict(fields), counts
        return problem

    @property
    def counts(self) -> ProblemCounts:
        """The operator's counts for this problem."""
        return self._counts

    @cached_property
    def plain(self) -> Mapping[str, Scalar]:
        """The mapping; see `Problem.plain`."""
        title: dict[str, Scalar] = {} if self.title is None else {"name": self.title}
        return {**title, **self._values}


@dataclass(frozen=True, slots=True)
class ForeignOperator:
    """The main process's view of a user-defined operator.

    Attributes:
        name: See `Operator`.
        merit: See `Operator`.
        ask: Asks the worker for the problem with some fields.
        ask_offered: Asks the worker for the arguments available to kernels of a problem.
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
        """Return the arguments available to kernels; the worker makes the problem's inputs for it.

        Raises:
            OperatorFault: The user's code raised, returned what it must not, or took too long.
        """
        return self.ask_offered(dict(problem))

    def for_parameters(self, problem: PlainProblem, parameters: Mapping[str, Scalar]) -> PlainProblem:  # noqa: ARG002
        """Return the problem unchanged: user-defined operators do not depend on a variant's parameters."""
        return problem

    def flops(self, problem: PlainProblem) -> int:
        """Return the operations the worker counted."""
        return problem.counts.flops

    def bytes_moved(self, problem: PlainProblem) -> int:
        """Return the bytes the worker counted."""
        return problem.counts.bytes_moved

    def declared_rate(self, problem: PlainProblem) -> None:
        """Return None: `merit` defines throughput."""

    def declared_figures(self, problem: PlainProblem) -> tuple[DeclaredFigure, ...]:  # noqa: ARG002
        """Return no metrics: only short experiment files declare them."""
        return ()

    def fma_dtype(self, problem: PlainProblem) -> np.dtype[Any]:
        """Return the arithmetic type the worker named."""
        return np.dtype(problem.counts.dtype)


@contextmanager
def opened(
    reference: str, base: Path | None = None, *, at: Location | None = None, trusted: bool = True
) -> Iterator[Described]:
    """Open an operator while an experiment is read.

    Args:
        reference: A built-in name, or ``path/to/file.py:Class``.
        base: Folder that a relative path starts from; the current one by default.
        at: Location of the reference, for errors.
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
            "this operator is Python code, which this command only runs on request",
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
            future = executor.submit(function, reference, base or Path.cwd(), at, *arguments, timeout_s=limit_s)
            place = f"{at}: " if at else ""
            try:
                return future.result()
            except TimeoutError as error:
                reason = f"took longer than {limit_s:g} s {doing}; {VARIABLE} sets another limit"
                raise OperatorFault(f"{place}{reference} {reason}") from error
            except MemoryError as error:
                raise OperatorFault(f"{place}{reference} needs more memory than its share {doing}") from error
            except WorkerLostError as error:
                reason = f"ended its worker process, which was asked {doing}: {error}"
                raise OperatorFault(f"{place}{reference} {reason}") from error

        def problem(values: Mapping[str, object]) -> PlainProblem:
            fields, counts = ask(_stated, "to check a problem and count its operations", dict(values))
            return PlainProblem.made(fields, counts)

        def offered(problem: Mapping[str, Scalar]) -> Offered:
            arguments: Offered = ask(_offered, "to make the inputs of a problem", problem)
            return arguments

        name, merit = ask(_described, "to import")
        yield ForeignOperator(name, merit, problem, offered)


def _seconds() -> float:
    """Return the time limit of one query."""
    text = os.environ.get(VARIABLE, "")
    try:
        limit_s = float(text or SECONDS)
    except ValueError:
        limit_s = 0.0
    if not 0 < limit_s < float("inf"):
        raise UserError(
            f"{VARIABLE} is not a time limit", code="wrong-value", found=text, accepted="seconds, a number > 0"
        )
    return limit_s


def _described(reference: str, base: Path, at: Location | None) -> tuple[str, Merit]:
    """Import an operator in the worker; return its name and merit."""
    loaded = operator(reference, base, at=at)
    return loaded.name, loaded.merit


def _stated(
    reference: str, base: Path, at: Location | None, values: Mapping[str, object]
) -> tuple[dict[str, Scalar], ProblemCounts]:
    """Make a problem in the worker; return its plain form and counts."""
    loaded = operator(reference, base, at=at)
    problem = loaded.problem(values)
    counts = ProblemCounts(loaded.flops(problem), loaded.bytes_moved(problem), str(loaded.fma_dtype(problem)))
    return dict(problem), counts


def _offered(reference: str, base: Path, at: Location | None, problem: Mapping[str, Scalar]) -> Offered:
    """Make the inputs of a problem in the worker; return the arguments available to kernels."""
    loaded = operator(reference, base, at=at)
    return loaded.offered(loaded.restored(problem))
