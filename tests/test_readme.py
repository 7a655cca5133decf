from __future__ import annotations

import re


def test_local_links_lead_somewhere(root):
    for page in (root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_index_of_the_documentation_has_every_page(root):
    listed = set(re.findall(r"\]\((\S+\.md)\)", (root / "docs" / "README.md").read_text()))
    assert {page.name for page in (root / "docs").glob("*.md")} - {"README.md"} <= listed


def test_the_readme_is_short(root):
    assert len((root / "README.md").read_text().splitlines()) <= 140
