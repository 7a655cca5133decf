"""Imports of the process that paints charts."""

from __future__ import annotations

import subprocess
import sys

from lab.base import workers
from lab.runs.ahead import PAINTERS


def test_a_painter_imports_nothing_of_what_makes_the_page_or_reads_code():
    code = (
        f"import sys, {', '.join(PAINTERS)}; print([n for n in ('altair', 'jsonschema', 'jinja2') if n in sys.modules])"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=workers.environment()
    )
    assert asked.stdout.strip() == "[]"
