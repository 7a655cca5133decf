"""PyCUDA, played."""

from __future__ import annotations

from collections.abc import Iterator

import fake_pycuda
import pytest


@pytest.fixture
def cuda() -> Iterator[fake_pycuda.FakeDriver]:
    """`pycuda.driver` on host memory; import what uses it inside the test."""
    with fake_pycuda.installed() as driver:
        yield driver
