from __future__ import annotations

from dataclasses import replace

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
