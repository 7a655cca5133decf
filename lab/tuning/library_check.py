"""Compare a library with cuBLAS at sizes it was not tuned for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from lab.base.expressions import Scalar
from lab.base.sizes import Size
from lab.gpu.process.cards import Cards, Surveyed
from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, SurveyPolicy, room
from lab.hardware.gpus import from_description
from lab.library.archive import StoredLibrary
from lab.library.calls import launches
from lab.library.checked_sizes import CheckedSize
from lab.library.expected import expected_ms
from lab.library.package import Library
from lab.library.picking import picked
from lab.operators.gemm import GemmProblem
from lab.store.tuning_model import ProblemType
from lab.templates.launches import BuiltLaunch, Launches, Residency
from lab.toolchain.cubin import image
from lab.tuning.bench import elements_of
from lab.tuning.product import product

_AHEAD = 8
"""Sizes queued on the card, so that it does not wait for the next launches."""


def check(
    stored: StoredLibrary,
    sizes: Sequence[Size],
    cards: Cards,
    *,
    policy: SurveyPolicy,
    seed: int = 0,
    done: Callable[[CheckedSize], None] = lambda _: None,
) -> tuple[CheckedSize, ...]:
    """Time the library's pick and cuBLAS interleaved at each size, and check the result against float64.

    Args:
        stored: The library.
        sizes: Any sizes.
        cards: Where they are timed.
        policy: How.
        seed: Of the contents of A and B.
        done: Called with each row as it comes.

    Returns:
        One row a size, in their order.

    Raises:
        MissingToolError: No card could start a worker.
    """
    library = stored.library
    of = ProblemType(library.dtype, library.layout, library.batched)
    picks = [_picked(stored, of, size, cards) for size in sizes]
    ground = _ground(of, picks, seed)
    waiting: list[tuple[_Picked, Future[Surveyed]]] = []
    rows: list[CheckedSize] = []

    def take() -> None:
        pick, future = waiting.pop(0)
        rows.append(_row(library, pick, future.result()))
        done(rows[-1])

    for pick in picks:
        # a worker keeps machine code by name, and libraries of several layouts have kernels of one name
        name = f"{library.layout} {library.kernels[pick.number].name}"
        contestant = Entrant(name, pick.launches)
        order = Survey(ground, pick.problem, (contestant,), baseline=True, policy=policy, kept=frozenset({name}))
        waiting.append((pick, cards.survey(order, {name: stored.cubins[library.kernels[pick.number].cubin]})))
        if len(waiting) > _AHEAD:
            take()
    while waiting:
        take()
    return tuple(rows)


@dataclass(frozen=True)
class _Picked:
    """A size, its problem, and the launches of the library's kernel for it."""

    size: Size
    problem: GemmProblem
    number: int
    launches: Launches


def _picked(stored: StoredLibrary, of: ProblemType, size: Size, cards: Cards) -> _Picked:
    library = stored.library
    problem, number = product(of, size), picked(library, *size)
    point: dict[str, Scalar] = {name: problem[name] for name in (*library.sizes, *library.factors)}
    kernel_launches = launches(library, number, point)
    if kernel_launches.wait_for_occupancy:
        uses = image.kernels(stored.cubins[library.kernels[number].cubin])
        kernel_launches = kernel_launches.built(
            BuiltLaunch(residency=Residency(from_description(cards.cards[0].description), uses))
        )
    return _Picked(size, problem, number, kernel_launches)


def _row(library: Library, pick: _Picked, surveyed: Surveyed) -> CheckedSize:
    points = {point.kernel == BASELINE: point for point in surveyed.points}
    ours, beside = points[False], points.get(True)
    return CheckedSize(
        library.layout,
        pick.size,
        library.kernels[pick.number].name,
        expected_ms(library.measured, pick.size, library.alignment),
        ours.samples,
        beside.samples if beside else None,
        ours.cache,
        ours.error,
        ours.failure or (beside.failure if beside else ""),
    )


def _ground(of: ProblemType, picked: Sequence[_Picked], seed: int) -> Ground:
    """Return buffers that are large enough for every size."""
    elements = elements_of([pick.size for pick in picked])
    workspace = max(sum(room(buffer) for buffer in pick.launches.workspace) for pick in picked)
    return Ground(of.dtype, elements, workspace, seed)
