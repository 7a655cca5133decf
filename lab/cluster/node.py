"""What a host of a cluster runs: Dask's scheduler, or Dask's workers with the resources that lab asks for.

A host has one Dask worker for CPU work, which runs as many pieces at a time as the host has cores, and one for each
card. Each has a nanny, which starts it again when it ends. When the scheduler is lost they end, and this module starts
them again as soon as it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.base import workers
from lab.cluster import remote
from lab.cluster.client import CPU, GPU, SETTINGS
from lab.cluster.security import Way
from lab.gpu.device import describe
from lab.gpu.process.cards import Card
from lab.gpu.process.find import visible_cards

if TYPE_CHECKING:
    from distributed import Nanny

AGAIN_S = 2.0
"""Seconds between two attempts to reach the scheduler."""

DASHBOARD, DASHBOARD_PORT = "127.0.0.1", 8787
"""Where the dashboard is: it has no protection, so that only this host reaches it. Where its port is taken, Dask takes
another one."""

Tell = Callable[[str], None]
"""Shows a line to the user."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a host offers.

    Attributes:
        jobs: Pieces of CPU work at a time; 0 for none.
        cards: Its cards.
        preload: Modules that its workers import first.
        listen: Address of this host at which its workers listen; empty for that by which it reaches the scheduler.
    """

    jobs: int
    cards: tuple[Card, ...] = ()
    preload: tuple[str, ...] = ()
    listen: str = ""


def cards_here() -> tuple[Card, ...]:
    """This host's cards that can be measured on; none without a driver or PyCUDA."""
    return () if isinstance(describe.probe(), str) else visible_cards()


def schedule(way: Way, *, tell: Tell) -> None:
    """Be the scheduler until a signal ends it.

    Args:
        way: Where it listens.
        tell: Shows its address and that of the dashboard.

    Raises:
        OSError: The address cannot be listened at.
    """
    asyncio.run(_schedule(way, tell))


async def _schedule(way: Way, tell: Tell) -> None:
    import dask
    from distributed import Scheduler

    shown = importlib.util.find_spec("bokeh") is not None
    with dask.config.set(SETTINGS):
        async with (
            _until_signal() as ended,
            Scheduler(
                host=way.address,
                security=way.security,
                dashboard=shown,
                dashboard_address=f"{DASHBOARD}:{DASHBOARD_PORT}" if shown else None,
            ) as scheduler,
        ):
            tell(f"the scheduler listens at {scheduler.address}")
            if shown:
                tell(f"the dashboard is at http://{DASHBOARD}:{scheduler.http_server.port}/status, on this host alone")
            await ended.wait()


def offer(way: Way, given: Offer, *, tell: Tell) -> None:
    """Be the workers of this host until a signal ends them.

    Args:
        way: The scheduler.
        given: What this host offers.
        tell: Shows what happens.
    """
    asyncio.run(_offer(way, given, tell))


async def _offer(way: Way, given: Offer, tell: Tell) -> None:
    import dask

    lost = ""
    with dask.config.set(SETTINGS), tempfile.TemporaryDirectory(prefix="lab-cluster-") as scratch:
        async with _until_signal() as ended:
            while not ended.is_set():
                nannies = _nannies(way, given, scratch)
                try:
                    await asyncio.gather(*(nanny.start() for nanny in nannies))
                    tell(f"connected to {way.address}: {given.jobs} CPU jobs, {len(given.cards)} GPUs")
                    lost = ""
                    await _first(ended.wait(), *(nanny.finished() for nanny in nannies))
                except Exception as error:  # noqa: BLE001 - Dask raises many; all mean that it is not there
                    reason = " ".join(str(error).split()) or type(error).__name__
                    if lost != reason:
                        tell(f"{way.address} does not answer; trying again: {reason}")
                    lost = reason
                for nanny in nannies:
                    with contextlib.suppress(Exception):  # whatever is left of it ends with this process
                        await nanny.close(timeout=5)
                if not ended.is_set():
                    await _first(ended.wait(), asyncio.sleep(AGAIN_S))


def _nannies(way: Way, given: Offer, scratch: str) -> list[Nanny]:
    from distributed import Nanny

    common: dict[str, Any] = {
        "security": way.security,
        "memory_limit": 0,  # our own processes have their limits
        "local_directory": scratch,
        "preload": list(given.preload),
        "dashboard": False,
        "silence_logs": "ERROR",
    }
    if given.listen:
        common["host"] = given.listen
    name = f"{remote.host()}-{os.getpid()}"
    made = []
    if given.jobs:
        env = {remote.JOBS: str(given.jobs)}
        made.append(
            Nanny(way.address, nthreads=given.jobs, resources={CPU: given.jobs}, name=f"{name}-cpu", env=env, **common)
        )
    for number, card in enumerate(given.cards):
        env = {"CUDA_VISIBLE_DEVICES": card.visible} if card.visible else {}
        offered = {GPU: 1, card.id: 1}
        made.append(Nanny(way.address, nthreads=1, resources=offered, name=f"{name}-gpu{number}", env=env, **common))
    return made


@contextlib.asynccontextmanager
async def _until_signal() -> AsyncIterator[asyncio.Event]:
    """Yield what is set when a signal asks this process to end."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    yield ended


async def _first(*waits: Any) -> None:  # noqa: ANN401 - awaitables of several kinds
    """Wait for the first of several; the others are dropped."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def usual_jobs(cards: Sequence[Card]) -> int:
    """Pieces of CPU work at a time: every core but one for each card, whose timings need theirs undisturbed."""
    return max(1, workers.cores() - len(cards))
