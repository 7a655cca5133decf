"""Libraries of real kernels, compiled once a module."""

from __future__ import annotations

import pytest
from real_libraries import write_library


@pytest.fixture(scope="module", params=["nn", "nt", "tn", "tt"])
def library(gpu, request, tmp_path_factory):
    """Layout, folder, and the sizes of which every kernel is the pick of some."""
    folder = tmp_path_factory.mktemp("library")
    return request.param, folder, write_library(request.param, gpu.arch, folder)


@pytest.fixture(scope="module")
def nn(gpu, tmp_path_factory):
    """Folder and sizes of the library of layout nn."""
    folder = tmp_path_factory.mktemp("library")
    return folder, write_library("nn", gpu.arch, folder)


@pytest.fixture(scope="module")
def driver(gpu):
    """PyCUDA's driver with the primary context current, as torch and others have it."""
    from pycuda import driver  # noqa: PLC0415 - missing where everything is skipped

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    yield driver
    driver.Context.pop()
