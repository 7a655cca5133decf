"""Memory ordering of accesses, from the qualifiers of their opcodes."""

import pytest

from lab.emulator.memory.order import (
    APART,
    CLUSTER,
    CTA,
    PLAIN,
    SAME_BLOCK,
    SAME_CLUSTER,
    SAME_WARP,
    TOGETHER,
    VOLATILE,
    VOLATILE_DATA,
    WARPS,
    WIDE,
    Order,
    order_of,
)


@pytest.mark.parametrize(
    ("opcode", "order"),
    [
        ("ld.global.u32", PLAIN),
        ("ld.volatile.global.u32", Order(VOLATILE)),
        ("ld.global.nc.u32", Order(read_only=True)),
        ("ld.relaxed.gpu.global.u32", Order(WIDE)),
        ("ld.acquire.cta.u32", Order(CTA, acquire=True)),
        ("st.release.cluster.u32", Order(CLUSTER, release=True)),
        ("st.release.sys.u32", Order(WIDE, release=True)),
    ],
)
def test_loads_and_stores(opcode, order):
    assert order_of(opcode.split(".")[1:]) == order
    assert order.strong == (order.level > 0)


@pytest.mark.parametrize(
    ("opcode", "order"),
    [
        ("atom.global.add.u32", Order(WIDE, acquire=True)),  # no order is written, and the old value is returned
        ("red.global.add.u32", Order(WIDE)),
        ("atom.add.relaxed.gpu.global.u32", Order(WIDE)),
        ("atom.acq_rel.cta.shared.cas.b32", Order(CTA, acquire=True, release=True)),
    ],
)
def test_updates(opcode, order):
    words = opcode.split(".")
    assert order_of(words[1:], update=True, returns=words[0] == "atom") == order


def test_scopes_must_include_the_other_thread():
    assert TOGETHER[WIDE, WIDE, APART].all()
    assert TOGETHER[CTA, WIDE, SAME_BLOCK].all()
    assert not TOGETHER[CTA, WIDE, SAME_CLUSTER].any()
    assert TOGETHER[CLUSTER, CLUSTER, SAME_CLUSTER].all()
    assert not TOGETHER[CLUSTER, WIDE, APART].any()
    assert not TOGETHER[0].any()
    assert not WARPS.strong
    assert not TOGETHER[WARPS.level].any()


def test_volatile_exchanges_flags_and_no_data_and_loses_updates():
    for near in (SAME_WARP, SAME_BLOCK, SAME_CLUSTER, APART):
        assert TOGETHER[VOLATILE, VOLATILE, near, 0]
        assert not TOGETHER[VOLATILE, VOLATILE, near, 1]
        assert not TOGETHER[VOLATILE, VOLATILE_DATA, near].any()
        assert not TOGETHER[VOLATILE_DATA, VOLATILE, near].any()
        assert TOGETHER[VOLATILE_DATA, WIDE, near].all()
