"""Time to compile and inspect an experiment, cold and from the cache, without its report.

python benchmarks/sweep_speed.py [experiments/gemm_unroll.yaml]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import as_completed
from multiprocessing import get_context
from pathlib import Path

from pebble import ProcessPool

from lab.building import Built, build, build_task
from lab.experiment import expand, load
from lab.plan import plan, toolchains

ROOT = Path(__file__).parents[1]


def once(file: Path, jobs: int) -> tuple[float, int, int]:
    """Seconds, variants built, and how many of them came from the cache; start-up of the processes included."""
    start = time.perf_counter()
    experiment = load(file)
    planned = plan(experiment, expand(experiment).points, toolchains(experiment), experiment.archs)
    with ProcessPool(max_workers=jobs, context=get_context("spawn")) as pool:
        built = [f.result() for f in as_completed([pool.schedule(build, args=[build_task(p)]) for p in planned])]
    good = [b for b in built if isinstance(b, Built)]
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
