"""HTML of values in notebooks."""

from __future__ import annotations

from lab.base import display
from lab.base.display import Displayed


def test_a_value_asks_the_renderer_and_shows_its_plain_text_without_one(monkeypatch):
    monkeypatch.setattr(display, "_renderer", None)
    value = Displayed()
    assert value._repr_html_() is None
    display.use(lambda shown: f"<b>{shown is value}</b>")
    assert value._repr_html_() == "<b>True</b>"
