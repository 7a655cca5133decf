"""Readings are kept: an equal one comes from the cache, equal in every field, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.stages import reading
from lab.stages.reading import ListingError, key_of, read_listings
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

SOURCE = """extern "C" __global__ void k(float* x, int n)
{
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) s = s * x[i] + 1;
    x[threadIdx.x] = s;
}
"""


@pytest.fixture(scope="module")
def made():
    return build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90"))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_reading_is_kept_and_read_as_it_was(made, cache, monkeypatch):
    first = read_listings(made.build, made.disassembly, ("k",))
    assert first.sass["k"].hot_loop is not None
    assert first.loops["k"].hot
    assert first.sass["k"].chains["body"].stalls
    assert first.sass["k"].chains[first.sass["k"].hot_name].global_loads
    assert len(list(cache.glob("*.entry"))) == 1
    monkeypatch.setattr(reading, "read_ptx", None)  # what would read it again
    assert read_listings(made.build, made.disassembly, ("k",)) == first


@pytest.mark.parametrize("change", ["arch", "ptx", "cubin", "text", "version", "entries", "program"])
def test_whatever_decides_a_reading_is_in_its_key(made, monkeypatch, change):
    build, listed, entries = made.build, made.disassembly, tuple("k")
    before = key_of(build, listed, entries)
    if change == "arch":
        build = replace(build, arch="sm_80")
    elif change == "ptx":
        build = replace(build, ptx=build.ptx + "\n")
    elif change == "cubin":
        build = replace(build, cubin=build.cubin + b"\0")
    elif change == "program":
        monkeypatch.setattr(reading, "program", lambda: "a later one")
    elif change == "entries":
        entries = ("k", "another")
    else:
        listed = replace(listed, **{change: getattr(listed, change) + "\n"})
    assert key_of(build, listed, entries) != before


def test_a_damaged_entry_is_read_again(made, cache):
    first = read_listings(made.build, made.disassembly, ("k",))
    (entry,) = cache.glob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-1])
    assert read_listings(made.build, made.disassembly, ("k",)) == first


def test_a_kernel_that_is_not_there_is_named_and_nothing_is_kept(made, cache):
    with pytest.raises(ListingError, match="no kernel `other`; it has `k`"):
        read_listings(made.build, made.disassembly, ("other",))
    assert not list(cache.glob("*.entry"))
