"""Builders of operations on more than registers."""

from types import SimpleNamespace
from typing import Any, cast

from lab.emulator.operations.system import SYSTEM, Site, system


def test_system_enters_every_family():
    @system("first", "second")
    def build(site, op):
        return lambda lanes: None

    assert SYSTEM.pop("first") is SYSTEM.pop("second") is build


def test_a_site_has_the_operands_as_written():
    binder = cast("Any", SimpleNamespace(instruction=SimpleNamespace(operands=("%r0", "[%rd1]"))))
    nothing = cast("Any", None)
    site = Site(3, binder, nothing, nothing, nothing, nothing, nothing, nothing, None)
    assert site.texts == ("%r0", "[%rd1]")
