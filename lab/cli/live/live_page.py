"""The live page: the same text for every command, whose script fetches the state and shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.report.page import csp

_FOLDER: Final = Path(__file__).parent
_STYLE: Final = Path(csp.__file__).with_name("page.css").read_text(encoding="utf-8") + (_FOLDER / "live.css").read_text(
    encoding="utf-8"
)
_SCRIPT: Final = (_FOLDER / "live.js").read_text(encoding="utf-8")

PAGE: Final = (
    (_FOLDER / "live.html").read_text(encoding="utf-8").replace("/* style */", _STYLE).replace("/* script */", _SCRIPT)
)
"""The page's HTML, with the report's style sheet."""

POLICY: Final = f"{csp.policy(scripts=[_SCRIPT], styles=[_STYLE])}; connect-src 'self'; frame-ancestors 'none'"
"""The page's policy: run its own script, and query its own server."""
