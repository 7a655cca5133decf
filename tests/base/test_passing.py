"""Values that pass between processes by the thousand."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields

from lab.base.passing import Passed
from lab.isa.sass.control import Control
from lab.predict.schedulers.loop import Slot, Unit


@dataclass(frozen=True, slots=True)
class _Pair(Passed):
    first: int
    second: tuple[str, ...] = ()


def sent(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - of this test


def test_a_value_comes_back_equal_without_a_look_at_its_fields(monkeypatch):
    one = _Pair(1, ("a", "b"))
    sent(one)
    monkeypatch.setattr("dataclasses.fields", None)  # which dataclasses would call
    assert sent(one) == one


def test_those_of_the_model_are_sent_whole():
    control = Control(*range(len(fields(Control))))
    slot = Slot(Unit.SHARED, 4, False, (1, 0), (2, 0), 0, 3, control, once=True)
    assert sent(slot) == slot
