"""Builders of operations on more than registers."""

from lab.emulator.operations.system import SYSTEM, system


def test_system_enters_every_family():
    @system("first", "second")
    def build(site, op):
        return lambda lanes: None

    assert SYSTEM.pop("first") is SYSTEM.pop("second") is build
