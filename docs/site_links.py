"""mkdocs hook for links that leave docs/: images are copied into the site, other files become paths of the repository.

Where mkdocs.yml names a `repo_url`, the paths are links to it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401 - mkdocs's types
    """Replace the links of a page that lead outside of the site."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/"):
            return link[0]
        if image:
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(Path(config.docs_dir).parent / path)))
            return f"![{text}]({posixpath.relpath(path, folder)})"
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path})" if config.repo_url else f"{text} (`{path}`)"

    return _LINK.sub(replaced, markdown)
