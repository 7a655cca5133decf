"""`tune_kernel`: what it makes of its arguments, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lab
from lab.api.kernel_tuner.tune import TuneCall, experiment_of, tune
from lab.base.errors import UserError
from lab.runs.pipeline import RunOptions

SOURCE = """__global__ void add(float *c, const float *a, int n)
{ int i = blockIdx.x * block_size_x + threadIdx.x; if (i < n) c[i] = a[i] + add_more; }
"""
A = np.arange(100, dtype=np.float32)
ARGUMENTS = [np.zeros_like(A), A, np.int32(100)]
SPACE = {"block_size_x": [32, 64], "add_more": [1, 2]}


def call(**changed):
    whole = {
        "kernel_name": "add",
        "kernel_source": SOURCE,
        "problem_size": 100,
        "arguments": ARGUMENTS,
        "tune_params": SPACE,
        **changed,
    }
    return TuneCall(**whole)


def experiment(tmp_path, **changed):
    made = call(**changed)
    return experiment_of(made, made.tune_params, tmp_path)


def test_the_experiment_of_a_call(tmp_path):
    mapping, notes = experiment(
        tmp_path, restrictions=["block_size_x >= 64"], compiler_options=["-O3"], smem_args={"size": 64}
    )
    assert notes == []
    assert mapping["source"] == SOURCE
    assert mapping["problem"] == {"problem_size_x": 100, "n": 100}
    assert mapping["grid"] == ["ceil_div(problem_size_x, block_size_x)"]
    assert mapping["constraints"] == ["block_size_x >= 64"]
    assert mapping["options"] == ["-O3"]
    assert mapping["shared_bytes"] == 64
    assert mapping["emulate"] == {}


def test_a_problem_too_large_for_the_cpu_is_said(tmp_path):
    large = [np.zeros(10**6, np.float32), np.ones(10**6, np.float32), np.int32(10**6)]
    mapping, (note,) = experiment(tmp_path, problem_size=10**6, arguments=large)
    assert "emulate" not in mapping
    assert "too large" in note
    mapping, notes = experiment(tmp_path, problem_size=10**6, arguments=large, emulate=False)
    assert ("emulate" in mapping, notes) == (False, [])
    smaller = {"problem_size": 100, "arguments": ARGUMENTS}
    mapping, notes = experiment(tmp_path, problem_size=10**6, arguments=large, emulate=smaller)
    assert mapping["emulate"] == {"problem_size_x": 100, "n": 100, "c_size0": 100, "a_size0": 100}
    assert notes == []


def test_samples(tmp_path):
    def search(**options):
        return experiment(tmp_path, strategy="random_sample", strategy_options=options)[0]["search"]["sample"]

    assert search() == 100
    assert search(max_fevals=3) == 3
    assert search(fraction=0.5) == 2
    assert search(fraction=1, max_fevals=1) == 1
    with pytest.raises(UserError) as caught:
        search(popsize=3)
    assert caught.value.key == "strategy_options.popsize"


def test_strategies_have_lab_s_names(tmp_path):
    options = {"max_fevals": 7, "time_limit": 3}
    made = experiment(tmp_path, strategy="adaptive_tabu_greywolf", strategy_options=options)[0]["search"]
    assert (made["strategy"], made["evaluations"], made["seconds"], made["stop"]) == ("tabu_greywolf", 7, 3.0, None)
    made = experiment(tmp_path, strategy="bayes_opt")[0]["search"]
    assert (made["strategy"], made["evaluations"]) == ("surrogate", 100)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"lang": "OpenCL"}, "lang"),
        ({"device": 1}, "device"),
        ({"strategy": "firefly_algorithm"}, "strategy"),
        ({"strategy": "diff_evo", "strategy_options": {"popsize": 3}}, "strategy_options.popsize"),
        ({"simulation_mode": True}, "simulation_mode"),
        ({"tune_params": [1]}, "tune_params"),
        ({"tune_params": {"block_size_x": 32}}, "tune_params.block_size_x"),
        ({"kernel_name": 3}, "kernel_name"),
        ({"kernel_name": "sub"}, "kernel_name"),
        ({"restrictions": 3}, "restrictions"),
        ({"restrictions": ["block_size > 3"]}, "restrictions[0]"),
        ({"compiler_options": "-O3"}, "compiler_options"),
        ({"smem_args": {"bytes": 3}}, "smem_args"),
        ({"cmem_args": {"weights": [1, 2]}}, "cmem_args"),
        ({"emulate": {"problem_size": 3}}, "emulate"),
        ({"problem_size": "size"}, "problem_size"),
        *(({"others": {name: len}}, name) for name in ("verify", "texmem_args", "defines", "nothing")),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path, changed, key):
    with pytest.raises(UserError) as caught:
        tune(call(output=tmp_path, **changed))
    assert (caught.value.at, caught.value.key) == (None, key)


def test_a_run_its_cache_and_its_simulation(tmp_path, capsys):
    def run(**more):
        answer = [A + 1, None, None]
        cache = tmp_path / "kept.json"
        common = {"answer": answer, "cache": cache, "gpu": False, "jobs": 1}
        return lab.tune_kernel("add", SOURCE, 100, ARGUMENTS, SPACE, **common, **more)

    with pytest.warns(UserWarning, match="ignores iterations, observers"):
        results, environment = run(iterations=32, observers=[object()], metrics={"rate": "1 / time"})
    assert [(result["block_size_x"], result["add_more"], result["verified"]) for result in results] == [
        (32, 1, True),
        (64, 1, True),
    ]
    assert all(result["time"] > 0 and result["rate"] == 1 / result["time"] for result in results)
    assert [one["add_more"] for one in environment["failed"]] == [2, 2]
    assert environment["best_config"] in results
    assert environment["time"] == "predicted"
    assert environment["folder"] == str(tmp_path / "kept")
    assert "best performing configuration: block_size_x=" in capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulated, _ = run(simulation_mode=True, quiet=True)
    assert [one["variant"] for one in simulated] == [result["variant"] for result in results]
    assert capsys.readouterr().out == ""


def test_constant_memory_is_set(tmp_path):
    source = SOURCE.replace("__global__", "__constant__ float weights[2]; __constant__ int first;\n__global__", 1)
    source = source.replace("+ add_more", "+ weights[first] * add_more")
    results, _ = tune(
        call(
            output=tmp_path,
            kernel_source=source,
            cmem_args={"weights": np.array([3, 7], np.float32), "first": np.int32(1)},
            answer=[A + 7, None, None],
            tune_params={"block_size_x": [32], "add_more": [1]},
            quiet=True,
        ),
        RunOptions(measure=False, jobs=1),
    )
    assert len(results) == 1
