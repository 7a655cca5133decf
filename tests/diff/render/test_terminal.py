from __future__ import annotations

from dataclasses import replace

from diff_support import comparison

from lab.diff.render.terminal import WIDTH, terminal_lines


def test_the_answer_comes_first_and_fits():
    lines = list(terminal_lines(comparison()))
    assert lines[0] == "2 kernels compared: 1 changed, 1 added, 1 removed."
    assert "sm_80 is missing in HEAD" in lines[1]
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("scale") for line in lines)


def test_a_short_name_does_not_shorten_the_heading():
    result = comparison()
    short = replace(result.changes[0], name="f", base_name="f")
    heading = next(line for line in terminal_lines(replace(result, changes=(short,))) if "regs" in line)
    assert heading.startswith("kernel")


def test_long_names_are_shortened():
    result = comparison()
    long = replace(result.changes[0], name="n" * 200, base_name="n" * 200)
    lines = list(terminal_lines(replace(result, changes=(long,))))
    assert any(".." in line and len(line) <= WIDTH for line in lines)


def test_full_shows_the_listing():
    short, full = list(terminal_lines(comparison())), list(terminal_lines(comparison(), full=True))
    assert len(full) > len(short)
    assert any(line.startswith("  + ") for line in full)
