"""Processes of a cluster's host: Dask's scheduler, or Dask's workers with lab's resources.

A host has one Dask worker for CPU work, which runs one task per core concurrently, and one per card. Each has a nanny,
which restarts it when it ends. When the scheduler is lost, the workers end; this module restarts them once it is back.
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
"""Address of the dashboard: it is unprotected, so only this host can reach it. If the port is in use, Dask picks
another one."""

Tell = Callable[[str], None]
"""Callback that shows a line to the user."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The resources that a host offers.

    Attributes:
        jobs: Number of concurrent CPU tasks; may be 0.
        cards: Its cards.
        preload: Modules that its workers import first.
        listen: Address at which its workers listen; empty for the one from which it reaches the scheduler.
    """

    jobs: int
    cards: tuple[Card, ...] = ()
    preload: tuple[str, ...] = ()
    listen: str = ""


def cards_here() -> tuple[Card, ...]:
    """Return this host's cards that can be measured; none without a driver or PyCUDA."""
    return () if isinstance(describe.probe(), str) else visible_cards()


def schedule(way: Way, *, tell: Tell) -> None:
    """Run the scheduler until a signal ends it.

    Args:
        way: Address to listen on, and keys.
        tell: Shows its address and that of the dashboard.

    Raises:
        OSError: Listening on the address fails.
    """
    asyncio.run(_schedule(way, tell))


async def _schedule(way: Way, tell: Tell) -> None:
    import dask
    from distributed import Scheduler

    has_dashboard = importlib.util.find_spec("bokeh") is not None
    with dask.config.set(SETTINGS):
        async with (
            _until_signal() as ended,
            Scheduler(
                host=way.address,
                security=way.security,
                dashboard=has_dashboard,
                dashboard_address=f"{DASHBOARD}:{DASHBOARD_PORT}" if has_dashboard else None,
            ) as scheduler,
        ):
            tell(f"the scheduler listens at {scheduler.address}")
            if has_dashboard:
                tell(f"the dashboard is at http://{DASHBOARD}:{scheduler.http_server.port}/status, on this host alone")
            await ended.wait()


def offer(way: Way, resources: Offer, *, tell: Tell) -> None:
    """Run this host's workers until a signal ends them.

    Args:
        way: The scheduler.
        resources: The resources offered.
        tell: Shows status messages.
    """
    asyncio.run(_offer(way, resources, tell))


async def _offer(way: Way, resources: Offer, tell: Tell) -> None:
    import dask

    lost = ""
    with dask.config.set(SETTINGS), tempfile.TemporaryDirectory(prefix="lab-cluster-") as scratch:
        async with _until_signal() as ended:
            while not ended.is_set():
                nannies = _nannies(way, resources, scratch)
                try:
                    await asyncio.gather(*(nanny.start() for nanny in nannies))
                    tell(f"connected to {way.address}: {resources.jobs} CPU jobs, {len(resources.cards)} GPUs")
                    lost = ""
                    await _first(ended.wait(), *(nanny.finished() for nanny in nannies))
                except Exception as error:  # noqa: BLE001 - Dask raises many types; all mean that it is unreachable
                    reason = " ".join(str(error).split()) or type(error).__name__
                    if lost != reason:
                        tell(f"{way.address} does not answer; trying again: {reason}")
                    lost = reason
                for nanny in nannies:
                    with contextlib.suppress(Exception):  # the rest of it ends with this process
                        await nanny.close(timeout=5)
                if not ended.is_set():
                    await _first(ended.wait(), asyncio.sleep(AGAIN_S))


def _nannies(way: Way, offered_resources: Offer, scratch: str) -> list[Nanny]:
    from distributed import Nanny

    common: dict[str, Any] = {
        "security": way.security,
        "memory_limit": 0,  # our own processes limit themselves
        "local_directory": scratch,
        "preload": list(offered_resources.preload),
        "dashboard": False,
        "silence_logs": "ERROR",
    }
    if offered_resources.listen:
        common["host"] = offered_resources.listen
    name = f"{remote.host()}-{os.getpid()}"
    nannies = []
    if offered_resources.jobs:
        env = {remote.JOBS: str(offered_resources.jobs)}
        nannies.append(
            Nanny(
                way.address,
                nthreads=offered_resources.jobs,
                resources={CPU: offered_resources.jobs},
                name=f"{name}-cpu",
                env=env,
                **common,
            )
        )
    for number, card in enumerate(offered_resources.cards):
        env = {"CUDA_VISIBLE_DEVICES": card.visible} if card.visible else {}
        offered = {GPU: 1, card.id: 1}
        nannies.append(Nanny(way.address, nthreads=1, resources=offered, name=f"{name}-gpu{number}", env=env, **common))
    return nannies


@contextlib.asynccontextmanager
async def _until_signal() -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when a signal asks this process to end."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    yield ended


async def _first(*waits: Any) -> None:  # noqa: ANN401 - awaitables of several kinds
    """Wait for the first of several awaitables and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def usual_jobs(cards: Sequence[Card]) -> int:
    """Return the default number of CPU tasks: one per core, less one core per card for undisturbed timings."""
    return max(1, workers.cores() - len(cards))
