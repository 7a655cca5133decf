"""Texts and instruction mixes of files and variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import pytest

from lab.advice.finding import Rule
from lab.base.errors import UserError
from lab.cli import inspect
from lab.cli.inspect import InspectedListing, Inspection, emulate_words, execute_file, inspect_file, variants
from lab.cli.live.snapshot import Stage
from lab.emulator.monitor import LaunchMonitor

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 out)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
    ret;
}}
"""


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "k.ptx").write_text(PTX.format(name="k"))
    return tmp_path / "k.ptx"


def test_a_ptx_file_has_one_listing(kernel):
    found = inspect_file(kernel)
    assert [listing.isa for listing in found.listings] == ["ptx"]
    assert found.listings[0].kernels[0].name == "k"
    assert found.to_json()["kernels"][0]["by_class"]["st.global"] == 1
    with pytest.raises(UserError, match="has no sass"):
        found.to_json("sass")


def test_the_progress_of_an_inspection(kernel):
    """It is asked for here when a part of the work begins, and when the last one is over."""
    looks, seen = [], []

    def follow(look):
        looks.append(look)
        seen.extend(look())

    inspect_file(kernel, follow=follow)
    lines = kernel.read_text().count("\n") + 1
    assert [(stage.name, stage.done, stage.total) for stage in (*seen, *looks[-1]())] == [
        ("lines of PTX", 1, lines),
        ("kernels of PTX", 0, 1),
        ("kernels of PTX", 1, 1),
    ]
    assert looks[0]()[0].done == lines


def test_an_endless_launch_is_stopped_and_watched(kernel, monkeypatch):
    """A look at the clock takes a second."""
    monkeypatch.setattr(inspect, "LaunchMonitor", lambda limit_s: LaunchMonitor(limit_s, count().__next__))
    kernel.write_text(kernel.read_text().replace("ret;", "L: add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; bra L;"))
    looks: list[Callable[[], Sequence[Stage]]] = []
    emulation, outputs, _ = emulate_words(
        kernel, None, ("1", "32"), ["i32[32]=zeros"], limit_s=1000, follow=looks.append
    )
    assert [finding.kind for finding in emulation.findings] == ["unfinished"]
    assert outputs
    blocks, steps, faults = looks[-1]()
    assert (blocks.name, blocks.done, blocks.total) == ("blocks (interpreter)", 0, 1)
    assert (steps.name, steps.done) == ("instructions interpreted", emulation.steps)
    assert (faults.name, faults.done) == ("unfinished", 32)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot inspect this kind of file") as raised:
        inspect_file(tmp_path / "k.txt")
    assert raised.value.found == ".txt"


def test_a_cubin_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"missing\.cubin.*no such file"):
        inspect_file(tmp_path / "missing.cubin")


def test_arguments_as_text_and_as_arrays_give_the_same(kernel):
    out = np.zeros(64, np.int32)
    by_array = execute_file(kernel, None, 2, 32, [out[:32].copy()])
    by_text, *_ = emulate_words(kernel, "k", ("2", "32"), ["i32[32]=out"])
    assert by_array.clean
    assert by_text.clean
    assert by_array.counts == by_text.counts
    execute_file(kernel, "k", (1,), (64,), [out])
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("word", ["", "0", "1,2,3,4", "-1", "a", "1,,2"])
def test_a_malformed_size_is_refused(kernel, word):
    with pytest.raises(UserError, match="not a size") as raised:
        emulate_words(kernel, None, ("1", word), ["i32[32]=out"])
    assert raised.value.key == "--block"


def test_the_kernel_must_be_named_where_there_are_several(tmp_path):
    both = PTX.format(name="first") + PTX.format(name="second").split(".address_size 64\n")[1]
    (tmp_path / "k.ptx").write_text(both)
    with pytest.raises(UserError, match="name one") as raised:
        emulate_words(tmp_path / "k.ptx", None, ("1", "32"), ["i32[32]=out"])
    assert raised.value.accepted == ["first", "second"]
    with pytest.raises(UserError, match="no such kernel") as raised:
        emulate_words(tmp_path / "k.ptx", "frist", ("1", "32"), ["i32[32]=out"])
    assert "first" in raised.value.suggestion


def test_variants_are_planned_for_named_architectures(root):
    found = variants(root / "experiments" / "gemm_unroll.yaml")
    assert len({one.variant for one in found}) == len(found) > 1
    assert {one.request.arch for one in found} == {"sm_90"}
    with pytest.raises(UserError, match="max-variants"):
        variants(root / "experiments" / "gemm_unroll.yaml", 1)


def test_an_inspection_without_listings_says_so():
    with pytest.raises(UserError, match="k has no ptx"):
        Inspection("k", None, ()).to_json("ptx")
    assert Inspection("k", None, (InspectedListing("ptx", "", ()),)).to_json()["kernels"] == []


SPARSE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 128;
    add.s64 %rd3, %rd1, %rd2;
    div.u32 %r2, %r1, 3;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def test_advice_says_what_an_execution_shows_and_what_the_text_does(tmp_path):
    file = tmp_path / "sparse.ptx"
    file.write_text(SPARSE)
    *_, advice = emulate_words(file, None, ("1", "32"), ["i32[1024]=zeros"])
    assert [one.rule for one in advice.findings] == [Rule.UNCOALESCED]
    assert advice.findings[0].place.ptx == 13
    shown = inspect_file(file).advice
    assert shown is not None
    assert shown.findings == ()
    assert Rule.UNCOALESCED in {one.rule for one in shown.skipped}
    assert Rule.DIVISION not in {one.rule for one in shown.skipped}
