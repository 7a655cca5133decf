"""A Dask client that is played: pieces run at once, in this process, on workers that are names."""

from __future__ import annotations

import asyncio
from collections import Counter


class PlayedFuture:
    def __init__(self, status, value=None):
        self.status, self._value = status, value

    def __await__(self):
        if self.status == "pending":
            yield from asyncio.get_running_loop().create_future()  # for ever
        if self.status != "finished":
            raise self._value or RuntimeError(self.status)
        return self._value

    def cancel(self):
        self.status = "cancelled"


class PlayedLoop:
    """Runs what it is given at once, as far as it comes."""

    def add_callback(self, function, *args):
        async def started():
            asyncio.ensure_future(function(*args))  # noqa: RUF006 - this loop ends with it
            await asyncio.sleep(0)

        asyncio.run(started())


class PlayedClient:
    """Runs each piece by `play`, which returns a status and a value; by default it runs it as a worker does."""

    def __init__(self, workers, play=None):
        self.workers, self.play = workers, play or (lambda function, args, options: ("finished", function(*args)))
        self.sent, self.cancelled, self.closed = [], [], False
        self.ran: Counter[str] = Counter()
        self.answers = {}
        self.loop = PlayedLoop()

    def scheduler_info(self, n_workers=5):
        assert n_workers == -1
        return {"workers": self.workers}

    def submit(self, function, *args, key, pure, **options):
        assert not pure
        self.sent.append((function, args, options))
        return PlayedFuture(*self.play(function, args, options))

    def run(self, function, *args, workers, on_error):
        assert on_error == "ignore"
        self.ran[function.__name__] += 1
        answer = self.answers.get(function.__name__, lambda address, *given: function(*given))
        return {address: answer(address, *args) for address in workers}

    def cancel(self, futures, force=False):
        self.cancelled += futures

    def close(self, timeout=None):
        self.closed = True


def a_worker(name, cpus=0, card=""):
    """Return a scheduler's description of a worker."""
    resources = {"CPU": cpus} if cpus else {}
    return {"name": name, "resources": resources | ({"GPU": 1, card: 1} if card else {})}
