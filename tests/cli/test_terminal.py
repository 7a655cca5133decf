"""Standard output as a terminal, a file and a pipe whose reader went away."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.cli import terminal


def test_what_is_no_terminal_is_never_cropped(capsys):
    console = terminal.stdout()
    console.print("x" * 5000)
    assert capsys.readouterr().out == "x" * 5000 + "\n"


def test_a_rule_is_a_line_across_a_terminal_and_short_elsewhere():
    wide, plain = io.StringIO(), io.StringIO()
    terminal.rule(Console(file=wide, width=40, force_terminal=True), "PTX [of] k")
    assert "PTX [of] k" in wide.getvalue()
    assert max(map(len, wide.getvalue().splitlines())) > 30
    terminal.rule(Console(file=plain, width=terminal.UNBOUNDED), "PTX [of] k")
    assert plain.getvalue() == "── PTX [of] k ──\n"


def test_a_reader_that_went_away_is_left_to_main():
    with pytest.raises(BrokenPipeError):
        terminal.stdout().on_broken_pipe()


def test_columns_are_aligned_below_headers_of_several_lines():
    text = terminal.columns(("name", "FMA\nshare"), [("a", "1"), ("bcdefg", "23")])
    assert text.splitlines() == ["          FMA", "name    share", "a           1", "bcdefg     23"]
    assert terminal.columns(("a", "b"), [("c", "def")], left=2) == "a  b\nc  def\n"


def test_texts_are_written_as_they_are_with_their_styles():
    wide, plain = io.StringIO(), io.StringIO()
    for file, terminals in ((wide, True), (plain, False)):
        console = Console(file=file, width=10, force_terminal=terminals, color_system="standard" if terminals else None)
        terminal.write(console, [("x" * 50 + "[b]\n", ""), ("hot\n", "bold")])
    assert wide.getvalue() == "x" * 50 + "[b]\n\x1b[1mhot\n\x1b[0m"
    assert plain.getvalue() == "x" * 50 + "[b]\nhot\n"
