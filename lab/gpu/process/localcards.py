"""The GPUs of this machine, each with a worker process and a job queue."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from lab.base.errors import MissingToolError
from lab.gpu.process.cards import Card, Ran, Surveyed
from lab.gpu.process.job import Job, JobResult, JobStage, Policy
from lab.gpu.process.line import GpuLine
from lab.gpu.process.session import GpuSession
from lab.gpu.process.worker import cuda_backend
from lab.gpu.timing.survey import Survey, SurveyPoint

STRIKES: Final = 2
"""Hangs on a card, each of a job that then runs elsewhere, after which the card is lost; one may be a kernel's race."""

SWITCH_S: Final = 0.0005
"""Thread switch interval in seconds: Python's default of 5 ms leaves a card idle for as long after every job. With two
simulated cards, jobs of 20 ms and 7 ms of main-thread work per job, a job took 13.0 ms with 5 ms and 11.1 with this."""


def open_card(card: Card) -> GpuSession:
    """Return a session whose workers see this card alone."""
    return GpuSession(partial(cuda_backend, card.visible))


@dataclass(eq=False, slots=True)
class _Order:
    """A job or survey for a card.

    Attributes:
        ask: Runs it on a session.
        told: Builds the caller's answer from the result of `ask`, the card's id and the worker's number.
        silent: Returns the names of what hung; empty if nothing did.
        promised: The future that the caller waits for.
        card: Id of the requested card, or None.
        hung: Ids of the cards on which it hung.
    """

    ask: Callable[[GpuSession], Any]
    told: Callable[[Any, str, int], Any]
    silent: Callable[[Any], frozenset[str]]
    promised: Future[Any] = field(default_factory=Future)
    card: str | None = None
    hung: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Seat:
    """A card in the pool.

    Attributes:
        card: The card.
        line: Its queue.
        pending: Orders in the queue.
        strikes: Orders that hung here and ran elsewhere.
        lost: Whether it has left the pool.
    """

    card: Card
    line: GpuLine
    pending: int = 0
    strikes: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of an order.

    Attributes:
        value: The result of `_Order.ask`.
        worker: Number of the worker.
        lost: Why no new worker starts after the order lost the old one; empty if one does.
    """

    value: Any
    worker: int
    lost: str


class LocalCards:
    """The cards of this machine; see `lab.gpu.process.cards.Cards`.

    Attributes:
        notes: See `Cards.notes`.
    """

    def __init__(self, cards: Sequence[Card], session: Callable[[Card], GpuSession] = open_card) -> None:
        """Start a worker on each card, all in parallel.

        Args:
            cards: The cards, of one model.
            session: Opens a session on a card.
        """
        self._lock, self._interval = threading.RLock(), sys.getswitchinterval()
        self._all = [_Seat(card, GpuLine(session(card))) for card in cards]
        self._closed = False
        self._hanging: frozenset[str] = frozenset()
        self.notes: tuple[str, ...] = ()

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that are not lost."""
        with self._lock:
            return tuple(seat.card for seat in self._all if not seat.lost)

    def submit(self, job: Job, policy: Policy, *, card: str | None = None, fresh: bool = False) -> Future[Ran]:
        """See `Cards.submit`."""

        def silent(result: JobResult) -> frozenset[str]:
            hung = result.failure is not None and result.failure.stage is JobStage.TIMEOUT
            return frozenset({job.variant} if hung else ())

        return self._put(_Order(partial(_run, job, policy, fresh=fresh), Ran, silent, card=card))

    def survey(self, order: Survey, cubins: Mapping[str, bytes], *, card: str | None = None) -> Future[Surveyed]:
        """See `Cards.survey`."""

        def build_result(points: tuple[SurveyPoint, ...], used: str, worker: int) -> Surveyed:
            del worker
            return Surveyed(points, used)

        def silent(points: tuple[SurveyPoint, ...]) -> frozenset[str]:
            return frozenset(point.kernel for point in points if point.silent)

        return self._put(_Order(lambda session: session.survey(order, cubins), build_result, silent, card=card))

    def release(self) -> None:
        """See `Cards.release`."""
        for future in [seat.line.put(lambda session: session.close()) for seat in self._all if not seat.lost]:
            future.result()

    def __enter__(self) -> Self:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(min(self._interval, SWITCH_S))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        sys.setswitchinterval(self._interval)
        with ThreadPoolExecutor(max(1, len(self._all))) as side_by_side:  # a worker takes a moment to end
            list(side_by_side.map(lambda seat: seat.line.__exit__(kind, error, trace), self._all))

    def _put(self, order: _Order) -> Future[Any]:
        with self._lock:
            seat = self._seat_for(order)
            seat.pending += 1
            future = seat.line.put(partial(self._carry_out, order))
        future.add_done_callback(partial(self._done, order, seat))
        return order.promised

    def _seat_for(self, order: _Order) -> _Seat:
        """Return the requested card, else the least busy one; cards on which the order hung come last."""
        available = [seat for seat in self._all if not seat.lost]
        untried = [seat for seat in available if seat.card.id not in order.hung] or available
        requested = [seat for seat in untried if seat.card.id == order.card]
        return requested[0] if requested else min(untried, key=lambda seat: seat.pending)

    def _carry_out(self, order: _Order, session: GpuSession) -> _Answer:
        """Run an order; if it lost the worker, try at once to start a new one."""
        value, worker, lost = order.ask(session), session.workers, ""
        if len(self.cards) > 1 and session.process_id is None and not self._closed:
            try:
                session.start()
            except MissingToolError as error:
                lost = str(error)
        return _Answer(value, worker, lost)

    def _done(self, order: _Order, seat: _Seat, future: Future[_Answer]) -> None:
        """Hand an answer to the caller, or the order to another card."""
        with self._lock:
            seat.pending -= 1
            again = not self._closed and self._again(order, seat, future)
        if again:
            self._put(order)
        elif future.cancelled():
            order.promised.cancel()
        elif (error := future.exception()) is not None:
            order.promised.set_exception(error)
        else:
            answer = future.result()
            order.promised.set_result(order.told(answer.value, seat.card.id, answer.worker))

    def _again(self, order: _Order, seat: _Seat, future: Future[_Answer]) -> bool:
        """Return whether another card must run the order because this one was lost or the order hung on it."""
        if seat.lost:  # while the order waited there, or ran
            return True
        has_others = len(self.cards) > 1
        if future.cancelled() or not has_others:
            return False
        if (error := future.exception()) is not None:
            if not isinstance(error, MissingToolError):
                return False
            self._lose(seat, str(error))
            return True
        answer = future.result()
        if answer.lost:
            self._lose(seat, answer.lost)
            return True
        return self._hung_here_alone(order, seat, order.silent(answer.value))

    def _hung_here_alone(self, order: _Order, seat: _Seat, silent: frozenset[str]) -> bool:
        """Return whether to retry a hung order on another card; if it runs there, the first card gets a strike."""
        if order.hung:
            self._hanging |= silent  # on two cards: it is the kernel
            if not silent:
                first = next(candidate for candidate in self._all if candidate.card.id == order.hung[0])
                first.strikes += 1
                if first.strikes >= STRIKES and not first.lost:
                    self._lose(first, f"{STRIKES} kernels that hung there ran on another card")
            return False
        if silent <= self._hanging:
            return False
        order.hung.append(seat.card.id)
        return True

    def _lose(self, seat: _Seat, cause: str) -> None:
        """Remove a card from the pool; cancelling its queue hands the orders to the other cards."""
        seat.lost = True
        reason = cause.rstrip(".")
        self.notes += (f"{seat.card.label} was lost: {reason}. Its unfinished jobs went to the other cards.",)
        seat.line.leave()


def _run(job: Job, policy: Policy, session: GpuSession, *, fresh: bool) -> JobResult:
    if fresh:
        try:
            session.restart()
        except MissingToolError as error:
            reason = f"a new worker could not start: {error}"
            return JobResult(job.variant).failed(JobStage.CRASH, reason)
    return session.run(job, policy)
