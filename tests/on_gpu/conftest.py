"""Tests that need a GPU: skipped, with the reason, where there is none."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def gpu():
    """The GPU that the worker will use."""
    from lab.gpu.device.describe import probe  # noqa: PLC0415 - not needed where everything is deselected

    found = probe()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def session(gpu):
    """A worker that a module's tests share."""
    from lab.gpu.process.session import GpuSession  # noqa: PLC0415

    with GpuSession() as shared:
        yield shared
