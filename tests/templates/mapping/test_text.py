from __future__ import annotations

import time

import pytest
from hypothesis import given
from mappings import mappings
from mistakes import coded

from lab.base.errors import UserError
from lab.templates.mapping.text import parse


@given(mappings())
def test_what_is_written_is_read_back(mapping):
    assert parse(str(mapping)) == mapping


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[3]|[4]=>layout:[i0,t0]", "[3] | [4] => [i0, t0]"),
        (" [ 3 ] | [(4 , 2)]\n=> layout : [ - i0 , t0 ] , offset : 7 ", "[3] | [(4, 2)] => [-i0, t0], offset: 7"),
        ("[3] | [4] => [i0, t0] offset: 2", "[3] | [4] => [i0, t0], offset: 2"),
        ("[3] | [(4, 4)] => [i0, t0], offset: 0", "[3] | [4] => [i0, t0]"),
        ("[3] | [4] => [0, 1]", "[3] | [4] => [i0, t0]"),
        ("[3] | [4] => layout: [1, 0]", "[3] | [4] => [t0, i0]"),
        ("[3] | [2, 2] => [2, 0, 1]", "[3] | [2, 2] => [t1, i0, t0]"),
        ("[3] | [2, 2] => [0, -1, 2]", "[3] | [2, 2] => [i0, -t0, t1]"),
        ("[3] | [2, 2] => [-0, t1, -1]", "[3] | [2, 2] => [-i0, t1, -t0]"),
        ("[3, 2] | [4]", "[3, 2] | [4] => [i0, i1, t0]"),
        ("[3] | [2, 2] => offset: 5", "[3] | [2, 2] => [i0, t0, t1], offset: 5"),
        ("[3] | [2] => [(1, 0 : 5)]", "[3] | [2] => [(t0, i0: 5)]"),
        ("[3] | [2] => [(i0: 3), t0]", "[3] | [2] => [i0, t0]"),
        ("[3] | [2] => [(-i0: 2), t0]", "[3] | [2] => [(-i0: 2), t0]"),
        ("blocked", "[16] | [256] => [i0, t0]"),
        ("blocked()", "[16] | [256] => [i0, t0]"),
        ("blocked(threads=32, items=3)", "[3] | [32] => [i0, t0]"),
        ("cyclic(width=4)", "[4, 4] | [256] => [i0, t0, i1]"),
        ("cyclic2d", "[1, 1, 1, 4] | [32, 8] => [i0, t0, i1, i2, t1, i3]"),
        (
            "cyclic2d(width=(4, 2), items=(8, 6), threads=(16, 4))",
            "[4, 2, 2, 3] | [16, 4] => [i0, t0, i1, i2, t1, i3]",
        ),
    ],
)
def test_spellings_and_shorthands(text, same):
    assert str(parse(text)) == same


@pytest.mark.parametrize(
    ("text", "column", "found", "accepted"),
    [
        ("", 1, "the end of the text", "'['"),
        ("3 | [4] => [i0, t0]", 1, "3", "'['"),
        ("[] | [4] => [t0]", 2, "]", "an integer from 1"),
        ("[0] | [4] => [i0, t0]", 2, "0", "an integer from 1"),
        ("[-3] | [4] => [i0, t0]", 2, "-", "an integer from 1"),
        ("[9999999999] | [4] => [i0, t0]", 2, "9999999999", "an integer from 1"),
        ("[(3)] | [4] => [i0, t0]", 4, ")", "','"),
        ("[(3, 0)] | [4] => [i0, t0]", 6, "0", "an integer from 1"),
        ("[3] [4] => [i0, t0]", 5, "[", "'|'"),
        ("[3] | [4] > [i0, t0]", 11, ">", "'=>'"),
        ("[3] | [4] => [i0]", 17, "]", "also t0"),
        ("[3] | [4] => [i0, t0, i0]", 23, "i0", "the end"),
        ("[3] | [4] => [i0, i0]", 19, "i0", "t0"),
        ("[3] | [4] => [i0, t1]", 19, "t1", "t0"),
        ("[2] | [2, 3] => [1, 2, 3]", 24, "3", "i0"),
        ("[2] | [2, 3] => [0, 0, 1]", 21, "0", "t0, t1"),
        ("[2] | [2, 3] => [0, i0, 1]", 21, "i0", "t0, t1"),
        ("[2, 3] | [] => [0, 1, 2]", 11, "]", "an integer from 1"),
        ("[3] | [2] => [(t0, i0)]", 22, ")", "':'"),
        ("[3] | [2] => [(t0, i0: 0)]", 24, "0", "an integer from 1"),
        ("[3] | [2] => [(t0, t0: 4)]", 20, "t0", "i0"),
        ("[3] | [2] => [(t0: 2]", 21, "]", "')'"),
        ("[3] | [2] => [()]", 16, ")", "i0, t0"),
        ("[3] | [4] => offset 5", 21, "5", "':'"),
        ("[3] | [4] => [i0, t0", 21, "the end of the text", "']'"),
        ("[3] | [4] => [i0, t0], 7", 24, "7", "'offset'"),
        ("[3] | [4] => [i0, t0], offset: -7", 32, "-", "an integer from 0"),
        ("[3] | [4] => [i0, t0] and more", 23, "and", "the end of the text"),
        ("[3] | [4] => [é0, t0]", 15, "é", "i0"),
        ("[٣] | [4] => [i0, t0]", 2, "٣", "an integer from 1"),
        ("cyclc(width=4)", 1, "cyclc", "cyclic"),
        ("cyclic(widht=4)", 8, "widht", "width, items, threads"),
        ("cyclic(width=2, width=4)", 17, "width", "items, threads"),
        ("cyclic(width 4)", 14, "4", "'='"),
        ("cyclic(width=3)", 1, "cyclic", "a width that divides items"),
        ("cyclic(width=4", 15, "the end of the text", "')'"),
        ("cyclic2d(width=4)", 16, "4", "'('"),
        ("cyclic2d(width=(4, 3), items=(4, 4))", 1, "cyclic2d", "a width that divides items"),
    ],
)
def test_mistakes_say_where_they_are_and_what_would_do(text, column, found, accepted):
    with pytest.raises(UserError) as caught:
        parse(text)
    assert f"column {column}:" in caught.value.message
    assert caught.value.found == found
    assert accepted in caught.value.accepted


@pytest.mark.parametrize("text", ["[9999] | [9999] => [i0, t0]", "[(1, 99999999)] | [4] => [i0, t0]"])
def test_a_mapping_is_a_tile(text):
    with pytest.raises(UserError, match="the mapping has"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "[1] | [16777216] => [i0, t0]",
        "[1048577] | [1] => [i0, t0]",
        "[1, 1] | [(1, 999999999)] => [i0, i1, t0]",
        "[1000000000000] | [32] => [i0, t0]",
        "blocked(items=999999999, threads=999999999)",
        "[4] | [32] => [i0, t0], offset: 1048576",
    ],
)
def test_a_mapping_that_is_too_large_is_refused_at_once(text):
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        parse(text)
    assert "1048576" in str(caught.value.accepted)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("thread in block:[3]|[4]", "thread in block: [3] | [4] => [i0, t0]"),
        ("[6] | [2] then [3] | [2]", "[6] | [2] => [i0, t0] then [3] | [2] => [i0, t0]"),
        (
            "block in grid: blocked(items=64, threads=4) then thread in block: cyclic(items=2, threads=32)",
            "block in grid: [64] | [4] => [i0, t0] then thread in block: [1, 2] | [32] => [i0, t0, i1]",
        ),
        (
            "[8] | [2] => offset: 3 then [4] | [2] => offset: 0",
            "[8] | [2] => [i0, t0], offset: 3 then [4] | [2] => [i0, t0]",
        ),
    ],
)
def test_scopes_and_compositions_are_read_and_written(text, same):
    assert str(parse(text)) == same
    assert parse(same) == parse(text)


def test_a_composition_as_a_whole_is_a_tile():
    with pytest.raises(UserError, check=coded("out-of-range", found="[1] | [4096] then [1024] | [1]")):
        parse("[1] | [4096] then [1024] | [1]")
