"""Time stamps in the FP16/BF16 GEMM ladder: each station is found once, and the instrumented kernels are correct."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compile_text

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter
from lab.templates.instance import Instance


@pytest.fixture(scope="module")
def timeline(benchmark_script):
    return benchmark_script("tile_timeline")


@pytest.mark.parametrize("template", ["v6_persistent", "v7_cluster", "v8_epilogue", "v9_pingpong"])
def test_a_marked_rung_passes_every_station_and_is_right(timeline, template):
    assert template in {name for name, _ in timeline.RUNGS.values()}
    problem = operator("gemm").problem({"m": 64, "n": 256, "k": 72, "dtype": "bfloat16", "layout": "tn"})
    path = front_matter.load(f"hgemm/{template}.cu.j2", front_matter.search_path())
    instance = Instance.of(path, {"block_m": 64, "stages": 2, "blocks": 2}, problem)
    source = timeline.marked(instance.source)
    assert [source.count(f"mark({station});") for station in range(5)] == [1] * 5
    done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), compile_text(source, arch="compute_90a"))
    assert (done.unsupported, done.failure, done.findings) == ("", "", ())


def test_a_rung_without_a_station_is_refused(timeline):
    with pytest.raises(ValueError, match="0 lines match"):
        timeline.marked("int main() {}")


def test_times_count_from_the_first_block_and_cycles_from_station_to_station(timeline):
    ns = np.array([[100, 200, 300, 400, 500], [110, 210, 310, 410, 560]])
    passed = timeline.Passed(2 * ns, ns)
    assert passed.duration_ns == 460
    assert passed.line == ["5", "105", "205", "305", "430", "200", "200", "200", "250", "2.00"]
