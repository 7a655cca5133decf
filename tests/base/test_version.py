from __future__ import annotations

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import lab
from lab.base.version import VERSION


def test_it_is_the_version_of_the_package(root):
    assert ProjectMetadata(str(root), PluginManager()).version == lab.__version__ == VERSION
