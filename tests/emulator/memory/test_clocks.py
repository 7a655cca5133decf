"""What happens before what: two blocks of two warps; thread 64 is the first one of the second block."""

import numpy as np

from lab.emulator.batch import make_batch
from lab.emulator.memory.clocks import BatchClocks, KnownTimes, LaunchClocks
from lab.emulator.memory.order import CTA, PLAIN, WARPS, WIDE, Order

ALL_LANES = 2**32 - 1
FLAG = "flag"


class Blocks:
    def __init__(self, *, narrow=False, cluster=1):
        self.launch = LaunchClocks(2, 64, cluster, narrow=narrow)
        self.clocks = BatchClocks(self.launch, make_batch((2, 1, 1), (64, 1, 1), 0, 2, cluster=(cluster, 1, 1)))

    def access(self, thread):
        return self.clocks.stamps(np.array([thread]), PLAIN)

    def knows(self, thread, access):
        return not len(self.clocks.unordered(access, np.array([thread])))

    def flag(self, thread, order, *, reads=False, wrote=False, shared=False):
        self.clocks.synchronise(FLAG, np.array([0]), np.array([thread]), order, shared=shared, reads=reads, wrote=wrote)

    def fence(self, *threads, wide=True):
        self.clocks.fence(np.array(threads), wide=wide)


def test_a_thread_knows_itself_and_its_block_after_a_barrier():
    blocks = Blocks()
    access = blocks.access(0)
    assert blocks.knows(0, access)
    assert not blocks.knows(1, access)
    blocks.clocks.order_blocks(slice(0, 64), np.array([0]))
    assert blocks.knows(1, access)
    assert blocks.knows(63, access)
    assert not blocks.knows(64, access)
    assert not blocks.knows(1, blocks.access(0))  # after the barrier


def test_warps_that_meet():
    blocks = Blocks()
    access = blocks.access(0)
    blocks.clocks.order_warps(np.arange(32), np.full(32, ALL_LANES, np.uint32))
    assert blocks.knows(31, access)
    assert not blocks.knows(32, access)


def test_lanes_that_meet_under_a_mask():
    blocks = Blocks()
    first, second = blocks.access(0), blocks.access(2)
    blocks.clocks.order_warps(np.arange(2), np.full(2, 0b11, np.uint32))
    assert blocks.knows(1, first)
    assert not blocks.knows(2, first)
    assert not blocks.knows(1, second)
    blocks.clocks.order_warps(np.array([1, 2]), np.full(2, 0b110, np.uint32))
    assert blocks.knows(2, first)  # through lane 1


def test_halves_of_a_warp_that_meet_at_once():
    blocks = Blocks()
    access = blocks.access(0)
    masks = np.repeat(np.array([0xFFFF, 0xFFFF0000], np.uint32), 16)
    blocks.clocks.order_warps(np.arange(32), masks)
    assert blocks.knows(15, access)
    assert not blocks.knows(16, access)


def test_a_barrier_of_some_threads():
    blocks = Blocks()
    access = blocks.access(0)
    time = blocks.clocks.arrival()
    late = blocks.access(0)  # after its arrival
    blocks.clocks.order_some(np.array([40]), np.array([0, 40]), np.full(2, time))
    assert blocks.knows(40, access)
    assert not blocks.knows(40, late)
    assert not blocks.knows(41, access)
    assert not blocks.knows(0, blocks.access(40))


def test_clusters_meet():
    blocks = Blocks(cluster=2)
    access = blocks.access(0)
    blocks.clocks.order_clusters(np.array([0, 1]))
    assert blocks.knows(64, access)


def test_a_release_is_learnt_by_an_acquire_of_its_place_only():
    blocks = Blocks()
    access = blocks.access(0)
    blocks.flag(0, Order(WIDE, release=True), wrote=True)
    late = blocks.access(0)
    blocks.clocks.synchronise(
        FLAG, np.array([4]), np.array([64]), Order(WIDE, acquire=True), shared=False, reads=True, wrote=False
    )
    assert not blocks.knows(64, access)
    blocks.flag(64, Order(WIDE, acquire=True), reads=True)
    assert blocks.knows(64, access)
    assert not blocks.knows(64, late)
    assert not blocks.knows(65, access)
    blocks.clocks.order_blocks(slice(64, 128), np.array([1]))
    assert blocks.knows(65, access)  # through the barrier


def test_fences_make_releases_and_acquires_of_relaxed_accesses():
    relaxed = Order(WIDE)
    blocks = Blocks()
    access = blocks.access(0)
    blocks.flag(0, relaxed, wrote=True)
    blocks.flag(64, relaxed, reads=True)
    blocks.fence(64)
    assert not blocks.knows(64, access)  # no fence before the write
    blocks.fence(0)
    late = blocks.access(0)
    blocks.flag(0, relaxed, wrote=True)
    blocks.flag(64, relaxed, reads=True)
    assert not blocks.knows(64, access)  # not yet
    blocks.fence(64)
    assert blocks.knows(64, access)
    assert not blocks.knows(64, late)


def test_what_others_fenced_before_a_barrier_is_released_too():
    blocks = Blocks()
    access, unfenced = blocks.access(40), blocks.access(41)
    blocks.fence(0, 40)
    blocks.clocks.order_blocks(slice(0, 64), np.array([0]))
    blocks.flag(0, Order(WIDE), wrote=True)
    blocks.flag(64, Order(WIDE, acquire=True), reads=True)
    assert blocks.knows(64, access)
    assert not blocks.knows(64, unfenced)


def test_updates_go_on_with_the_release_that_they_read():
    blocks = Blocks()
    access = blocks.access(0)
    blocks.flag(0, Order(WIDE, release=True), wrote=True)
    blocks.flag(40, Order(WIDE), reads=True, wrote=True)  # a relaxed update
    blocks.flag(64, Order(WIDE, acquire=True), reads=True)
    assert blocks.knows(64, access)
    blocks.flag(40, Order(WIDE), wrote=True)  # a relaxed store ends it
    blocks.flag(65, Order(WIDE, acquire=True), reads=True)
    assert not blocks.knows(65, access)


def test_the_blocks_scope_stays_in_the_block():
    blocks = Blocks(narrow=True)
    access = blocks.access(0)
    blocks.flag(0, Order(CTA, release=True), wrote=True)
    blocks.flag(64, Order(WIDE, acquire=True), reads=True)
    blocks.flag(40, Order(CTA, acquire=True), reads=True)
    assert not blocks.knows(64, access)
    assert blocks.knows(40, access)
    blocks = Blocks(narrow=True)
    access = blocks.access(0)
    blocks.fence(0, wide=False)
    blocks.flag(0, Order(WIDE), wrote=True)
    for thread, known in ((64, False), (40, True)):
        blocks.flag(thread, Order(WIDE), reads=True)
        blocks.fence(thread)
        assert blocks.knows(thread, access) == known
    blocks = Blocks(narrow=True)
    access = blocks.access(0)
    blocks.fence(0, wide=False)
    blocks.flag(0, Order(CTA), wrote=True, shared=True)  # shared memory: no scope is too narrow
    blocks.flag(40, Order(CTA, acquire=True), reads=True, shared=True)
    assert blocks.knows(40, access)


def test_arrivals_at_an_mbarrier():
    blocks = Blocks()
    access, place = blocks.access(0), ("unit", 0, 0)
    blocks.clocks.arrive(place, 0, np.array([0]))
    late = blocks.access(0)
    blocks.clocks.arrive(place, 1, np.array([0]))
    blocks.clocks.see(place, 1, np.array([40]))  # phase 0 is complete
    assert blocks.knows(40, access)
    assert not blocks.knows(40, late)
    blocks.clocks.see(place, 2, np.array([40]))
    assert blocks.knows(40, late)
    blocks.clocks.forget(place)
    blocks.clocks.see(place, 2, np.array([41]))
    assert not blocks.knows(41, access)


def test_any_lane_goes_on_after_an_access_of_its_warp():
    blocks = Blocks()
    place = ("unit", 0, 0)
    access, alone = (blocks.clocks.stamps(np.array([0]), order) for order in (WARPS, PLAIN))
    assert blocks.knows(5, access)
    assert not blocks.knows(5, alone)
    assert not blocks.knows(40, access)
    blocks.clocks.arrive(place, 0, np.array([5]))
    late = blocks.clocks.stamps(np.array([0]), WARPS)
    blocks.clocks.see(place, 1, np.array([40, 64]))
    for thread in (40, 64):
        assert blocks.knows(thread, access)
        assert not blocks.knows(thread, alone)
        assert not blocks.knows(thread, late)


def test_knowledge_joins():
    launch = LaunchClocks(2, 32)
    one, two = KnownTimes({0: np.full(32, 5)}), KnownTimes({0: np.arange(32), 1: np.ones(32, np.int64)})
    joined = launch.join(one, two)
    assert joined is not None
    assert joined.blocks[0].tolist() == [max(5, i) for i in range(32)]
    assert joined.within(1) is not None
    assert launch.join(one, two) is joined
    assert launch.join(None, one) is launch.join(one, None) is one
    assert one.within(1) is None
