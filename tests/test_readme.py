from __future__ import annotations

import re


def test_the_tables_are_those_of_the_committed_runs(root, benchmark_script):
    script = benchmark_script("readme_tables")
    made, readme = script.tables(), (root / "README.md").read_text()
    assert all(text.count("\n") >= 4 for text in made.values())  # a head, a rule, two rows
    for name, text in made.items():
        assert f"{script.START.format(name)}{text}{script.END}" in readme, "run: python benchmarks/readme_tables.py"


def test_local_links_lead_somewhere(root):
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (root / name).read_text()
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (root / target).exists(), f"{name}: {target}"
