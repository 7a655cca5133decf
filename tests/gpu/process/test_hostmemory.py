"""A limit on the host memory of one computation."""

import resource

import numpy as np
import pytest

from lab.gpu.process.hostmemory import free_bytes, within_free_memory

V2 = {"sys/fs/cgroup/memory.max": "8192\n", "sys/fs/cgroup/memory.current": "3072\n"}
V1 = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "9500\n",
}
MACHINE = {"proc/meminfo": "MemTotal:       32 kB\nMemAvailable:       16 kB\n"}


def machine(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "free"),
    [
        (MACHINE, 16384),
        (MACHINE | V2, 5120),
        (MACHINE | V2 | {"sys/fs/cgroup/memory.stat": "anon 9\nactive_file 1000\ninactive_file 24\n"}, 6144),
        (MACHINE | V1, 0),
        (MACHINE | V1 | {"sys/fs/cgroup/memory/memory.stat": "active_file 9\ntotal_active_file 700\n"}, 200),
        (MACHINE | V2 | {"sys/fs/cgroup/memory.max": "max\n"}, 16384),
        ({}, None),
    ],
)
def test_the_free_memory_is_that_of_the_container(tmp_path, files, free):
    assert free_bytes(machine(tmp_path, files)) == free


def test_what_does_not_fit_fails_at_once_and_the_limit_is_taken_back():
    free, before = free_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    assert free is not None
    with within_free_memory():
        assert np.ones(1000).sum() == 1000
        with pytest.raises(MemoryError):
            np.empty(2 * free, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_limit_that_is_lower_already_stays(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    files = MACHINE | {"proc/self/status": f"VmData:\t{1 << 40} kB\n"}
    lower = 1 << 45
    resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))
    try:
        with within_free_memory(machine(tmp_path, files)):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] == lower
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_without_a_word_from_the_system_there_is_no_limit(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with within_free_memory(tmp_path):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before
