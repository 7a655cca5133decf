"""The order of events: two blocks of two warps, the launch's third and fourth; thread 64 begins the second one."""

import numpy as np
import pytest

from lab.emulator.batch import make_batch
from lab.emulator.memory.clocks import (
    FIRST,
    SHIFT,
    BatchClocks,
    KnownTimes,
    LaunchClocks,
    level_of,
)
from lab.emulator.memory.order import BY_WARP, CTA, PLAIN, WARPS, WIDE, Order

ALL_LANES = 2**32 - 1
FLAG = "flag"


class Blocks:
    def __init__(self, *, narrow=False, cluster=1):
        self.launch = LaunchClocks(6, 64, cluster, narrow=narrow)
        self.clocks = BatchClocks(self.launch, make_batch((6, 1, 1), (64, 1, 1), 2, 2, cluster=(cluster, 1, 1)))

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
    first, two = KnownTimes({0: np.full(32, 5)}), KnownTimes({0: np.arange(32), 1: np.ones(32, np.int64)})
    joined = launch.join(first, two)
    assert joined is not None
    assert joined.blocks[0].tolist() == [max(5, i) for i in range(32)]
    assert joined.within(1) is not None
    assert launch.join(first, two) is joined
    assert launch.join(None, first) is launch.join(first, None) is first
    assert first.within(1) is None


def test_a_stamp_holds_time_level_and_thread():
    blocks = Blocks()
    (stamp,) = blocks.clocks.stamps(np.array([5]), WARPS).tolist()
    assert stamp >> SHIFT == blocks.launch.now == 1
    assert level_of(np.array([stamp])).tolist() == [WARPS.level]
    assert stamp & (2**32 - 1) == 128 + 5 + 1
    assert blocks.access(5)[0] >= FIRST
    assert int(blocks.launch.tick()) >> SHIFT == blocks.launch.now == 2


def test_known_times_end_before_their_time():
    stamps = np.array([(7 << SHIFT) + 1 + 64 + 3, (8 << SHIFT) + 1 + 64 + 3, (7 << SHIFT) + 1 + 3])
    times = np.zeros(64, np.int64)
    times[3] = 8 << SHIFT
    assert KnownTimes({1: times}).covers(stamps, 64).tolist() == [True, False, False]
    times[3] = stamps[0]
    assert KnownTimes({1: times}).covers(stamps, 64).tolist() == [False] * 3
    # of other lanes of the warp, accesses of the whole warp alone
    by_warp = stamps - 2 + (BY_WARP << 32)
    times[3] = 8 << SHIFT
    assert KnownTimes({1: times}).covers(by_warp, 64).tolist() == [True, False, False]
    of_warps = KnownTimes({}, {1: np.array([8 << SHIFT, 0])})
    assert of_warps.covers(by_warp, 64).tolist() == [True, False, False]
    assert of_warps.covers(stamps, 64).tolist() == [False] * 3
    assert of_warps.within(1) is not None
    assert of_warps.within(0) is None


@pytest.mark.parametrize(
    ("cluster", "one", "two", "steps"),
    [(1, 0, 31, 0), (1, 31, 32, 1), (1, 0, 64, 3), (2, 0, 64, 2), (2, 64, 128, 3), (2, 5, 5, 0)],
)
def test_closeness(cluster, one, two, steps):
    clocks = Blocks(cluster=cluster).clocks
    assert clocks.closeness(np.array([one]), np.array([two])).tolist() == [steps]
    assert clocks.closeness(np.array([two]), np.array([one])).tolist() == [steps]


def test_announced_phases_are_seen_by_those_that_learn_of_them():
    blocks = Blocks()
    place = ("unit", 0, 0)
    blocks.clocks.arrive(place, 0, np.array([0]))
    key = blocks.clocks.announce(place, 0)
    assert key == blocks.launch.key_of(place) != blocks.launch.key_of(("unit", 1, 0))
    assert key < 0
    assert not blocks.clocks.have_seen(np.array([40]), key, 0).any()
    blocks.clocks.see(place, 1, np.array([40]))
    assert blocks.clocks.have_seen(np.array([40, 41]), key, 0).tolist() == [True, False]
    assert not blocks.clocks.have_seen(np.array([40]), key, 1).any()


def test_events_before_an_arrival():
    blocks = Blocks()
    place, before = ("unit", 0, 0), blocks.access(3)
    assert not blocks.clocks.arrived_after(place, 0, before).any()
    blocks.clocks.arrive(place, 0, np.array([3]))
    events = np.concatenate([before, blocks.access(3), blocks.access(4)])
    assert blocks.clocks.arrived_after(place, 0, events).tolist() == [True, False, False]
    assert not blocks.clocks.arrived_after(place, 1, events).any()


def test_relaxed_arrivals_tell_what_was_fenced_and_relaxed_waits_need_a_fence():
    place, blocks = ("unit", 0, 0), Blocks()
    blocks.clocks.arrive(place, 0, np.array([0]), relaxed=True)  # it fenced nothing
    fenced = blocks.access(0)
    blocks.fence(0)
    late = blocks.access(0)
    blocks.clocks.arrive(place, 0, np.array([0]), relaxed=True)
    blocks.clocks.see(place, 1, np.array([64]), relaxed=True)
    assert not blocks.knows(64, fenced)
    blocks.fence(64)
    assert blocks.knows(64, fenced)
    assert not blocks.knows(64, late)


def test_fences_between_the_proxies():
    blocks = Blocks()
    early = blocks.access(3)
    assert blocks.clocks.unfenced(early, 64).tolist() == [True]
    blocks.clocks.fence_proxies(np.array([3]))
    late = blocks.access(3)
    assert blocks.clocks.unfenced(np.concatenate([early, late, [0]]), 64).tolist() == [False, True, False]
    assert blocks.clocks.unfenced(blocks.access(4), 64).tolist() == [True]
    blocks.clocks.fence_proxies(np.array([127]))  # one of the reader's block
    assert blocks.clocks.unfenced(late, 64).tolist() == [False]
    assert blocks.clocks.unfenced(late, 0).tolist() == [True]


def test_what_whole_warps_read_together():
    blocks = Blocks()
    together, alone = (blocks.clocks.stamps(np.array([33]), order) for order in (WARPS, PLAIN))
    time = blocks.clocks.arrival()
    late = blocks.clocks.stamps(np.array([33]), WARPS)
    blocks.clocks.order_warps_reads(np.array([0]), np.array([1]), time)
    assert blocks.knows(0, together)
    assert not blocks.knows(0, alone)
    assert not blocks.knows(0, late)
    assert not blocks.knows(1, together)
    assert not blocks.knows(0, blocks.clocks.stamps(np.array([65]), WARPS))


def test_a_warp_knows_of_arrivals_at_a_barrier():
    blocks = Blocks()
    time = blocks.clocks.arrival()
    lanes, warps, times = np.arange(32), np.array([0, 1]), np.full(2, time)
    assert not blocks.clocks.knows_arrivals(lanes, warps, times)
    assert blocks.clocks.knows_arrivals(lanes, warps[:1], times[:1])  # its own
    blocks.clocks.order_some(np.array([7]), np.array([32]), np.array([blocks.clocks.arrival()]))
    assert blocks.clocks.knows_arrivals(lanes, warps, times)
    assert not blocks.clocks.knows_arrivals(lanes, warps, np.full(2, blocks.clocks.arrival()))


def test_a_phase_of_a_clusters_barrier():
    blocks = Blocks(cluster=2)
    rows = np.array([0, 1])
    firm, loose, fenced = blocks.access(0), blocks.access(64), blocks.access(70)
    blocks.fence(70)
    times = np.full(3, blocks.clocks.arrival())
    late = blocks.access(0)
    relaxed = np.array([False, True, True])
    phase = blocks.clocks.arrivals(rows, np.array([0, 64, 70]), times, relaxed)
    assert not blocks.clocks.has_begun(np.array([5]), np.array([1])).any()
    assert not blocks.clocks.know_initialised(loose, np.array([5])).any()
    blocks.clocks.see_arrivals(np.array([5]), phase)
    assert blocks.clocks.has_begun(np.array([5, 6]), np.array([1, 1])).tolist() == [True, False]
    assert [blocks.knows(5, one) for one in (firm, loose, fenced, late)] == [True, False, True, False]
    stamps = np.concatenate([firm, loose, fenced, late])
    assert blocks.clocks.know_initialised(stamps, np.full(4, 5)).tolist() == [True, True, True, False]
    assert not blocks.clocks.know_initialised(stamps, np.full(4, 6)).any()


def test_what_a_thread_learns_of_a_block_says_that_it_has_begun():
    blocks = Blocks(cluster=2)
    blocks.flag(64, Order(WIDE, release=True), wrote=True)
    assert not blocks.clocks.has_begun(np.array([3]), np.array([1])).any()
    blocks.flag(3, Order(WIDE, acquire=True), reads=True)
    assert blocks.clocks.has_begun(np.array([3, 3, 4]), np.array([1, 0, 1])).tolist() == [True, False, False]


def test_clusters_share_what_one_thread_knows():
    blocks = Blocks(cluster=2)
    access = blocks.access(0)
    blocks.clocks.order_some(np.array([40]), np.array([0]), np.array([blocks.clocks.arrival()]))
    assert blocks.knows(40, access)
    blocks.clocks.order_clusters(np.array([0, 1]))
    assert blocks.clocks.has_begun(np.array([0, 127]), np.array([1, 0])).all()
    assert blocks.knows(127, access)
    assert not blocks.knows(127, blocks.access(0))


def test_warps_that_meet_share_what_a_lane_learnt():
    blocks = Blocks()
    access = blocks.access(64)
    blocks.flag(64, Order(WIDE, release=True), wrote=True)
    blocks.flag(3, Order(WIDE, acquire=True), reads=True)
    assert blocks.knows(3, access)
    blocks.clocks.order_warps(np.arange(4), np.full(4, 0b1111, np.uint32))
    assert blocks.knows(0, access)
    assert not blocks.knows(4, access)


def test_whole_and_part_of_a_warp_one_after_the_other():
    blocks = Blocks()
    first = blocks.access(9)
    blocks.clocks.order_warps(np.arange(32), np.full(32, ALL_LANES, np.uint32))
    second = blocks.access(9)
    blocks.clocks.order_warps(np.array([8, 9]), np.full(2, 0b11 << 8, np.uint32))
    assert blocks.knows(8, first)
    assert blocks.knows(8, second)
    assert blocks.knows(7, first)
    assert not blocks.knows(7, second)
    assert not blocks.knows(8, blocks.access(9))
    # an arrival carries what the warp's meetings ordered
    blocks.clocks.arrive(("unit", 0, 0), 0, np.array([8]))
    blocks.clocks.see(("unit", 0, 0), 1, np.array([64]))
    assert blocks.knows(64, first)
    assert blocks.knows(64, second)
