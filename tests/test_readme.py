from __future__ import annotations

import importlib.util
import re


def test_the_ladder_table_is_that_of_the_committed_run(root):
    spec = importlib.util.spec_from_file_location("readme_ladder", root / "benchmarks" / "readme_ladder.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = script.table(root / "reports" / "h200" / "gemm_ladder" / "records.csv")
    assert f"{script.START}{made}{script.END}" in (root / "README.md").read_text(), (
        "run: python benchmarks/readme_ladder.py"
    )


def test_local_links_lead_somewhere(root):
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (root / name).read_text()
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (root / target).exists(), f"{name}: {target}"
