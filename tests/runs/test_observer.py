"""The observer that shows nothing takes every event of the protocol."""

from __future__ import annotations

import inspect

from lab.runs.observer import RunObserver


def test_every_event_is_ignored():
    silent = RunObserver()
    events = {name: value for name, value in vars(RunObserver).items() if inspect.isfunction(value) and name[0] != "_"}
    assert {"planned", "more", "built", "executed", "recorded", "noted", "counting", "counted"} <= set(events)
    for name, event in events.items():
        given = list(inspect.signature(event).parameters)[1:]
        assert getattr(silent, name)(*given) is None
