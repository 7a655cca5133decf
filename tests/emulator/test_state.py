"""`__device__` variables from launch to launch."""

import numpy as np
import pytest
from mistakes import coded
from small_ptx import kernel

from lab.base.errors import UserError
from lab.emulator.api import launch
from lab.emulator.state import DeviceState

COUNT = kernel(
    "ld.param.u64 %rd0, [p]; atom.global.add.u32 %r0, [calls], 1; st.global.u32 [%rd0], %r0;",
    ["p"],
    module=".global .u32 calls = 5;",
)


@pytest.mark.parametrize("engine", ["interpreted", "compiled", "auto"])
def test_launches_with_one_state_see_what_those_before_them_wrote(engine):
    out, state = np.zeros(1, np.uint32), DeviceState()
    seen = []
    for _ in range(3):
        assert launch(COUNT, "k", 1, 1, [out], state=state, engine=engine).clean
        seen.append(int(out[0]))
    assert seen == [5, 6, 7]
    assert state.contents == {"calls": np.uint32(8).tobytes()}


def test_launches_without_a_state_begin_anew():
    out = np.zeros(1, np.uint32)
    for _ in range(2):
        launch(COUNT, "k", 1, 1, [out])
        assert out[0] == 5
    launch(COUNT, "k", 1, 1, [out], state=DeviceState())
    assert out[0] == 5


def test_the_compiled_engine_reads_the_state():
    out, state = np.zeros(1, np.uint32), DeviceState({"calls": np.uint32(40).tobytes()})
    body = "ld.param.u64 %rd0, [p]; ld.global.u32 %r0, [calls]; st.global.u32 [%rd0], %r0; st.global.u32 [calls], 7;"
    ptx = kernel(body, ["p"], module=".global .u32 calls;")
    emulation = launch(ptx, "k", 1, 1, [out], state=state, engine="compiled")
    assert emulation.engine == "compiled"
    assert out[0] == 40
    assert state.contents == {"calls": np.uint32(7).tobytes()}


def test_a_launch_that_starts_over_as_machine_code_changes_the_state_once(monkeypatch):
    monkeypatch.setattr("lab.emulator.api.CACHED", 0)
    monkeypatch.setattr("lab.emulator.api.work_to_make", lambda _: 1)
    body = """mov.u32 %r1, 0;
    L: atom.global.add.u32 %r0, [calls], 1; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 50; @%p0 bra L;"""
    state = DeviceState()
    emulation = launch(kernel(body, module=".global .u32 calls;"), "k", 1, 1, [], state=state, engine="auto")
    assert emulation.engine == "compiled"
    assert np.frombuffer(state.contents["calls"], np.uint32)[0] == 50


def test_a_trace_leaves_the_state_alone():
    out, state = np.zeros(1, np.uint32), DeviceState()
    launch(COUNT, "k", 1, 1, [out], state=state, trace=True)
    assert np.frombuffer(state.contents["calls"], np.uint32)[0] == 6


def test_variables_that_were_not_changed_keep_the_addresses_of_each_launch():
    body = """ld.param.u64 %rd0, [p]; ld.global.u64 %rd1, [where]; ld.global.u32 %r0, [%rd1];
    add.u32 %r0, %r0, 1; st.global.u32 [%rd1], %r0; st.global.u32 [%rd0], %r0;"""
    module = ".global .u32 value = 10; .global .u64 where = generic(value);"
    state, out, other = DeviceState(), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    assert launch(kernel(body, ["p"], module=module), "k", 1, 1, [out], state=state).clean
    # another kernel of the module, with more buffers before the variables
    assert launch(kernel(body, ["p", "q"], module=module), "k", 1, 1, [out, other], state=state).clean
    assert out[0] == 12
    assert list(state.contents) == ["value"]


def test_constants_are_not_part_of_the_state():
    body = "ld.param.u64 %rd0, [p]; ld.const.u32 %r0, [c]; st.global.u32 [%rd0], %r0;"
    state, out = DeviceState(), np.zeros(1, np.uint32)
    ptx = kernel(body, ["p"], module=".const .u32 c = 3;")
    launch(ptx, "k", 1, 1, [out], state=state, constants={"c": np.array([9], np.uint32)})
    assert (out[0], state.contents) == (9, {})


def test_a_copy_goes_its_own_way():
    out, state = np.zeros(1, np.uint32), DeviceState()
    launch(COUNT, "k", 1, 1, [out], state=state)
    other = state.copy()
    launch(COUNT, "k", 1, 1, [out], state=other)
    assert state.contents["calls"] != other.contents["calls"]


def test_a_variable_of_another_size_is_refused():
    state = DeviceState({"calls": bytes(8)})
    with pytest.raises(UserError, check=coded("mismatch", key="state.calls", found="4 bytes")) as error:
        launch(COUNT, "k", 1, 1, [np.zeros(1, np.uint32)], state=state)
    assert error.value.key == "state.calls"
