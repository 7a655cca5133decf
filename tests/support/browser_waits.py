"""Wait until an expression holds in a page whose policy forbids `eval`."""

from __future__ import annotations

import time
from typing import Any

LIMIT_S = 15.0


def wait_until(page: Any, expression: str) -> None:
    """Ask the page until a JavaScript expression is true; `AssertionError` names one that stays false for 15 s.

    Playwright's own `wait_for_function` evaluates a string again from a timer of the page. The page's policy forbids
    that, so that it fails wherever the expression does not hold at once. What the driver asks is not forbidden.
    """
    end = time.monotonic() + LIMIT_S
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < end, f"the page never met: {expression}"
        page.wait_for_timeout(20)
