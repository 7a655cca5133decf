"""Replay measured spaces with the strategies of Kernel Tuner, in its simulation mode; called by benchmarks/search.py.

    PYTHON benchmarks/search_kernel_tuner.py OUT.json SEEDS EVALUATIONS [--strategies NAME …] SPACE.json.gz …

PYTHON has kernel-tuner 1.5 and what lab needs. Writes, for each space and strategy, the times that each seed's search
met, in its order; null for failures. Words and switches become numbers, which Kernel Tuner's strategies expect.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from recorded_space import RecordedSpace, read  # the module beside this one

STRATEGIES: Final = (
    "random_sample", "simulated_annealing", "genetic_algorithm", "diff_evo", "pso", "firefly_algorithm", "greedy_ils",
    "mls", "adaptive_tabu_greywolf", "hybrid_vndx", "bayes_opt",
)  # fmt: skip


_LISTED: Final[dict[Path, object]] = {}
"""Kernel Tuner's lists of valid settings, by cache file, as made: each search would make its own. A search gets a copy,
since a list remembers which neighbours were asked for, and would lead the next search there."""


def cache_of(space: RecordedSpace) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Return a cache file's contents and the tunable parameters."""
    places = {name: {repr(value): i for i, value in enumerate(listed)} for name, listed in space.values.items()}

    def number(name: str, value: object) -> float:
        listed = space.values[name]
        return places[name][repr(value)] if any(isinstance(v, bool | str) for v in listed) else value  # type: ignore[return-value]

    parameters = {name: [number(name, value) for value in listed] for name, listed in space.values.items()}
    entries = {}
    for variant in space.variants:
        setting = {name: number(name, variant.parameters[name]) for name in parameters}
        took = variant.ms if variant.ms is not None else "RuntimeFailedConfig"
        times = dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0.0)
        entries[",".join(map(str, setting.values()))] = {**setting, "time": took, "times": [took], **times}
    head = {"device_name": "recorded", "kernel_name": "kernel", "problem_size": [1], "objective": "time"}
    keys = {"tune_params_keys": list(parameters), "tune_params": parameters}
    return {**head, **keys, "cache": entries}, parameters


def path_of(
    cache: Mapping[str, Any], file: Path, parameters: dict[str, list[float]], *, strategy: str, seed: int, most: int
) -> list[float | None]:
    """One search: the times in the order in which it met them."""
    from constraint import FunctionConstraint  # noqa: PLC0415 - comes with Kernel Tuner
    from kernel_tuner import interface, tune_kernel  # noqa: PLC0415 - an extra of its own
    from kernel_tuner.runners.simulation import SimulationRunner  # noqa: PLC0415

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what Kernel Tuner draws from
    entries, seen, path = cache["cache"], set[str](), list[float | None]()
    original = SimulationRunner.run
    listing = interface.Searchspace

    def listed(*given: object, **options: object) -> object:
        if file not in _LISTED:  # listing a space takes longer than searching it
            _LISTED[file] = listing(*given, **options)
        return copy.deepcopy(_LISTED[file])

    def watched(self: object, parameter_space: object, tuning_options: object) -> object:
        elements = list(parameter_space)  # type: ignore[call-overload]
        evaluations = original(self, elements, tuning_options)
        for element, result in zip(elements, evaluations, strict=True):
            key = ",".join(map(str, element))
            if result is not None and key in entries and key not in seen:
                seen.add(key)
                time = entries[key]["time"]
                path.append(None if isinstance(time, str) else time)
        return evaluations

    SimulationRunner.run, interface.Searchspace = watched, listed
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tune_kernel(
                "kernel", "__global__ void kernel() {}", [1], [], parameters, lang="CUDA", cache=str(file),
                restrictions=[FunctionConstraint(lambda *values: ",".join(map(str, values)) in entries)],
                strategy=strategy, strategy_options={"max_fevals": most}, simulation_mode=True, quiet=True,
                block_size_names=[next(iter(parameters))],
            )  # fmt: skip
    finally:
        SimulationRunner.run, interface.Searchspace = original, listing
    return path


def main() -> None:
    """Replay and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("seeds", type=int)
    parser.add_argument("evaluations", type=int)
    parser.add_argument("spaces", type=Path, nargs="+")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    options = parser.parse_args()
    replays: dict[str, dict[str, list[list[float | None]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in options.spaces:
            space = read(file)
            cache, parameters = cache_of(space)
            kept = Path(folder) / f"{space.name}.json"
            kept.write_text(json.dumps(cache))
            name = file.name.partition(".")[0]
            for strategy in options.strategies:
                paths = [
                    path_of(cache, kept, parameters, strategy=strategy, seed=seed, most=options.evaluations)
                    for seed in range(options.seeds)
                ]
                replays.setdefault(name, {})[strategy] = paths
                print(f"Kernel Tuner's {strategy} on {name}: {options.seeds} searches", flush=True)
                options.out.write_text(json.dumps(replays))


if __name__ == "__main__":
    main()
