"""Tensor maps that a kernel makes in shared memory and copies to global memory, as Triton's tensor descriptors are."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import Buffer

FIELDS = """
replace.tile.global_address.shared::cta.b1024.b64 [ %rd5 + 0 ], %rd1;
replace.tile.rank.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x1;
replace.tile.box_dim.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0, %r4;
replace.tile.box_dim.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x1, %r5;
replace.tile.global_dim.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0, %r6;
replace.tile.global_dim.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x1, %r7;
replace.tile.global_stride.shared::cta.b1024.b64 [ %rd5 + 0 ], 0x0, %rd6;
replace.tile.element_stride.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0, %r8;
replace.tile.element_stride.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x1, %r8;
replace.tile.elemtype.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x2;
replace.tile.interleave_layout.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0;
replace.tile.swizzle_mode.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0;
replace.tile.fill_mode.shared::cta.b1024.b32 [ %rd5 + 0 ], 0x0;
""".strip().splitlines()
"""A matrix of 3 rows with 20 elements of 32 bits, 24 apart, in boxes of 2 rows with 16 elements."""

PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%rd5], 128;"


FENCE = "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;"


def text(fields=FIELDS, publish=PUBLISH, fence=FENCE):
    instructions = "\n".join(f"@%p0 tensormap.{field}" for field in fields)
    return f"""{HEADER}.visible .entry k(.param .u64 x, .param .u64 out, .param .u64 map)
{{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.shared .align 1024 .b8 tile[128]; .shared .align 128 .b8 room[128]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [map];
mov.u32 %r3, room; cvt.u64.u32 %rd5, %r3; shl.b32 %r9, %r0, 2; add.u32 %r10, %r3, %r9; mov.b32 %r11, 0;
st.shared.b32 [%r10], %r11; bar.warp.sync 0xffffffff;
mov.b32 %r4, 16; mov.b32 %r5, 2; mov.b32 %r6, 20; mov.b32 %r7, 3; mov.b32 %r8, 1; mov.b64 %rd6, 96;
{instructions}
bar.warp.sync 0xffffffff;
{publish}
{fence}
@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 fence.proxy.async; bar.sync 0;
mov.b32 %r12, 8; mov.b32 %r13, 2;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{%r12, %r13}}], [%r2];
AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra AGAIN;
add.u32 %r10, %r1, %r9; ld.shared.u32 %r11, [%r10]; cvt.u64.u32 %rd7, %r9; add.u64 %rd7, %rd2, %rd7;
st.global.u32 [%rd7], %r11;
ret;
}}
"""


def fetched(source):
    matrix = np.arange(1, 3 * 24 + 1, dtype=np.uint32).reshape(3, 24)
    out = np.zeros(32, np.uint32)
    room = Buffer(np.full(128, 0xFF, np.uint8), initialised=False)
    return matrix, out, launch(source, "k", 1, 32, [matrix, out, room])


def test_a_box_of_a_matrix_that_the_kernel_describes():
    matrix, out, emulation = fetched(text())
    assert emulation.clean, emulation.findings
    wanted = np.zeros((2, 16), np.uint32)
    wanted[0, :12] = matrix[2, 8:20]  # what lies behind the matrix's 20 columns and 3 rows is zero
    np.testing.assert_array_equal(out.reshape(2, 16), wanted)


@pytest.mark.parametrize("without", ["rank", "elemtype", "global_address"])
def test_a_map_that_lacks_a_field(without):
    """Unset fields are zero: the map is invalid without a rank, and address 0 holds no data."""
    _, out, emulation = fetched(text([one for one in FIELDS if f".{without}." not in one]))
    assert without == "elemtype" or [finding.kind for finding in emulation.findings][:1] == ["out-of-bounds"]
    assert not out.any()


def test_a_map_that_only_shared_memory_has():
    _, _, emulation = fetched(text(publish=""))
    assert (emulation.findings[0].kind, "no tensor map" in str(emulation.findings[0])) == ("out-of-bounds", True)


@pytest.mark.parametrize(
    ("publish", "fence"),
    [
        (PUBLISH, ""),
        (FENCE + PUBLISH, ""),  # before the map is what it will be
        (PUBLISH, FENCE.replace("acquire", "release").replace("[%rd3], 128", "")),
        (PUBLISH, FENCE.replace("[%rd3]", "[%rd1]")),  # of another address
    ],
)
def test_a_map_that_threads_wrote_is_acquired_before_its_use(publish, fence):
    _, _, emulation = fetched(text(publish=publish, fence=fence))
    [found] = emulation.findings
    assert found.kind == "missing-proxy-fence"
    assert "a tensor map that threads wrote, without a fence.proxy.tensormap::generic.acquire of it since" in str(found)
    assert found.other is not None


def test_one_thread_acquires_a_map_for_its_block():
    _, _, emulation = fetched(text(fence=f"@%p0 {FENCE}"))
    assert emulation.clean, emulation.findings
    assert emulation.notes == ()


def test_an_acquire_names_a_whole_map():
    with pytest.raises(UnsupportedInstruction, match="64 bytes; a tensor map has 128"):
        fetched(text(fence=FENCE.replace("128", "64")))


def test_a_map_that_leaves_out_elements():
    _, _, emulation = fetched(text([*FIELDS, FIELDS[7].replace("%r8", "%r5")]))
    assert emulation.findings[0].kind == "out-of-bounds"


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("replace.tile.interleave_layout.shared::cta.b1024.b32 [%rd5], 0x1;", "interleaving"),
        ("replace.tile.fill_mode.shared::cta.b1024.b32 [%rd5], 0x1;", "a fill with other values than zeros"),
        ("replace.tile.elemtype.shared::cta.b1024.b32 [%rd5], 0xd;", "elemtype 13"),
        ("replace.tile.swizzle_mode.shared::cta.b1024.b32 [%rd5], 0x4;", "swizzle_mode 4"),
        ("replace.tile.box_dim.shared::cta.b1024.b32 [%rd5], 0x5, %r4;", "dimension 5 of a tensor map"),
        ("replace.im2col.rank.shared::cta.b1024.b32 [%rd5], 0x1;", "none of .tile"),
        ("other.tile [%rd5];", "other"),
    ],
)
def test_what_is_not_known_is_refused(field, part):
    with pytest.raises(UnsupportedInstruction, match=part):
        fetched(text([*FIELDS, field]))


def test_a_copy_of_another_size_is_refused():
    with pytest.raises(UnsupportedInstruction, match="a tensor map has 128"):
        fetched(text(publish=PUBLISH.replace("128", "64")))
