from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import CompileError
from lab.toolchain.cubin import image
from lab.toolchain.own import build_own, compiled

SOURCE = 'extern "C" __global__ void mine(float *x) { x[threadIdx.x] = 1; }'


def test_the_cubin_holds_the_kernel() -> None:
    assert set(image.kernels(compiled(SOURCE, "mine.cu", "sm_90"))) == {"mine"}


def test_a_build_has_the_ptx_of_the_same_kernel() -> None:
    built = build_own(SOURCE, "mine.cu", "sm_80")
    assert ".visible .entry mine(" in built.ptx
    assert built.cubin == compiled(SOURCE, "mine.cu", "sm_80")
    assert (built.toolchain, built.arch) == ("nvrtc", "sm_80")


def test_nothing_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    compiled(SOURCE, "mine.cu", "sm_90")
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_and_line() -> None:
    with pytest.raises(CompileError, match=r'^mine\.cu\(2\): error: identifier "y" is undefined'):
        compiled('\nextern "C" __global__ void mine() { y = 1; }', "mine.cu", "sm_90")
