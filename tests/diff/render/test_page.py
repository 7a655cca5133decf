from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources

from diff_support import comparison

from lab.diff.render.page import page


def test_both_listings_side_by_side():
    text = page(comparison())
    assert '<td class="new">' in text
    assert "Content-Security-Policy" in text
    assert "script-src &#39;none&#39;" in text or "script-src 'none'" in text
    assert "sm_80 is missing in HEAD" in text


def test_names_are_escaped():
    result = comparison()
    text = page(replace(result, changes=(replace(result.changes[0], name="<script>alert(1)</script>"),)))
    assert "<script>" not in text


def test_own_classes_are_not_laid_out_by_the_stylesheet_of_reports():
    report = (resources.files("lab.report") / "page" / "page.css").read_text(encoding="utf-8")
    own = (resources.files("lab.diff") / "render" / "page.css").read_text(encoding="utf-8")
    for name in set(re.findall(r"^\.([\w-]+)", own, re.MULTILINE)):
        assert f'class="{name}"' in page(comparison())
        assert not re.search(rf"^\.{name} \{{", report, re.MULTILINE)
