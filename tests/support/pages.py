"""A report's page as tests read it."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


def unpack(blob: str) -> str:
    """A text that the page embeds."""
    return gzip.decompress(base64.b64decode(blob)).decode()


class Page(HTMLParser):
    """A parsed page with the elements that the tests check."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: dict[str, str] = {}
        self.urls: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._inside: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        self.urls += [url for name in ("src", "href", "action", "data") if (url := attributes.get(name))]
        if tag == "script":
            self.scripts.append(attributes)
        if tag not in ("meta", "link", "br", "img", "input"):
            self._inside.append((tag, attributes.get("id")))

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, name in self._inside:
            if name:
                self.ids[name] = self.ids.get(name, "") + data
        if not any(tag in ("script", "style") for tag, _ in self._inside):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def json(self, name: str) -> Any:
        return json.loads(self.ids[name])

    def links(self) -> set[str]:
        """Files that the page or its script links to, relative to it."""
        fixed = {url for url in self.urls if not url.startswith(("#", "data:"))}
        data = self.json("data")
        place = [column["name"] for column in data["columns"]].index("variant")
        sets, of = data["beside"]["sets"], data["beside"]["of"]
        variants = {
            f"variants/{row[place]}/{name}"
            for row, chosen in zip(data["rows"], of, strict=True)
            for name in sets[chosen]
        }
        return fixed | variants


def read_page(file: Path) -> Page:
    """The page in a file."""
    return Page(file.read_text(encoding="utf-8"))
