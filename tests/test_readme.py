from __future__ import annotations

import re


def test_local_links_lead_somewhere(root):
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (root / name).read_text()
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (root / target).exists(), f"{name}: {target}"
