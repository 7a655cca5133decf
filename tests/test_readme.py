from __future__ import annotations

import re


def test_local_links_lead_somewhere(root):
    pages = (root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md"))
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_index_and_the_navigation_have_every_page(root):
    docs = root / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert pages - {"README.md"} <= set(re.findall(r"\]\((\S+\.md)\)", (docs / "README.md").read_text()))
    assert pages == set(re.findall(r": (\S+\.md)$", (root / "mkdocs.yml").read_text(), re.MULTILINE))


def test_the_readme_is_short(root):
    assert len((root / "README.md").read_text().splitlines()) <= 140
