from __future__ import annotations

import os
import re
import time

import pytest

from lab.base.errors import UserError
from lab.templates import sandbox
from lab.templates.sandbox import rendered
from lab.templates.values import EinsumFacts, MappingFacts


def text_of(tmp_path, text, **names):
    (tmp_path / "main.cu.j2").write_text(text)
    return rendered("main.cu.j2", (tmp_path,), names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for i in range(3) %}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "0,1,2"),
        ("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k ~ v }}{% endfor %}", "a1b2"),
        ("{% set d = {'a': 1} %}{{ d.a }}{{ d['a'] }}{{ d.b is defined }}", "11False"),
        ("{% for i in [] %}{% else %}none{% endfor %}", "none"),
        (
            "{% for i in 'ab' %}{{ loop.cycle('x', 'y') }}{{ loop.previtem }}{% endfor %}".replace(
                "{{ loop.previtem }}", ""
            ),
            "xy",
        ),
        ("{% macro f(x, y=2) %}{{ x + y }}{% endmacro %}{{ f(1) }}{{ f(1, y=5) }}", "36"),
        ("{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{% endcall %}", "<in>"),
        ("{{ mapping.size }} {{ mapping.widest(4) }} {{ mapping }}", "4096 4 [4, 4] | [256] => [i0, t0, i1]"),
        ("{{ folded.rows[:1] | length }}{{ (folded.A + folded.B) | unique | join }}", "1ilkj"),
        ("{{ folded.place('e', folded.rows, 'A') }}", "e * stride_A_i"),
        ("{{ ['b', 'a'] | sort | join('-') | upper | replace('-', '+') }}", "A+B"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ [1, 2, 3] | select('odd') | list }}{{ 2.567 | round(1) }}", "[1, 3]2.6"),
        ("{{ max(1, n) + min([4, 5]) + (n | abs) + ceil_div(n, 2) }}", "12"),
        ("{% set s %}x{% endset %}{{ s ~ 1 ~ true }}", "x1True"),
    ],
)
def test_what_templates_use(tmp_path, text, expected):
    names = {"mapping": MappingFacts("cyclic(width=4)"), "folded": EinsumFacts("ilk,jlk->ijk"), "n": 3}
    assert text_of(tmp_path, text, **names) == expected


def test_parts_are_included_and_imported(tmp_path):
    (tmp_path / "part.j2").write_text("{{ n }}{% macro f(x) %}<{{ x }}>{% endmacro %}")
    assert (
        text_of(tmp_path, "{% include 'part.j2' %}{% import 'part.j2' as p with context %}{{ p.f(2) }}", n=1) == "1<2>"
    )
    (tmp_path / "part.j2").write_text("{{ n + 1 }} is longer")
    os.utime(tmp_path / "part.j2", ns=(1, 1))
    assert text_of(tmp_path, "{% include 'part.j2' %}", n=1) == "2 is longer"


@pytest.mark.parametrize(
    "text",
    [
        "{{ mapping.elements }}",
        "{{ mapping.elements.fill(0) }}",
        "{{ mapping['elements'] }}",
        "{{ mapping.read('x') }}",
        "{{ mapping.size.real }}",
        "{{ mapping.index.value }}",
        "{{ ''.join(['a']) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ 'a'.ljust(10 ** 9) }}",
        "{{ '%s' | format('a') }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ [0] * 1000 }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | attr('upper') }}",
        "{{ [1] | map(attribute='real') | list }}",
        "{{ [1] | random }}",
        "{{ [1] | pprint }}",
        "{{ {'a': 1} | xmlattr }}",
        "{{ [1] | batch(100000000, 0) | list }}",
        "{{ [1] | slice(100000000) | list }}",
        "{{ 'a' | indent(1000000000) }}",
        "{{ 'a' | indent('a' ~ 'b') }}",
        "{{ 1.5 | round(1000000000) }}",
        "{{ 'a' | wordwrap }}",
        "{{ range.__class__ }}",
        "{{ max.function }}",
        "{{ loop }}{{ self.__init__ }}",
        "{{ ().__class__.__bases__[0].__subclasses__() }}",
        "{% macro f() %}{% endmacro %}{{ f.name }}",
        "{% for i in [1] %}{{ loop.__init__ }}{% endfor %}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ lipsum() }}",
        "{{ cycler('a') }}",
        "{{ namespace(a=1) }}",
        "{{ n() }}",
        "{{ 'a'() }}",
        "{{ 9 ** 99 }}",
        "{{ 2 ** 63 * 2 }}",
        "{{ n / 0 }}",
        "{{ range(10 ** 9) }}",
        "{{ max(n, missing) }}",
        "{{ missing + 1 }}",
        "{% for i in missing %}{% endfor %}",
        "{% for i in 3 %}{% endfor %}",
        "{% for i in mapping %}{% endfor %}",
        "{% include 'no.j2' %}",
        "{% include '../main.cu.j2' %}",
        "{% include '/etc/passwd' %}",
        "{% extends n %}",
        "{% include 'main.cu.j2' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ error('no') }}",
    ],
)
def test_what_could_run_code_or_eat_memory_is_refused(tmp_path, text):
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        text_of(tmp_path, text, mapping=MappingFacts("cyclic"), n=3)
    assert "main.cu.j2" in str(caught.value.at)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}", "more than 200000 steps"),
        (
            "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}",
            "more than 200000 steps",
        ),
        ("{% set s = 'ab' %}" + "{% set s = s ~ s %}" * 40, "too long"),
        ("{% set s = 'ab' %}" + "{% set s = s + s %}" * 40, "too long"),
        ("{% set s = [1] %}" + "{% set s = s + s %}" * 40, "too long"),
        ("{% set s = 'aa' %}" + "{% set s = s | replace('a', 'aaaa') %}" * 40, "too long"),
        ("{% set s = 'aa' %}" + "{% set s = [s, s, s] | join(s) %}" * 40, "too long"),
        ("{% set s = 'aa' %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 40, "too long"),
        ("{% set s = 'a' * 1 %}", "must be numbers"),
        ("{% set i = 2 %}" + "{% set i = i * i %}" * 40 + "{{ i }}", "too large"),
    ],
)
def test_templates_have_a_budget(tmp_path, text, words):
    begin = time.process_time()
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        text_of(tmp_path, text)
    assert caught.value.at.line == 1
    assert time.process_time() - begin < 10


def test_the_whole_text_has_a_bounded_length(tmp_path):
    with pytest.raises(UserError, match="a text that is too long"):
        text_of(tmp_path, "{% for i in range(10000) %}" + "x" * 1000 + "{% endfor %}")


def test_files_that_include_each_other_have_a_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "MOST_STEPS", 1000)
    for i in range(20):
        (tmp_path / f"{i}.j2").write_text(f"{{% include '{i + 1}.j2' %}}" * 2)
    (tmp_path / "20.j2").write_text("x")
    with pytest.raises(UserError, match="more than 1000 steps"):
        text_of(tmp_path, "{% include '0.j2' %}")


def test_what_lies_elsewhere_is_not_included(tmp_path):
    folder, outside = tmp_path / "templates", tmp_path / "secret.txt"
    folder.mkdir()
    outside.write_text("secret")
    (folder / "link.j2").symlink_to(outside)
    (folder / "inner.j2").write_text("inner")
    (folder / "alias.j2").symlink_to(folder / "inner.j2")
    (folder / "folder.j2").mkdir()
    os.mkfifo(folder / "pipe.j2")
    (folder / "bytes.j2").write_bytes(b"\xff\xfe")
    assert text_of(folder, "{% include 'alias.j2' %}") == "inner"
    for name, words in (
        ("link.j2", "lies outside"),
        ("pipe.j2", "a regular file"),
        ("folder.j2", "a regular file"),
        ("bytes.j2", "not UTF-8"),
    ):
        for statement in (f"{{% include '{name}' %}}", f"{{% import '{name}' as p %}}"):
            with pytest.raises(UserError, match=words):
                text_of(folder, statement)


def test_what_is_included_has_a_bounded_size(tmp_path):
    (tmp_path / "large.j2").write_text("x" * (4 * 2**20 + 1))
    with pytest.raises(UserError, match="too large"):
        text_of(tmp_path, "{% include 'large.j2' %}")


def test_an_error_has_the_line_of_the_part_where_it_is(tmp_path):
    (tmp_path / "part.j2").write_text("\n\n{{ mapping.bogus }}")
    with pytest.raises(UserError, match="a mapping has no fact 'bogus'") as caught:
        text_of(tmp_path, "{% include 'part.j2' %}", mapping=MappingFacts("cyclic"))
    assert (str(caught.value.at), "threads" in caught.value.accepted) == (f"{tmp_path / 'part.j2'}:3", True)


def test_undefined_names_of_a_template_are_errors():
    with pytest.raises(Exception, match="'nothing' is undefined"):
        sandbox.environment().from_string("{{ nothing }}").render()
