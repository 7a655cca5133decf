"""The user's configuration: the default cluster of the command line."""

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
        keys: Folder made by `lab cluster keys`; a relative path starts from the configuration file's folder.
        insecure: Connect without TLS.
        jobs: Maximum number of concurrent CPU tasks.
    """

    address: str = ""
    keys: str = ""
    insecure: bool = False
    jobs: int | None = Field(default=None, ge=1)


class ConfigModel(Strict):
    """A configuration file."""

    cluster: ClusterModel = ClusterModel()


def default_file() -> Path:
    """Return the path of the configuration file on this system."""
    return Path(platformdirs.user_config_dir("lab", appauthor=False)) / "config.yaml"


def configured(file: Path | None = None) -> ClusterModel:
    """Read the configuration; return the defaults if there is no file.

    Args:
        file: The file; the user's by default.

    Raises:
        UserError: The file is invalid; the error has file and line.
    """
    file = file or default_file()
    if not file.exists():
        return ClusterModel()
    document = yamlfile.parse(yamlfile.read_text(file, label="the configuration"), file)
    settings = validate(ConfigModel, document).cluster
    if settings.keys:
        settings = settings.model_copy(update={"keys": str(file.parent / Path(settings.keys).expanduser())})
    return settings
