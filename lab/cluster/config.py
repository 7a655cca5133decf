"""The user's own configuration: which cluster is meant when the command line does not say."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field

from lab.base import yamlfile
from lab.base.validation import Strict, validate


class ClusterModel(Strict):
    """The key `cluster`.

    Attributes:
        address: `local`, or the scheduler's address; empty for this machine's first GPU.
        keys: Folder that `lab cluster keys` made; a relative one starts from the configuration file's folder.
        insecure: Connect without TLS.
        jobs: Most pieces of CPU work at a time.
    """

    address: str = ""
    keys: str = ""
    insecure: bool = False
    jobs: int | None = Field(default=None, ge=1)


class ConfigModel(Strict):
    """A configuration file."""

    cluster: ClusterModel = ClusterModel()


def default_file() -> Path:
    """Return where the configuration is looked for on this system."""
    return Path(platformdirs.user_config_dir("lab", appauthor=False)) / "config.yaml"


def configured(file: Path | None = None) -> ClusterModel:
    """Read the configuration; without a file, everything is as usual.

    Args:
        file: The file; the user's by default.

    Raises:
        UserError: Something is wrong with it; the error has file and line.
    """
    file = file or default_file()
    if not file.exists():
        return ClusterModel()
    document = yamlfile.parse(yamlfile.read_text(file, what="the configuration"), file)
    found = validate(ConfigModel, document).cluster
    if found.keys:
        found = found.model_copy(update={"keys": str(file.parent / Path(found.keys).expanduser())})
    return found
