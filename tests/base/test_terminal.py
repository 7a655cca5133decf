"""Texts of others on a terminal."""

from __future__ import annotations

import json
import warnings

import pytest

from lab.base.terminal import prepare, visible, write

HOSTILE = {
    "title": "\x1b]0;title\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "colour": "\x1b[31mred",
    "C1": "\x9b31m",
    "bidi": "\u202eevil\u202c\u2066x\u2069\u200e\u200f\u061c",
    "carriage return": "100 %\r0 %",
    "backspace": "ok\b\b",
    "delete": "\x7f",
    "lines": "\u2028\u2029\x85\x0b\x0c",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_control_characters_are_escapes(text):
    shown = visible(text)
    assert shown.isprintable()
    assert json.loads(f'"{shown}"') == text
    assert visible(shown) == shown


def test_lines_and_tabs_stay():
    assert visible("a\tb\r\nc\nÄ → 日本 🙂") == "a\tb\nc\nÄ → 日本 🙂"


def test_a_json_text_keeps_its_meaning():
    value = {"label": "\u202e\x9b\x7f"}
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


def test_text_is_written_to_one_of_two_streams(capsys):
    write("a\x1b")
    write("b\x1b", error=True, end="")
    assert capsys.readouterr() == ("a\\u001b\n", "b\\u001b")


def test_a_warning_of_a_package_is_a_text_of_others(capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    prepare()
    with warnings.catch_warnings(action="always"):
        prepare()
        warnings.warn("Glyph 27 (\x1b) missing", stacklevel=1)
    assert capsys.readouterr().err == "UserWarning: Glyph 27 (\\u001b) missing\n"
