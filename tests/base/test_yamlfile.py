from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import UserError
from lab.base.yamlfile import MOST_DEPTH, dotted, parse, read_text


def test_values_are_plain_and_lines_are_known():
    document = parse("a: 1\nb:\n  - x\n  - {c: 0x10, d: 1e3}\ne: true\n", "f.yaml")
    assert document.data == {"a": 1, "b": ["x", {"c": 16, "d": 1000.0}], "e": True}
    assert {type(v) for v in document.data["b"][1].values()} == {int, float}
    assert document.data["e"] is True
    assert document.at("b", 1, "d").line == 4
    assert document.at("b", 1, "nowhere").line == 4
    assert document.at("e").line == 5


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key"),
        ("a: &x 1\nb: *x\nc: &x 2\n", 3, "an anchor is defined twice"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a: 1\n---\nb: 2\n", None, "exactly one YAML document"),
        ("a: 1\n2: x\n", None, "a key must be a string"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "not supported"),
        ("a: !thing x\n", 1, "not supported"),
        ("a: 2001-01-01\n", 1, "not supported"),
        ("a: \x00\n", None, "not YAML"),
        ("", None, "exactly one YAML document"),
    ],
)
def test_errors_name_the_line(text, line, words):
    with pytest.raises(UserError, match=words) as caught:
        parse(text, "f.yaml")
    assert caught.value.at is not None
    assert caught.value.at.file == "f.yaml"
    if line:
        assert caught.value.at.line == line


def test_aliases_cannot_expand_without_end():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(UserError, match="too large"):
        parse("\n".join(lines), "f.yaml")


@given(st.text(max_size=200))
def test_no_text_escapes_as_another_exception(text):
    with contextlib.suppress(UserError):
        parse(text, "f.yaml")


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "gemm.yaml").write_text("a: 1")
    with pytest.raises(UserError, check=coded("missing-file")):
        read_text(tmp_path / "gem.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"b: 1\na: \xff\n")
    with pytest.raises(UserError, check=coded("syntax", found="byte 0xff", line=2)) as caught:
        read_text(tmp_path / "latin.yaml")
    assert (caught.value.at and caught.value.at.line, caught.value.found) == (2, "byte 0xff")
    (tmp_path / "wide.yaml").write_text("a: 1", encoding="utf-16")
    with pytest.raises(UserError, check=coded("syntax", found="byte 0xff", line=1)):
        read_text(tmp_path / "wide.yaml")
    with pytest.raises(UserError, check=coded("unreadable", found="a folder")):
        read_text(tmp_path)


def test_dotted():
    assert dotted(("kernels", 0, "parameters", "unroll")) == "kernels[0].parameters.unroll"


def _mapping(count: int) -> str:
    return "".join(f"k{i}: {i}\n" for i in range(count))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_mapping(150_000), "the document is too large"),
        ("{" + _mapping(20_000).replace("\n", ", ") + "}", "the document is too large"),
        ("[" * 40 + "1" + "]" * 40 + "," + ",".join(["[[[[1]]]]"] * 9_000), "not YAML"),
        (",".join(["[[[[[1]]]]]"] * 9_000).join("[]"), "at most 20000 keys and values"),
        ("[" * 5_000, "nested too deeply"),
        ("- " * 5_000, "nested too deeply"),
        ("\n".join(f"{' ' * i}a:" for i in range(1_000)), "nested too deeply"),
        ("a: &a {x: 1}\n" + "".join(f"b{i}: {{<<: *a}}\n" for i in range(2_000)), "merge keys"),
        ("seed: 0x" + "f" * 200_000, "integer is too large"),
        ("seed: " + "9" * 200_000, "integer is too large"),
        (f"{'k' * 300}: 1\n", "the key is too long"),
    ],
    ids=[
        "keys", "flow", "broken", "nodes", "brackets", "dashes", "block", "merges", "hexadecimal", "decimal", "key",
    ],
)  # fmt: skip
def test_a_large_document_is_refused_quickly(text, words):
    started = time.process_time()
    with pytest.raises(UserError, match=words) as caught:
        parse(text, "f.yaml")
    assert time.process_time() - started < 5  # some of them took minutes; the limit leaves room for a slow machine
    assert len(str(caught.value)) < 1_000


def test_what_an_experiment_may_need_is_far_from_the_limits():
    nested = "\n".join(f"{' ' * i}a:" for i in range(MOST_DEPTH - 2))
    assert parse(nested, "f.yaml").at(*["a"] * (MOST_DEPTH - 2)).line == MOST_DEPTH - 2
    assert len(parse(_mapping(2_000), "f.yaml").data) == 2_000
    assert parse("seed: 18446744073709551615", "f.yaml").data == {"seed": 2**64 - 1}


def test_a_tab_is_told_what_to_write():
    with pytest.raises(UserError, match="replace the tab by spaces"):
        parse("a: 1\n\tb: 2\n", "f.yaml")


@pytest.mark.parametrize("number", ["0x" + "f" * 200_000, "0x1" + "0" * 16, "-36893488147419103232", "1" * 4000])
def test_a_number_of_more_than_64_bits_is_refused(number):
    with pytest.raises(UserError, check=coded("out-of-range", key="b", line=2)) as caught:
        parse(f"a: 1\nb: {number}\n", "f.yaml")
    assert caught.value.at.line == 2
    assert len(str(caught.value)) < 300


def test_a_number_of_64_bits_is_read():
    assert parse("a: 18446744073709551615\nb: -0x8000000000000000", "f.yaml").data == {"a": 2**64 - 1, "b": -(2**63)}


def test_lines_may_end_as_on_any_system(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_bytes(b"a: 1\r\nb: 2\rc: 3\n")
    assert read_text(file) == "a: 1\nb: 2\nc: 3\n"


def test_a_part_of_a_document_has_the_lines_of_the_file() -> None:
    whole = parse("a:\n  - {b: 1}\n  - c: 2\n    d: [3,\n      4]\n", "f.yaml")
    part = whole.below("a", 1)
    assert part.data == {"c": 2, "d": [3, 4]}
    assert [part.at(*key).line for key in ((), ("c",), ("d",), ("d", 1), ("e",))] == [3, 3, 4, 5, 3]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("[ceil_div(w, BX), ceil_div(h, BY)]", ["ceil_div(w, BX)", "ceil_div(h, BY)"]),
        ("{y: s * matmul(a, x)}", {"y": "s * matmul(a, x)"}),
        ("{y: f(a, x), z: g(b, x), n: 3}", {"y": "f(a, x)", "z": "g(b, x)", "n": 3}),
        ("[f(g(a, 0x10), true, b), 4]", ["f(g(a, 0x10), true, b)", 4]),
        ("{y: f(a,\n  b)}", {"y": "f(a, b)"}),
        ("[{y: [f(a, b)]}, f(a, b)]", [{"y": ["f(a, b)"]}, "f(a, b)"]),
        ('["f(a", b)]', ["f(a", "b)"]),
        ("[f(a, 'b)']", ["f(a", "b)"]),
        ("[f(a, b]", ["f(a", "b"]),
        ("[a), (b]", ["a)", "(b"]),
        ("{y: f(a, z: b)}", {"y": "f(a", "z": "b)"}),
        ("{y: f(a, z)}", {"y": "f(a, z)"}),
        ("[f(a, [b])]", None),
    ],
)
def test_what_a_comma_in_parentheses_splits_is_joined_again(text, data):
    if data is None:
        with pytest.raises(UserError):
            parse(f"v: {text}", "f.yaml")
    else:
        assert parse(f"v: {text}\nw: 1", "f.yaml").data == {"v": data, "w": 1}


def test_a_joined_text_has_the_line_on_which_it_begins():
    document = parse("v: [a,\n  f(b,\n    c), d]\n", "f.yaml")
    assert document.data == {"v": ["a", "f(b, c)", "d"]}
    assert [document.at("v", i).line for i in range(3)] == [1, 2, 3]


_NAMES = st.sampled_from(["n", "m", "TILE", "2 * n", "0x10", "true", "1"])
_CALLS = st.recursive(
    _NAMES,
    lambda inner: st.builds(
        lambda name, arguments: f"{name}({', '.join(arguments)})",
        st.sampled_from(["f", "ceil_div", "3 * min"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
).filter(lambda text: "(" in text)


@given(st.lists(_CALLS, min_size=1, max_size=4))
def test_calls_without_quotes_are_what_they_are_in_quotes(calls):
    assert parse(f"v: [{', '.join(calls)}]", "f.yaml").data["v"] == calls
    pairs = ", ".join(f"k{i}: {call}" for i, call in enumerate(calls))
    assert parse(f"v: {{{pairs}}}", "f.yaml").data["v"] == {f"k{i}": call for i, call in enumerate(calls)}


@given(st.lists(st.text(alphabet="ab(), ", min_size=1, max_size=8), min_size=1, max_size=4))
def test_texts_in_quotes_stay_as_they_are(texts):
    quoted = ", ".join(f'"{text}"' for text in texts)
    assert parse(f"v: [{quoted}]", "f.yaml").data["v"] == texts
