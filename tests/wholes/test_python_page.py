"""The examples of docs/reference/python.md, executed one after another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


def test_the_examples_run(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    whole = "\n".join(blocks)
    script = "def main():\n" + "".join(f"    {line}\n" if line else "\n" for line in whole.splitlines())
    script = script.replace('    SOURCE = """\n    ', '    SOURCE = """\n')
    (tmp_path / "page.py").write_text(f'{script}\n\nif __name__ == "__main__":\n    main()\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report: reports/saxpy/index.html" in done.stdout
    assert (tmp_path / "reports" / "saxpy" / "index.html").is_file()
