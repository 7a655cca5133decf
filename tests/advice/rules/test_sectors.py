"""Strided, scattered and misaligned accesses to global memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from advice_support import executed, modelled, module

from lab.advice.finding import Rule
from lab.advice.rules.sectors import find, undecided


def load(stride: int, offset: int = 0):
    """A kernel whose lanes load floats a stride apart, in source line 4."""
    return module(
        f"""
        L3  mov.u32 %r1, %tid.x;
        ld.param.u64 %rd1, [in];
        ld.param.u64 %rd5, [out];
        L4  mul.wide.u32 %rd2, %r1, {stride};
        add.s64 %rd3, %rd1, %rd2;
        ld.global.f32 %f1, [%rd3+{offset}];
        L5  mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd6, %rd5, %rd4;
        st.global.f32 [%rd6], %f1;
        """
    )


def findings(stride: int, offset: int = 0, **work):
    data, out = np.zeros(4096, np.float32), np.zeros(32, np.float32)
    evidence = executed(load(stride, offset), [data, out])
    return list(find(modelled(evidence, **work) if work else evidence))


@pytest.mark.parametrize(
    ("stride", "cause", "remedy"),
    [
        (28, "28 sectors per load request instead of 4, lanes 28 bytes apart, 14% of the bytes used", "SoA"),
        (256, "32 sectors per load request instead of 4, lanes 256 bytes apart", "threadIdx.x run along"),
        (64, "32 sectors per load request instead of 4, lanes 64 bytes apart", "neighbouring threads"),
    ],
)
def test_strided_load_names_sectors_stride_and_remedy(stride, cause, remedy):
    (found,) = findings(stride)
    assert found.rule is Rule.UNCOALESCED
    assert found.place.source is not None
    assert found.place.source.line == 4
    assert found.cause.startswith(cause)
    assert remedy in found.remedy


def test_load_from_within_a_sector_is_misaligned():
    (found,) = findings(4, offset=12)
    assert found.rule is Rule.MISALIGNED
    assert found.cause == "5 sectors per load request instead of 4, the warp's first byte is 12 bytes into a sector"


@pytest.mark.parametrize(("stride", "offset"), [(4, 0), (4, 32), (0, 0)])
def test_full_sectors_and_broadcasts_are_no_finding(stride, offset):
    assert findings(stride, offset) == []


def test_gain_is_that_of_the_sectors():
    (found,) = findings(256, load_sectors=4e9, load_bytes=1.6e10)
    # an eighth of the sectors, which L2 sends at 36 bytes a cycle and not at 20 as it does scattered ones
    assert found.gain == pytest.approx(8 * 36 / 20, rel=0.05)


def sized(offset: int, *sizes: tuple[int, int]):
    data, out = np.zeros(4096, np.float32), np.zeros(32, np.float32)
    return replace(executed(load(4, offset), [data, out]), sizes=sizes)


def test_alignment_of_an_awkward_executed_size_says_nothing_of_the_real_one():
    awkward = sized(12, (8192, 130))
    assert list(find(awkward)) == []
    assert [one.rule for one in undecided(awkward)] == [Rule.MISALIGNED]
    assert undecided(sized(0, (8192, 130))) == ()
    like = sized(12, (8192, 128))
    assert [one.rule for one in find(like)] == [Rule.MISALIGNED]
    assert undecided(like) == ()


def test_awkward_real_size_may_hide_behind_an_even_executed_one():
    assert [one.rule for one in undecided(sized(0, (1001, 128)))] == [Rule.MISALIGNED]
    assert undecided(sized(0, (1001, 77))) == ()


def test_stride_is_marked_as_that_of_the_executed_size():
    data, out = np.zeros(4096, np.float32), np.zeros(32, np.float32)
    evidence = executed(load(256), [data, out])
    (found,) = find(replace(evidence, sizes=((8192, 64),)))
    assert "lanes 256 bytes apart at the executed size" in found.cause
