"""Standard output as a terminal, a file and a pipe whose reader went away."""

from __future__ import annotations

import errno
import io
import sys

import pytest
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

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
    assert terminal.columns(("a", "b"), [("c", "def")], left_aligned=2) == "a  b\nc  def\n"


def test_texts_are_written_as_they_are_with_their_styles():
    wide, plain = io.StringIO(), io.StringIO()
    for file, terminals in ((wide, True), (plain, False)):
        console = Console(file=file, width=10, force_terminal=terminals, color_system="standard" if terminals else None)
        terminal.write(console, [("x" * 50 + "[b]\n", ""), ("hot\x9b\n", "bold"), ("\x1b\n", "")])
    assert wide.getvalue() == "x" * 50 + "[b]\n\x1b[1mhot\\u009b\n\x1b[0m\\u001b\n"
    assert plain.getvalue() == "x" * 50 + "[b]\nhot\\u009b\n\\u001b\n"


HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb[red]c[/red]:smile:\r"
SHOWN = r"a\u001b]0;title\u0007\u009b31m\u202eb[red]c[/red]:smile:\u000d"


def on_a_terminal(printed):
    output = io.StringIO()
    console = terminal.Output(file=output, width=300, force_terminal=True, color_system=None)
    console.print(printed, highlight=False)
    return output.getvalue()


def in_a_table():
    table = Table(box=None)
    table.add_column("x")
    table.add_row(HOSTILE)
    return table


@pytest.mark.parametrize("printed", [HOSTILE, terminal.Text(HOSTILE), in_a_table()], ids=["str", "Text", "Table"])
def test_texts_of_others_reach_a_terminal_as_escapes_and_without_markup(printed):
    assert SHOWN in on_a_terminal(printed)
    assert "\x1b" not in on_a_terminal(printed)


def test_a_source_is_highlighted_without_its_control_characters():
    output = io.StringIO()
    console = terminal.Output(file=output, width=300, force_terminal=True, color_system="standard")
    console.print(Syntax("int a; // \x1b]0;title\u202e", "cuda", line_numbers=True, background_color="default"))
    assert r"\u001b]0;title\u202e" in output.getvalue()
    assert "\x1b]" not in output.getvalue()


def test_an_escape_counts_in_the_width_of_a_text():
    assert terminal.Text("\x1b").cell_len == 6


def test_a_broken_pipe_reaches_main_without_a_number():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError(errno.EPIPE, text)

    with pytest.raises(BrokenPipeError) as caught:
        terminal.write(Console(file=Gone()), [("text", "")])
    assert caught.value.errno is None  # click ends a command with code 1 otherwise


@pytest.mark.parametrize(("lines", "is_paged"), [(5, False), (60, True)])
def test_a_pager_shows_what_is_longer_than_the_terminal(tmp_path, monkeypatch, lines, is_paged):
    monkeypatch.setenv("PAGER", f"tee {tmp_path / 'paged'}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    file = io.StringIO()
    console = terminal.Output(file=file, width=80, height=24, force_terminal=True)
    with terminal.paged(console):
        assert console.is_terminal
        console.print("x\n" * lines, end="")
    assert (tmp_path / "paged").exists() == is_paged
    assert (file.getvalue() == "") == is_paged
    if is_paged:
        assert (tmp_path / "paged").read_text().count("x\n") == lines
