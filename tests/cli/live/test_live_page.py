"""The live page's text."""

from __future__ import annotations

import re

from pages import Page

from lab.cli.live.live_page import PAGE, POLICY
from lab.report.page import csp


def test_the_policy_allows_its_own_script_and_style_alone():
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    assert POLICY.startswith(csp.policy(scripts=[script], styles=[style]))
    assert "connect-src 'self'" in POLICY
    assert "frame-ancestors 'none'" in POLICY


def test_it_needs_nothing_from_elsewhere():
    page = Page(PAGE)
    assert [url for url in page.urls if not url.startswith(("#", "data:"))] == ["report/"]
    assert "style=" not in PAGE
    assert "innerHTML" not in PAGE
