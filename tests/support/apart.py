"""Hosts on one machine: a network namespace behind a cable that can be cut, and a file system of another's own."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
from typing import Self

import pytest

from lab.base import workers

_NUMBERS = itertools.count()
_NOWHERE = "02:00:00:00:00:01"
"""A hardware address that no interface has."""


def skip_unless_allowed() -> None:
    """Skip the test where namespaces cannot be made."""
    if not shutil.which("ip") or not shutil.which("unshare") or _run("unshare", "-n", "-m", "true").returncode:
        pytest.skip("needs ip, unshare and the right to make namespaces")


class Host:
    """A network namespace, and its cable to this one. Use as a context manager.

    Attributes:
        here: Address of this machine's end of the cable.
        there: Address of the other end.
        within: What is put before a command so that it runs there.
    """

    def __init__(self) -> None:
        number = next(_NUMBERS)
        self._name = f"lab{os.getpid()}-{number}"
        self._ends = (f"lab{os.getpid()}{number}a", f"lab{os.getpid()}{number}b")
        subnet = f"198.18.{os.getpid() % 256}"  # set aside for tests of networks by RFC 2544
        self.here, self.there = f"{subnet}.{4 * number + 1}", f"{subnet}.{4 * number + 2}"
        self.within = ("ip", "netns", "exec", self._name)

    def __enter__(self) -> Self:
        host_end, there = self._ends
        for words in (
            f"netns add {self._name}",
            f"link add {host_end} type veth peer name {there} netns {self._name}",
            f"address add {self.here}/30 dev {host_end}",
            f"-n {self._name} address add {self.there}/30 dev {there}",
            f"link set {host_end} up",
            f"-n {self._name} link set {there} up",
            f"-n {self._name} link set lo up",
        ):
            _run("ip", *words.split()).check_returncode()
        return self

    def __exit__(self, *_: object) -> None:
        _run("ip", "netns", "delete", self._name)
        _run("ip", "link", "delete", self._ends[0])

    def cut(self) -> None:
        """Lose every packet in both directions; neither end is told."""
        for words in self._neighbours():
            _run("ip", *words, "lladdr", _NOWHERE, "nud", "permanent").check_returncode()

    def mend(self) -> None:
        """Let packets through again."""
        for words in self._neighbours():
            _run("ip", *["delete" if word == "replace" else word for word in words]).check_returncode()

    def _neighbours(self) -> tuple[list[str], list[str]]:
        return (
            ["neighbour", "replace", self.there, "dev", self._ends[0]],
            ["-n", self._name, "neighbour", "replace", self.here, "dev", self._ends[1]],
        )


def with_mounts(*mounts: str) -> tuple[str, ...]:
    """Return a command prefix that gives a command its own mounts, e.g. `-t tmpfs -o size=1m none /somewhere`."""
    commands = " && ".join([*(f"mount {shlex.join(shlex.split(mount))}" for mount in mounts), 'exec "$@"'])
    return ("unshare", "-m", "sh", "-c", commands, "sh")


def _run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, capture_output=True, check=False, timeout=60, env=workers.environment())
