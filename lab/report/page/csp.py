"""The page's Content-Security-Policy: only its own scripts and styles run, identified by their hashes.

A page shows texts of other people (kernels, labels, logs). If one of them ever came through as markup, the browser
would not run, load or send anything because of it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import sha256


def policy(*, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the content of the page's `meta` element.

    No script evaluates text: Vega Embed brings an interpreter for the expressions of our charts, which its option
    `ast` uses in place of `Function`. Pictures may come from beside the page; `'self'` means nothing on a page that was
    opened as a file.

    Args:
        scripts: Text of each script, exactly as it stands in the page or is added to it; a page without any runs none.
        styles: Text of each style sheet, likewise.
    """
    ours = [*map(_hash, scripts)]
    directives = {
        "default-src": ["'none'"],
        "script-src": ours or ["'none'"],
        "style-src": [*map(_hash, styles)],
        "img-src": ["'self'", "file:", "data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in directives.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
