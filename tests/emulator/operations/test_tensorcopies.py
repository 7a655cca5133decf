"""Boxes of tensors of one to five dimensions: fetched, swizzled, stored, sent to several blocks."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import Buffer, TensorMapArgument
from lab.hardware.tensormaps import PixelBox

SETUP = """
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; ld.param.u64 %rd1, [out];
ld.param.u32 %r3, [x]; ld.param.u32 %r4, [y];
@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 fence.proxy.async; bar.sync 0;
"""
WAIT = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra AGAIN;"
COPY = "LOOP: add.u32 %r10, %r1, %r9; ld.shared.u32 %r11, [%r10]; cvt.u64.u32 %rd2, %r9; add.u64 %rd2, %rd3, %rd2;"
COPY += " st.global.u32 [%rd2], %r11; add.u32 %r9, %r9, 128; setp.lt.u32 %p2, %r9, BYTES; @%p2 bra LOOP;"


def text(body, cluster=""):
    parameters = ".param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y"
    return f"{HEADER}.visible .entry k({parameters}) {cluster}\n{{ {SETUP} {body} ret; }}\n"


def load(rank, size):
    coordinates = ", ".join(["%r3", "%r4", "0", "1", "0"][:rank])
    one = f"@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {size};"
    one += f"@%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    one += f"[%r1], [%rd0, {{{coordinates}}}], [%r2];"
    move = "mov.u64 %rd3, %rd1; shl.b32 %r9, %r0, 2;" + COPY.replace("BYTES", str(size))
    return text(one + WAIT + move)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_a_box_of_every_rank(rank):
    shape = (2, 3, 4, 6, 40)[-rank:]
    tensor = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    box = (32, 4, 2, 1, 2)[:rank]
    extents = shape[::-1]
    outer = tuple(int(np.prod(extents[: i + 1])) for i in range(1, rank - 1))
    argument = TensorMapArgument(Buffer(tensor), extents, extents[0], box, outer=outer)
    size = int(np.prod(box)) * 4
    out = np.zeros(size // 4, np.float32)
    emulation = launch(load(rank, size), "k", 1, 32, [argument, out, np.uint32(12), np.uint32(3)])
    assert emulation.clean, emulation.findings
    corner = (12, 3, 0, 1, 0)[:rank][::-1]
    padded = np.pad(tensor, [(0, length) for length in box[::-1]])
    part = padded[tuple(slice(at, at + length) for at, length in zip(corner, box[::-1], strict=True))]
    np.testing.assert_array_equal(out, part.reshape(-1))
    assert emulation.fetched_by_map == (size,)  # with what lies beyond the tensor


MATRIX = np.arange(6 * 32, dtype=np.uint32).reshape(6, 32)
OF_MATRIX = TensorMapArgument(Buffer(MATRIX), (30, 6), 32, (16, 4))
ACQUIRE = "fence.proxy.tensormap::generic.acquire.sys [%rd0], 128;"


def by_pointer(source, fence=ACQUIRE):
    """Return a kernel's text in which the map lies in global memory."""
    by_value = (".param .align 64 .b8 map[128]", "mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;")
    assert all(one in source for one in by_value)
    return source.replace(by_value[0], ".param .u64 map").replace(by_value[1], f"ld.param.u64 %rd0, [map]; {fence}")


def fetched_by_pointer(source, argument=OF_MATRIX, at=(20, 4)):
    out = np.zeros(64, np.uint32)
    emulation = launch(source, "k", 1, 32, [argument, out, *np.array(at, np.uint32)])
    return emulation, out.reshape(4, 16)


def test_a_map_lies_in_global_memory():
    emulation, out = fetched_by_pointer(by_pointer(load(2, 256)))
    assert emulation.clean, emulation.findings
    assert emulation.notes == ()
    expected = np.zeros((4, 16), np.uint32)
    expected[:2, :10] = MATRIX[4:, 20:30]
    np.testing.assert_array_equal(out, expected)
    assert emulation.fetched_by_map == (256,)
    assert emulation.counts.memory["global.copy"].sectors == 2 * 2  # two rows of 40 bytes, at multiples of 16


def test_a_map_that_the_host_alone_wrote_is_noted_where_a_block_does_not_acquire_it():
    for fence, noted in (("", True), ("@%p0 " + ACQUIRE, False), ("prefetch.tensormap [%rd0];", True)):
        emulation, _ = fetched_by_pointer(by_pointer(load(2, 256), fence))
        assert emulation.clean, emulation.findings
        assert [UNFENCED in note for note in emulation.notes] == [True] * noted


UNFENCED = "a tensor map in global memory without a fence.proxy.tensormap::generic.acquire of it"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("expect_tx.shared.b64 _, [%r2], 256", "expect_tx.shared.b64 _, [%r2], 240", "mbarrier-deadlock"),
        ("expect_tx.shared.b64 _, [%r2], 256", "expect_tx.shared.b64 _, [%r2], 272", "mbarrier-deadlock"),
        ("[%rd0, {%r3", "[%rd0+64, {%r3", "out-of-bounds"),  # no map begins there
        (WAIT, "", "async-not-waited"),
        (".2d.", ".3d.", "out-of-bounds"),
    ],
)
def test_faults_with_a_map_in_global_memory(old, new, kind):
    source = by_pointer(load(2, 256)).replace(old, new)
    source = source.replace("{%r3, %r4}", "{%r3, %r4, 0}") if ".3d." in new else source
    emulation, _ = fetched_by_pointer(source)
    assert kind in [finding.kind for finding in emulation.findings]


def test_a_store_by_a_map_in_global_memory_is_watched():
    body = STORE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT)
    for after, kinds in ((DONE.replace(".read", ""), []), ("", ["async-not-waited"])):
        matrix, out = np.full((6, 32), 99, np.uint32), np.zeros(1, np.uint32)
        argument = TensorMapArgument(Buffer(matrix), (30, 6), 32, (16, 4))
        source = by_pointer(text(body.replace("AFTER", after)))
        emulation = launch(source, "k", 1, 32, [argument, out, np.uint32(20), np.uint32(4)])
        assert [finding.kind for finding in emulation.findings] == kinds
        assert matrix[4, 20] == 0


def test_a_kernel_that_writes_a_map_in_global_memory_acquires_it():
    """`tensormap.replace` changes the number of rows: behind it, the row that is no more is zero."""
    change = "@%p0 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd0], 1, 5; bar.warp.sync -1; "
    for text_, kinds in ((change + ACQUIRE, []), (ACQUIRE + change, ["missing-proxy-fence"])):
        emulation, out = fetched_by_pointer(by_pointer(load(2, 256), text_.replace("@%p0 ", "")))
        assert [finding.kind for finding in emulation.findings] == kinds
        assert (out[0, 0], out[1, 0]) == (MATRIX[4, 20], 0)


def load_pixels(rank, size, coordinates, offsets):
    copied = load(rank, size)
    start = copied.index("[%r1], [%rd0, {")
    end = copied.index("[%r2];", start) + len("[%r2];")
    moved = f"[%r1], [%rd0, {{{', '.join(map(str, coordinates))}}}], [%r2], {{{', '.join(map(str, offsets))}}};"
    return (copied[:start] + moved + copied[end:]).replace(".tile.", ".im2col.")


def column(images, box, size, base, offsets):
    """Return the im2col copy of (images, ..space, channels), pixel by pixel along each row of the bounding box."""
    space, (channels, pixels) = images.shape[1:-1], size
    lower, upper, steps = (part[::-1] for part in (box.lower, box.upper, box.steps))
    ends = [extent - 1 + high for extent, high in zip(space, upper, strict=True)]
    at, image, gathered = list(base[1:-1][::-1]), base[-1], np.zeros((pixels, channels), images.dtype)
    for pixel in range(pixels):
        place = [one + shift for one, shift in zip(at, offsets[::-1], strict=True)]
        inside = all(0 <= one < extent for one, extent in zip(place, space, strict=True)) and 0 <= image < len(images)
        for channel in range(channels):
            if inside and 0 <= base[0] + channel < images.shape[-1]:
                gathered[pixel, channel] = images[(image, *place, base[0] + channel)]
        for i in range(len(at) - 1, -1, -1):
            at[i] += steps[i]
            if at[i] <= ends[i]:
                break
            at[i] = lower[i]
        else:
            image += 1
    return gathered


IMAGES = np.arange(1, 3 * 2 * 4 * 5 * 12 + 1, dtype=np.uint32).reshape(3, 2, 4, 5, 12)  # N, D, H, W, C
COLUMNS = [  # tensor, box of pixels, channels and pixels of a copy, base, offsets: the contiguous dimension first
    (IMAGES[:, 0, 0], PixelBox((0,), (0,), (1,)), (8, 9), (4, 2, 0), (0,)),
    (IMAGES[:, 0, 0], PixelBox((-1,), (1,), (3,)), (4, 12), (-4, 2, 1), (2,)),
    (IMAGES[:, 0], PixelBox((-1, -1), (-1, -1), (1, 1)), (8, 40), (0, -1, -1, 0), (0, 0)),  # padded by 1, first tap
    (IMAGES[:, 0], PixelBox((-1, -1), (-1, -1), (1, 1)), (8, 40), (0, -1, -1, 0), (2, 1)),  # another tap
    (IMAGES[:, 0], PixelBox((0, 0), (-2, -2), (1, 1)), (12, 16), (0, 1, 1, 0), (2, 2)),  # not padded, from the middle
    (IMAGES[:, 0], PixelBox((-1, -1), (-1, -1), (2, 2)), (8, 12), (8, 1, -1, 1), (1, 1)),  # two steps at a time
    (IMAGES, PixelBox((-1, 0, -1), (0, 0, 0), (1, 2, 1)), (4, 60), (4, 3, 2, -1, 0), (1, 0, 1)),
    (IMAGES, PixelBox((0, 0, 0), (0, 0, 0), (1, 1, 1)), (4, 20), (0, 0, 3, 1, 2), (0, 0, 0)),  # beyond the last image
]


def of_images(images, box, size, swizzle=0):
    images = np.ascontiguousarray(images)
    extents = images.shape[::-1]
    strides = tuple(int(np.prod(extents[: i + 1])) for i in range(len(extents) - 1))
    argument = TensorMapArgument(Buffer(images), extents, strides[0], size, swizzle, strides[1:], pixels=box)
    return images, argument


@pytest.mark.parametrize(("images", "box", "size", "base", "offsets"), COLUMNS)
def test_pixels_of_images_make_a_column(images, box, size, base, offsets):
    images, argument = of_images(images, box, size)
    out = np.zeros(size[0] * size[1], np.uint32)
    source = load_pixels(images.ndim, out.nbytes, base, offsets)
    emulation = launch(source, "k", 1, 32, [argument, out, np.uint32(0), np.uint32(0)])
    assert emulation.clean, emulation.findings
    expected = column(images, box, size, base, offsets)
    np.testing.assert_array_equal(out.reshape(size[::-1]), expected)
    assert emulation.fetched_by_map == (out.nbytes,)
    assert emulation.counts.memory["global.copy"].sectors >= np.count_nonzero(expected) // 8


def test_a_column_is_swizzled():
    box = PixelBox((-1, -1), (-1, -1), (1, 1))
    images, argument = of_images(IMAGES[:, 0], box, (8, 32), 32)
    out = np.zeros(8 * 32, np.uint32)
    source = load_pixels(4, out.nbytes, (0, -1, -1, 0), (1, 1))
    assert launch(source, "k", 1, 32, [argument, out, np.uint32(0), np.uint32(0)]).clean
    expected = column(images, box, (8, 32), (0, -1, -1, 0), (1, 1)).reshape(-1, 4)  # pieces of 16 bytes
    number = np.arange(len(expected))
    np.testing.assert_array_equal(out.reshape(-1, 4)[number ^ (number >> 3 & 1)], expected)


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("expect_tx.shared.b64 _, [%r2], 1280", "expect_tx.shared.b64 _, [%r2], 1248", "mbarrier-deadlock", ""),
        (WAIT, "", "async-not-waited", ""),
        (
            "{0, -1, -1, 0}",
            "{0, -2, -1, 0}",
            "out-of-bounds",
            "outside of the map's box of pixels: -1 to 3, -1 to 2",
        ),
        ("{0, -1, -1, 0}", "{0, -1, 3, 0}", "out-of-bounds", "the base of im2col [-1, 3] lies outside"),
        ("{2, 1}", "{2, 256}", "out-of-bounds", "expected 0 to 255 each"),
        (".im2col.", ".tile.", "out-of-bounds", "the tensor map is one for im2col, the instruction one for tiles"),
    ],
)
def test_faults_of_im2col(old, new, kind, words):
    _, argument = of_images(*COLUMNS[3][:3])
    source = load_pixels(4, 1280, *COLUMNS[3][3:])
    assert old in source
    source = source.replace(old, new)
    source = source.replace("[%r2], {2, 1};", "[%r2];") if ".tile." in new else source
    out = np.zeros(320, np.uint32)
    emulation = launch(source, "k", 1, 32, [argument, out, np.uint32(0), np.uint32(0)])
    assert kind in [finding.kind for finding in emulation.findings]
    assert words in str(emulation.findings)


def test_a_map_of_tiles_is_none_for_im2col():
    shape = IMAGES[:, 0].shape
    argument = TensorMapArgument(Buffer(np.zeros(shape, np.uint32)), shape[::-1], 12, (8, 5, 4, 2), 0, (60, 240))
    out = np.zeros(320, np.uint32)
    emulation = launch(load_pixels(4, 1280, *COLUMNS[3][3:]), "k", 1, 32, [argument, out, np.uint32(0), np.uint32(0)])
    assert "the tensor map is one for tiles, the instruction one for im2col" in str(emulation.findings)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{2, 1}", "{2}", "1 offsets of im2col in 4 dimensions; expected 2"),
        (".4d.", ".2d.", "im2col of 2 dimensions; expected 3 to 5"),
        (".im2col.", ".im2col::w.", "sm_100"),
        (".im2col.", ".im2col::w::128.", "sm_100"),
        (".im2col.", ".im2col_no_offs.", "im2col_no_offs: stores from im2col boxes are not supported"),
    ],
)
def test_forms_of_im2col_that_are_refused(old, new, why):
    source = load_pixels(4, 1280, *COLUMNS[3][3:]).replace(old, new)
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(source, "k", 1, 32, [OF_MATRIX, np.zeros(320, np.uint32), np.uint32(0), np.uint32(0)])


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_pieces_are_swizzled_within_their_span(swizzle):
    matrix = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    columns = swizzle // 4 or 32
    argument = TensorMapArgument(Buffer(matrix), (32, 16), 32, (columns, 16), swizzle)
    size = columns * 16 * 4
    out = np.zeros(size // 4, np.uint32)
    emulation = launch(load(2, size), "k", 1, 32, [argument, out, np.uint32(0), np.uint32(0)])
    assert emulation.clean, emulation.findings
    expected = np.zeros_like(out)
    for row in range(16):
        for column in range(columns):
            at = row * columns * 4 + column * 4
            line = at // 128  # the row of the pattern
            piece = at // 16 % 8 ^ (line % (swizzle // 16) if swizzle else 0)
            expected[(line * 128 + piece * 16 + at % 16) // 4] = matrix[row, column]
    np.testing.assert_array_equal(out, expected)


STORE = """
shl.b32 %r9, %r0, 2; add.u32 %r10, %r1, %r9; st.shared.u32 [%r10], %r0; st.shared.u32 [%r10+128], %r0;
FENCE bar.sync 0;
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {%r3, %r4}], [%r1];
COMMIT AFTER
"""
COMMIT = "@%p0 cp.async.bulk.commit_group;"
DONE = "@%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;"


def stored(body):
    matrix, out = np.full((6, 32), 99, np.uint32), np.zeros(1, np.uint32)
    argument = TensorMapArgument(Buffer(matrix), (30, 6), 32, (16, 4))
    emulation = launch(text(body), "k", 1, 32, [argument, out, np.uint32(20), np.uint32(4)])
    return emulation, matrix


def test_a_box_is_stored_within_the_tensor_in_whole_pieces_of_16_bytes():
    body = STORE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE)
    emulation, matrix = stored(body)
    assert emulation.clean, emulation.findings
    expected = np.full((6, 32), 99, np.uint32)
    expected[4, 20:32], expected[5, 20:32] = np.arange(12), np.arange(16, 28)  # of the 30 elements of a row, and 2 more
    np.testing.assert_array_equal(matrix, expected)
    assert emulation.fetched_by_map == (0,)


@pytest.mark.parametrize("lane", ["0", "%r0"])
def test_lanes_of_a_warp_store_the_same_box_once(lane):
    body = STORE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE)
    body = body.replace("cp.async.bulk.tensor", f"mad.lo.u32 %r4, {lane}, 64, %r4; cp.async.bulk.tensor", 1)
    emulation, matrix = stored(body.replace("@%p0 mad", "mad").replace("@%p0 ", ""))
    assert emulation.clean, emulation.findings
    assert emulation.counts.memory["shared.copy"].requests == (1 if lane == "0" else 32)
    assert matrix[4, 20] == 0
    assert matrix[5, 31] == 27


@pytest.mark.parametrize(
    ("fence", "commit", "after", "kind"),
    [
        ("", COMMIT, DONE, "missing-proxy-fence"),
        ("fence.proxy.async;", "", DONE, "async-not-waited"),
        ("fence.proxy.async;", COMMIT, "", "async-not-waited"),
        ("fence.proxy.async;", COMMIT, "bar.sync 0; st.shared.u32 [%r10], 7;" + DONE, "async-not-waited"),
        ("fence.proxy.async;", COMMIT, DONE.replace("bar.sync 0;", "") + "st.shared.u32 [%r10], 7;", "shared-race"),
    ],
)
def test_wrong_stores_are_found(fence, commit, after, kind):
    emulation, _ = stored(STORE.replace("FENCE", fence).replace("COMMIT", commit).replace("AFTER", after))
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings


# each lane fills one word of the first two rows of the box, which alone lie in the tensor, with 12 words of 16 each
INSIDE = """
shl.b32 %r9, %r0, 2; add.u32 %r10, %r1, %r9; and.b32 %r11, %r0, 15; setp.lt.u32 %p1, %r11, WORDS;
@%p1 st.shared.u32 [%r10], %r0; fence.proxy.async; bar.sync 0;
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {%r3, %r4}], [%r1];
@%p0 cp.async.bulk.commit_group; MEANWHILE @%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;
"""


@pytest.mark.parametrize(("words", "place"), [(12, None), (11, 44), (9, 36)])
def test_what_a_box_does_not_store_may_be_unwritten(words, place):
    emulation, matrix = stored(INSIDE.replace("WORDS", str(words)).replace("MEANWHILE", ""))
    assert [finding.kind for finding in emulation.findings] == ["uninitialised-read"] * (place is not None)
    assert all(f"offset {place})" in finding.detail for finding in emulation.findings)
    assert matrix[5, 20] == 16


@pytest.mark.parametrize(
    ("place", "kinds"), [(128, set()), (48, set()), (44, {"async-not-waited"}), (0, {"async-not-waited"})]
)
def test_what_a_box_does_not_store_may_be_overwritten(place, kinds):
    body = INSIDE.replace("WORDS", "12").replace("MEANWHILE", f"@%p0 st.shared.u32 [%r10+{place}], 7;")
    assert {finding.kind for finding in stored(body)[0].findings} == kinds


@pytest.mark.parametrize(("apart", "kinds"), [(8, set()), (7, {"global-race"})])
def test_boxes_of_different_blocks_race_where_they_overlap(apart, kinds):
    # elements of 2 bytes from an odd one on: neighbours that share a word do not overlap
    matrix, out = np.zeros((1, 64), np.uint16), np.zeros(1, np.uint32)
    body = f"""st.shared.v4.u32 [%r1], {{%r0, %r0, %r0, %r0}}; fence.proxy.async; bar.sync 0;
    mov.u32 %r5, %ctaid.x; mad.lo.u32 %r3, %r5, {apart}, %r3;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{%r3, %r4}}], [%r1]; {COMMIT} {DONE}"""
    argument = TensorMapArgument(Buffer(matrix), (64, 1), 64, (8, 1))
    emulation = launch(text(body), "k", 2, 1, [argument, out, np.uint32(1), np.uint32(0)])
    assert {finding.kind for finding in emulation.findings} == kinds


def test_one_box_goes_to_every_block_of_the_mask():
    matrix = np.arange(64, dtype=np.uint32).reshape(2, 32)
    out = np.zeros((4, 64), np.uint32)
    argument = TensorMapArgument(Buffer(matrix), (32, 2), 32, (32, 2))
    body = """
    mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %p3, %r20, 1; and.pred %p3, %p3, %p0; mov.b16 %h0, 7;
    setp.lt.u32 %p2, %r20, 3; and.pred %p0, %p0, %p2;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1], [%rd0, {0, 0}], [%r2], %h0;
    @!%p2 bra END;
    """
    move = "mul.wide.u32 %rd3, %r20, 256; add.u64 %rd3, %rd3, %rd1; shl.b32 %r9, %r0, 2;"
    body += WAIT + move + COPY.replace("BYTES", "256") + "END: barrier.cluster.arrive; barrier.cluster.wait;"
    ptx = text(".reg .b16 %h<2>;" + body, ".explicitcluster .reqnctapercluster 4, 1, 1")
    emulation = launch(ptx, "k", 4, 32, [argument, out, np.uint32(0), np.uint32(0)])
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:3], np.broadcast_to(matrix.reshape(-1), (3, 64)))
    assert not out[3].any()
    traffic = emulation.counts.memory
    assert emulation.fetched_by_map == (256,)
    assert traffic["shared.copy"].bytes_used == 3 * 256
    assert (traffic["global.copy"].requests, traffic["global.copy"].bytes_used) == (1, 256)  # for all three blocks


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
         "[%r1], [%rd0, {0, 0, 0}], [%r2], {%h0};"), "im2col"),
        (("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
         "[%r1], [%rd0, {0, 0, 0}], [%r2];"), "3 coordinates"),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.exch.tile.bulk_group [%rd0, {0, 0}], [%r1];", "exch"),
    ],
)  # fmt: skip
def test_what_is_refused(instruction, why):
    argument = TensorMapArgument(Buffer(np.zeros((8, 32), np.uint32)), (32, 8), 32, (32, 8))
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(text(instruction), "k", 1, 32, [argument, np.zeros(4, np.uint32), np.uint32(0), np.uint32(0)])


REDUCE = STORE.replace(
    "cp.async.bulk.tensor.2d.global.shared::cta.tile", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.OP.tile"
)


def reduced(operation, initial, element="", sent=None):
    """Combine a box of 32 times 1 words with the first row of a tensor of 8 rows."""
    body = REDUCE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE)
    if sent is not None:
        body = body.replace("st.shared.u32 [%r10], %r0;", f"mov.u32 %r12, {sent}; st.shared.u32 [%r10], %r12;")
    tensor = np.broadcast_to(initial, (8, len(initial))).copy()
    columns = len(initial)
    argument = TensorMapArgument(Buffer(tensor), (columns, 8), columns, (columns, 1), element=element)
    ptx = text(body.replace("OP", operation))
    emulation = launch(ptx, "k", 1, 32, [argument, np.zeros(1, np.uint32), np.uint32(0), np.uint32(2)])
    assert emulation.clean, emulation.findings
    assert (np.delete(tensor, 2, 0) == initial).all()
    return tensor[2]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize(
    ("operation", "numpy"),
    [("add", np.add), ("min", np.minimum), ("max", np.maximum), ("and", np.bitwise_and), ("or", np.bitwise_or),
     ("xor", np.bitwise_xor)],
)  # fmt: skip
def test_a_box_is_combined_by_the_type_of_the_map(operation, numpy, dtype):
    initial = np.arange(-16, 16).astype(dtype)
    np.testing.assert_array_equal(reduced(operation, initial), numpy(initial, np.arange(32, dtype=dtype)))


def test_a_box_of_floats_is_added():
    initial = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(reduced("add", initial, sent="0x3f000000"), initial + np.float32(0.5))  # 0.5
    halves = np.arange(64, dtype=np.float16)
    np.testing.assert_array_equal(reduced("add", halves, sent="0x38003800"), halves + np.float16(0.5))
    brain = (np.arange(64, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    added = reduced("add", brain, "bf16", sent="0x3f803f80")  # 1.0
    np.testing.assert_array_equal((added.astype(np.uint32) << 16).view(np.float32), np.arange(1, 65, dtype=np.float32))


def test_increments_wrap_at_what_is_sent():
    initial = np.arange(32, dtype=np.uint32)
    np.testing.assert_array_equal(reduced("inc", initial, sent="20"), np.where(initial >= 20, 0, initial + 1))


def test_a_reduction_that_the_maps_type_does_not_have_is_refused():
    with pytest.raises(UnsupportedInstruction, match="the tensor map's elements are f32"):
        reduced("max", np.zeros(32, np.float32))


def test_blocks_may_add_to_the_same_box_at_the_same_time():
    tensor = np.zeros((8, 32), np.int32)
    argument = TensorMapArgument(Buffer(tensor), (32, 8), 32, (32, 1))
    body = REDUCE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE)
    arguments = [argument, np.zeros(1, np.uint32), np.uint32(0), np.uint32(0)]
    assert launch(text(body.replace("OP", "add")), "k", 5, 32, arguments).clean
    np.testing.assert_array_equal(tensor[0], 5 * np.arange(32))
    stores = text(STORE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE))
    assert {finding.kind for finding in launch(stores, "k", 5, 32, arguments).findings} == {"global-race"}


def test_a_map_of_another_rank_is_found():
    argument = TensorMapArgument(Buffer(np.zeros((8, 32), np.uint32)), (32, 8), 32, (32, 8))
    emulation = launch(load(3, 1024).replace("AGAIN: ", "AGAIN: ret; "), "k", 1, 32,
                       [argument, np.zeros(256, np.uint32), np.uint32(0), np.uint32(0)])  # fmt: skip
    assert any("2 dimensions, the instruction 3" in finding.detail for finding in emulation.findings)


ROWS = TensorMapArgument(Buffer(MATRIX), (30, 6), 32, (16, 1))


def four(source, old, new, rows):
    assert old in source
    source = source.replace(old, new)
    return source.replace("{%r3, %r4}", f"{{%r3, {', '.join(map(str, rows))}}}")


def gathered(rows, argument=ROWS, at=8, size=256):
    source = four(load(2, size), ".global.tile.", ".global.tile::gather4.", rows)
    out = np.zeros(64, np.uint32)
    return launch(source, "k", 1, 32, [argument, out, np.uint32(at), np.uint32(0)]), out.reshape(4, 16)


@pytest.mark.parametrize("rows", [(5, 0, 3, 3), (1, 2, 3, 4), (5, 6, -1, 0)])
def test_four_rows_of_a_matrix_are_gathered(rows):
    emulation, out = gathered(rows)
    assert emulation.clean, emulation.findings
    wanted = [MATRIX[row, 8:24] if 0 <= row < 6 else np.zeros(16) for row in rows]
    np.testing.assert_array_equal(out, wanted)
    assert emulation.fetched_by_map == (256,)  # with what lies beyond the matrix


def test_columns_beyond_the_matrix_are_gathered_as_zeros():
    emulation, out = gathered((0, 4, 2, 1), at=20)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:, :10], MATRIX[[0, 4, 2, 1], 20:30])
    assert not out[:, 10:].any()


def test_four_rows_are_swizzled_as_a_box_of_four_is():
    rows = (5, 0, 3, 2)
    _, out = gathered(rows, TensorMapArgument(Buffer(MATRIX), (30, 6), 32, (16, 1), swizzle=64))
    permuted = Buffer(np.ascontiguousarray(MATRIX[list(rows)]))
    wanted = np.zeros(64, np.uint32)
    argument = TensorMapArgument(permuted, (30, 4), 32, (16, 4), swizzle=64)
    assert launch(load(2, 256), "k", 1, 32, [argument, wanted, np.uint32(8), np.uint32(0)]).clean
    np.testing.assert_array_equal(out.reshape(-1), wanted)
    assert (out != MATRIX[list(rows), 8:24]).any()


def test_a_gather_whose_bytes_are_miscounted_or_whose_map_has_larger_boxes_is_found():
    emulation, _ = gathered((0, 1, 2, 3), size=64)
    assert "mbarrier-deadlock" in {finding.kind for finding in emulation.findings}
    emulation, _ = gathered((0, 1, 2, 3), argument=OF_MATRIX)
    assert "out-of-bounds" in {finding.kind for finding in emulation.findings}
    assert any("boxes have 4 rows" in finding.detail for finding in emulation.findings)


def test_four_rows_are_scattered():
    body = STORE.replace("FENCE", "fence.proxy.async;").replace("COMMIT", COMMIT).replace("AFTER", DONE)
    source = four(text(body), ".global.shared::cta.tile.", ".global.shared::cta.tile::scatter4.", (5, 0, 7, 2))
    matrix, box = np.full((6, 32), 99, np.uint32), np.zeros(1, np.uint32)
    argument = TensorMapArgument(Buffer(matrix), (30, 6), 32, (16, 1))
    emulation = launch(source, "k", 1, 32, [argument, box, np.uint32(8), np.uint32(0)])
    assert not [finding for finding in emulation.findings if finding.kind == "out-of-bounds"], emulation.findings
    held = [row for row in range(6) if (matrix[row, 8:24] != 99).any()]
    assert held == [0, 2, 5]
    assert (matrix[:, :8] == 99).all()
    assert (matrix[:, 24:] == 99).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".2d.shared::cluster.global.tile.", ".3d.shared::cluster.global.tile::gather4."),
        (".global.tile.", ".global.tile::scatter4."),
    ],
)
def test_rows_that_cannot_be_gathered_are_refused(old, new):
    source = four(load(2, 256), old, new, (0, 1, 2, 3))
    with pytest.raises(UnsupportedInstruction, match=r"four rows|gather4"):
        launch(source, "k", 1, 32, [ROWS, np.zeros(64, np.uint32), np.uint32(0), np.uint32(0)])
