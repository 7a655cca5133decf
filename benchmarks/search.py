"""Evaluations a search needs: replays of measured spaces with lab's strategies and with Kernel Tuner's.

    python benchmarks/search.py [SPACE ...] [--seeds 30] [--strategies surrogate prior] [--kernel-tuner PYTHON]

SPACE is a file of benchmarks/record_space.py (.json.gz), or a cache file of Kernel Tuner or T4 results that somebody
recorded (.json); all of benchmarks/spaces by default. PYTHON is an interpreter that has
kernel-tuner 1.5; its strategies are run there in simulation mode, on the same spaces, by
benchmarks/search_kernel_tuner.py.

The score of a search is the mean of P_t = (random(t) - found(t)) / (random(t) - optimum) over the evaluations t = 1,
2, … until random search is expected to have covered 95 % of the way from the median to the optimum (Willemsen et al., A
methodology for comparing optimization algorithms for auto-tuning, 2024, with evaluations in place of seconds). Random
search has 0, and 1 finds the optimum at once.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from record_space import HELD_OUT  # the modules beside this one
from recorded_space import FOLDER, RecordedSpace, read

from lab.search import local, surrogate_model
from lab.search.search import Moves, Search
from lab.search.search_space import Place, SearchAxis, SearchSpace, in_random_order

COVERED: Final = 0.95
NEAR: Final = (0.05, 0.01)

MOST_EVALUATIONS: Final = 1000


def at_random(space: SearchSpace, rng: random.Random) -> Moves:
    """Yield points in uniformly random order."""
    for place in in_random_order(space, rng):
        yield [place]


Start = Callable[[SearchSpace, random.Random, surrogate_model.Prior], Moves]

STRATEGIES: Final[Mapping[str, Start]] = {
    "random": lambda space, rng, _: at_random(space, rng),
    "annealing": lambda space, rng, _: local.annealing(space, rng),
    "genetic": lambda space, rng, _: local.genetic(space, rng),
    "differential evolution": lambda space, rng, _: local.differential_evolution(space, rng),
    "tabu with grey wolf": lambda space, rng, _: local.tabu_greywolf(space, rng),
    "surrogate": lambda space, rng, _: surrogate_model.surrogate(space, rng),
    "prior order": lambda space, rng, prior: surrogate_model.in_order(space, rng, prior=prior),
    "surrogate with prior": lambda space, rng, prior: surrogate_model.surrogate(space, rng, prior=prior),
}
WITH_PRIOR: Final = ("prior order", "surrogate with prior")


@dataclass(frozen=True)
class Replayed:
    """A measured space as a search sees it.

    Attributes:
        space: Its points.
        ms: Point to its time; infinity where it failed.
        prior: What was predicted; None where nothing was.
    """

    space: SearchSpace
    ms: Mapping[Place, float]
    prior: surrogate_model.Prior | None


def replayed(recorded: RecordedSpace) -> Replayed:
    """Turn a measured space into one to search."""
    axes = tuple(SearchAxis(name, values) for name, values in recorded.values.items())
    places = [tuple(axis.values.index(variant.parameters[axis.name]) for axis in axes) for variant in recorded.variants]
    ms = {place: one.ms or math.inf for place, one in zip(places, recorded.variants, strict=True)}
    space = SearchSpace(axes, ms.__contains__)
    names = sorted({name for variant in recorded.variants for name in variant.facts})
    costs, facts = {}, {}
    for place, variant in zip(places, recorded.variants, strict=True):
        guess = next(
            (variant.estimates[kind] for kind in ("estimate", "score", "ceiling") if kind in variant.estimates), None
        )
        if guess:
            costs[place] = math.log(guess)
            facts[place] = tuple(math.log1p(float(variant.facts.get(name, 0.0))) for name in names)
    return Replayed(space, ms, surrogate_model.Prior(costs, facts) if costs else None)


def expected_random(ms: Sequence[float], most: int) -> list[float]:
    """The expected best of 1, 2, … random draws without replacement; a failure counts as the slowest time."""
    slowest = max(one for one in ms if math.isfinite(one))
    ordered = sorted(min(one, slowest) for one in ms)
    n, expected_best = len(ordered), []
    for t in range(1, min(most, n) + 1):
        left, mean = 1.0, 0.0  # left: the chance that none of the faster ones was drawn
        for i, sample_ms in enumerate(ordered):
            taken = min(1.0, t / (n - i))
            mean += left * taken * sample_ms
            left *= 1 - taken
            if left < 1e-12:  # noqa: PLR2004 - what remains changes no digit
                break
        expected_best.append(mean)
    return expected_best


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a strategy on a space.

    Attributes:
        space: Its name.
        strategy: Its name.
        score: Mean of P_t over evaluations and seeds.
        near: Median evaluations to within each of `NEAR`; infinity where fewer than half of the seeds came so far.
    """

    space: str
    strategy: str
    score: float
    near: tuple[float, ...]


def scored(name: str, strategy: str, paths: Sequence[Sequence[float]], ms: Sequence[float]) -> Score:
    """Judge the searches of several seeds.

    Args:
        name: Of the space.
        strategy: Its name.
        paths: For each seed, the times in the order in which they were measured; infinity for failures.
        ms: Every time of the space.
    """
    optimum, slowest = min(ms), max(one for one in ms if math.isfinite(one))
    expected = expected_random(ms, MOST_EVALUATIONS)
    median = statistics.median(min(one, slowest) for one in ms)
    target = median - COVERED * (median - optimum)
    until = next((t for t, one in enumerate(expected, 1) if one <= target), len(expected))
    values, counts = [], [list[float]() for _ in NEAR]
    for path in paths:
        best, so_far = slowest, []
        for sample_ms in path:
            best = min(best, sample_ms)
            so_far.append(best)
        so_far += [best] * (until - len(so_far))
        values += [(expected[t] - so_far[t]) / (expected[t] - optimum) for t in range(until)]
        for i, share in enumerate(NEAR):
            counts[i].append(next((t for t, one in enumerate(so_far, 1) if one <= (1 + share) * optimum), math.inf))
    return Score(name, strategy, statistics.fmean(values), tuple(map(statistics.median, counts)))


def path_of(file: Path, strategy: str, evaluations: int, seed: int) -> list[float]:
    """One search: the times in the order in which it measured them."""
    replay = _replay_of(file)
    rng = random.Random(seed)  # noqa: S311 - no secret
    prior = replay.prior if strategy in WITH_PRIOR else None
    search = Search(replay.space, STRATEGIES[strategy](replay.space, rng, prior or surrogate_model.Prior({})), rng)
    path: list[float] = []
    best = min(replay.ms.values())
    while len(path) < evaluations and (proposals := search.ask()):
        for place in proposals[: evaluations - len(path)]:
            path.append(replay.ms[place])
            search.tell({place: math.log(replay.ms[place])})
        if min(path) == best:
            break  # nothing that follows changes a figure
    return path


@cache
def _replay_of(file: Path) -> Replayed:
    return replayed(read(file))


def kernel_tuner_paths(
    python: Path, spaces: Sequence[Path], seeds: int, evaluations: int
) -> dict[str, dict[str, list[list[float]]]]:
    """Replay spaces with Kernel Tuner; for each space and strategy, the times of each seed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "paths.json"
        script = Path(__file__).parent / "search_kernel_tuner.py"
        command = [str(python), str(script), str(out), str(seeds), str(evaluations), *map(str, spaces)]
        subprocess.run(command, check=True, env=None)
        replayed_paths: dict[str, dict[str, list[list[float]]]] = json.loads(out.read_text())
    return replayed_paths


def table(scores: Sequence[Score]) -> str:
    """Scores as a table: a row for each strategy, a pair of columns for each space, the held out ones first."""
    spaces = sorted({score.space for score in scores}, key=lambda name: (name not in HELD_OUT, name))
    scores_by_key = {(score.strategy, score.space): score for score in scores}
    lines = [
        "| strategy | mean | "
        + " | ".join(f"{name}{' (held out)' if name in HELD_OUT else ''}" for name in spaces)
        + " |"
    ]
    lines.append("| --- |" + " ---: |" * (len(spaces) + 1))
    for strategy in dict.fromkeys(score.strategy for score in scores):
        cells = []
        for name in spaces:
            score = scores_by_key.get((strategy, name))
            near = " / ".join("–" if math.isinf(t) else f"{t:.0f}" for t in score.near) if score else ""
            cells.append(f"{score.score:.3f}: {near}" if score else "")
        mean = statistics.fmean(score.score for score in scores if score.strategy == strategy)
        lines.append(f"| {strategy} | {mean:.3f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Replay, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", type=Path, help="files of spaces; those of benchmarks/spaces by default")
    parser.add_argument("--seeds", type=int, default=30, help="searches of each strategy on each space")
    parser.add_argument("--evaluations", type=int, default=200, help="measurements of each search at most")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES), help="lab's")
    parser.add_argument("--kernel-tuner", type=Path, default=None, help="a Python that has kernel-tuner")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    files = options.spaces or sorted(FOLDER.glob("*.json.gz"))
    scores = []
    theirs = (
        kernel_tuner_paths(options.kernel_tuner, files, options.seeds, options.evaluations)
        if options.kernel_tuner
        else {}
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        for strategy in options.strategies:
            for file in files:
                replay, name, began = _replay_of(file), file.name.partition(".")[0], time.monotonic()
                if strategy in WITH_PRIOR and replay.prior is None:
                    continue
                search_path = partial(path_of, file, strategy, options.evaluations)
                paths = list(
                    pool.map(search_path, range(options.seeds))
                    if options.jobs > 1
                    else map(search_path, range(options.seeds))
                )
                scores.append(scored(name, strategy, paths, list(replay.ms.values())))
                near = ", ".join(f"{t:.0f} to {share:.0%}" for t, share in zip(scores[-1].near, NEAR, strict=True))
                print(
                    f"{strategy}, {name}: {scores[-1].score:.3f}, {near}; {time.monotonic() - began:.1f} s", flush=True
                )
    for name, by_strategy in theirs.items():
        ms = list(_replay_of(next(file for file in files if file.name.partition(".")[0] == name)).ms.values())
        scores += [scored(name, f"Kernel Tuner: {strategy}", paths, ms) for strategy, paths in by_strategy.items()]
    print(table(scores))


if __name__ == "__main__":
    main()
