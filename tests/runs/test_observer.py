"""The observer that shows nothing takes every event of the protocol."""

from __future__ import annotations

import inspect

from lab.runs.observer import RunObserver, SilentObserver


def test_it_has_every_method_of_the_protocol_with_the_same_parameters():
    events = [name for name, value in vars(RunObserver).items() if inspect.isfunction(value) and name[0] != "_"]
    assert {"planned", "more", "built", "executed", "recorded", "noted", "counting", "counted"} <= set(events)
    for name in events:
        assert inspect.signature(getattr(SilentObserver, name)) == inspect.signature(getattr(RunObserver, name))


def test_every_event_is_ignored():
    silent = SilentObserver()
    for name, given in (("planned", (None, None, 3, "")), ("built", (None, None))):
        assert getattr(silent, name)(*given) is None
    for name in ("more", "executed", "recorded", "noted", "counting", "counted"):
        assert getattr(silent, name)(1) is None
