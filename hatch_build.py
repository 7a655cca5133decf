"""The build hook: writes the commit that a wheel or a source archive is built from into its `lab/`."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `lab/commit.txt`. An editable installation asks git instead."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file where the tree is a clone; a source archive has it already."""
        facts = runpy.run_path(str(Path(self.root, "lab", "base", "version.py")))
        commit = facts["commit_of"](Path(self.root))
        if version == "editable" or not commit:
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, facts["COMMIT_FILE"])
        file.write_text(f"{commit}\n", encoding="utf-8")
        build_data["force_include"][str(file)] = f"lab/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove the temporary file."""
        if self._folder is not None:
            self._folder.cleanup()
