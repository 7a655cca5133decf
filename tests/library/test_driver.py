from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_cuda import NOT_PERMITTED, PRIMARY, FakeCuda, Memory

from lab.base.errors import MissingToolError
from lab.library import driver
from lab.library.driver import CudaDriver, DriverError, LaunchConfig, PointerFacts, cuda_driver


@pytest.fixture
def fake():
    return FakeCuda()


def test_a_machine_without_a_driver_is_told_so(monkeypatch):
    def absent(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    cuda_driver.cache_clear()
    with pytest.raises(MissingToolError, match=r"needs an NVIDIA GPU and its driver: libcuda\.so\.1"):
        cuda_driver()


def test_a_driver_without_a_gpu_or_without_a_function_is_told_apart(fake):
    fake.fails["cuInit"] = 100
    with pytest.raises(MissingToolError, match="cuInit returns 100: error 100"):
        CudaDriver(fake)
    with pytest.raises(MissingToolError, match=r"driver of CUDA 12\.0 or newer"):
        CudaDriver(object())


def test_a_context_has_a_number_and_none_is_zero(fake):
    driver = CudaDriver(fake)
    first = driver.current()
    fake.stack.append(PRIMARY + 1)
    assert (first, driver.current(), driver.context(), driver.ordinal()) == (1, 2, PRIMARY + 1, 1)
    fake.stack.clear()
    assert (driver.current(), driver.context()) == (0, 0)
    fake.fails["cuCtxGetId"] = 4
    with pytest.raises(DriverError, match="cuCtxGetId returns 4: error 4"):
        driver.current()


def test_a_pushed_context_is_popped_after_an_error(fake):
    driver = CudaDriver(fake)
    with driver.pushed(0x20):
        assert fake.stack == [PRIMARY, 0x20]
    assert fake.stack == [PRIMARY]
    with pytest.raises(KeyError), driver.pushed(0x20):
        raise KeyError
    assert fake.stack == [PRIMARY]


def test_the_primary_context_is_known(fake):
    driver = CudaDriver(fake)
    assert driver.is_primary(PRIMARY, 0)
    assert not driver.is_primary(0x20, 0)
    fake.do_cuDevicePrimaryCtxGetState = lambda ordinal, flags, active: 0
    fake.called.clear()
    assert not driver.is_primary(PRIMARY, 0)
    assert "cuDevicePrimaryCtxRetain" not in fake.called  # it would make one


def test_facts_of_an_address(fake):
    driver = CudaDriver(fake)
    fake.memory = {16: Memory(1, 0x21, reachable=False), 32: None}
    assert driver.facts(16) == PointerFacts(known=True, on_device=True, ordinal=1, context=0x21, reachable=False)
    assert driver.facts(48) == PointerFacts(known=True, on_device=True, ordinal=0, context=PRIMARY, reachable=True)
    fake.memory |= {64: Memory(0, 0x20), 80: Memory(0, 0)}  # of another context, and of a pool
    arrays = {at: (at, ((1,), None, "<f4", True), None, None) for at in (16, 48, 64, 80)}
    assert [driver.unreached([arrays[at]], -1, 0, PRIMARY) for at in (48, 64, 80)] == [None, 64, None]
    assert driver.unreached([arrays[80], arrays[64], arrays[16]], -1, 0, PRIMARY) == 64
    asked = list(fake.called)
    assert driver.unreached([(*arrays[64][:3], 0)], 0, 0, PRIMARY) is None  # it says that it lies on the trusted GPU
    assert fake.called == asked
    assert driver.facts(32) == PointerFacts(known=False, on_device=False, ordinal=0, context=0, reachable=False)


def test_what_other_threads_capture_is_left_alone(fake):
    driver = CudaDriver(fake)
    modes = []

    def exchange(mode):
        modes.append(mode._obj.value)
        mode._obj.value = 0

    fake.do_cuThreadExchangeStreamCaptureMode = exchange
    driver.allocate(64)
    driver.function(driver.module(b"code"), "part")
    assert modes == [2, 0] * 3
    fake.fails["cuMemAlloc_v2"] = NOT_PERMITTED
    with pytest.raises(DriverError) as caught:
        driver.allocate(64)
    assert (caught.value.status, modes[-1]) == (NOT_PERMITTED, 0)


def test_threads_do_not_read_each_others_answers(fake):
    driver = CudaDriver(fake)

    def work(stream):
        return {driver.stream_id(stream) for _ in range(300)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(1, 5))) == [{101}, {102}, {103}, {104}]


def test_the_configuration_is_laid_out_as_in_cuda_h():
    fields = {name: getattr(LaunchConfig, name).offset for name, _ in LaunchConfig._fields_}
    assert fields == {
        "grid": 0, "block": 12, "shared_bytes": 24, "stream": 32, "attributes": 40, "attribute_count": 48,
    }  # fmt: skip
    assert ctypes.sizeof(LaunchConfig) == 56


def test_a_fork_is_noticed():
    before = driver.FORKS[0]
    child = os.fork()
    if child == 0:
        os._exit(driver.FORKS[0] - before)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert driver.FORKS[0] == before
