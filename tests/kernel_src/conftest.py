"""A kernel that is executed at many sizes is read once."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from lab.isa.ptx.module import read_ptx
from lab.stages import emulate


@pytest.fixture(scope="package", autouse=True)
def _a_kernel_is_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulate, "read_ptx", functools.lru_cache(maxsize=8)(read_ptx))
        yield
