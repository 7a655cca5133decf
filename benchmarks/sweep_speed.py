"""Time to compile and inspect an experiment, cold and from the cache, without its report.

python benchmarks/sweep_speed.py [experiments/gemm_unroll.yaml]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from lab.base.executor import ProcessExecutor
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.stages.batches import build_each
from lab.stages.build import Built, build_task

ROOT = Path(__file__).parents[1]


def once(file: Path, jobs: int) -> tuple[float, int, int]:
    """Seconds, variants built, and how many of them came from the cache; start-up of the processes included."""
    start = time.perf_counter()
    experiment = load(file)
    planned = plan(experiment, expand(experiment).points, toolchains(experiment), experiment.archs)
    with ProcessExecutor(jobs) as executor:
        built = [outcome for _, outcome in build_each(executor, [build_task(one) for one in planned])]
    good = [one for one in built if isinstance(one, Built)]
    return time.perf_counter() - start, len(good), sum(b.cached for b in good)


def main() -> None:
    """Print a line for each of the two."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "experiments" / "gemm_unroll.yaml"
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as cache:
        os.environ["LAB_CACHE_DIR"] = cache
        for name in ("cold", "cached"):
            seconds, variants, cached = once(file, jobs)
            print(
                f"{file.stem}, {name}: {variants} variants ({cached} from the cache) in {seconds:.2f} s on {jobs} cores"
            )


if __name__ == "__main__":
    main()
