"""The policy names exactly the scripts and styles that stand in the page."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html import unescape

import pytest
from pages import unpack

from lab.report.page.csp import policy
from lab.report.render import render


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def directives(html: str) -> dict[str, list[str]]:
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    return {name: sources for name, *sources in (part.split() for part in unescape(policy).split("; "))}


def test_a_hash_is_that_of_the_published_example() -> None:
    # W3C Content Security Policy Level 3, 8.4: the script alert('Hello, world.');
    example = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    assert example in policy(scripts=["alert('Hello, world.');"], styles=[])


def test_a_page_without_a_script_runs_none() -> None:
    assert "script-src 'none'" in policy(scripts=[], styles=["a"])


@pytest.mark.parametrize("what", ["sweep", "hostile", "no_gpu"])
def test_the_pages_own_code_is_allowed_and_nothing_else(make, what) -> None:
    html = render(make(what))[0].read_text(encoding="utf-8")
    policy = directives(html)
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (vega,) = re.findall(r'<script type="text/plain" id="vega">(.*?)</script>', html, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy["script-src"] == [*map(hashed, [*scripts, unpack(vega)])]
    assert policy["style-src"] == [*map(hashed, styles)]
    assert (len(scripts), len(styles)) == (1, 1)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert set(policy) == {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
    before = html.partition("<script")[0]
    assert not re.search(r"<[^>]*\s(style|on\w+)=", before)
    assert html.index("Content-Security-Policy") < html.index("<style")
