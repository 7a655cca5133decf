"""Compare predicted with measured changes of time: pairs of committed variants that differ in one parameter.

    python benchmarks/diff_pairs.py              # 40 pairs of reports/h200 and reports/h100
    python benchmarks/diff_pairs.py --seed 7     # 40 others

A pair is drawn where the measured time moves by more than 3 %, at most three of one run. The prediction is that of
`lab diff` with an experiment: both variants estimated by one model. Its sign is right where the slower one is predicted
to be slower; a pair without a prediction is left out and counted.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from lab.predict.time_estimates import mutual_estimates
from lab.recorded.run_records import VariantRecord
from lab.store.figures import measured
from lab.store.published import RECORDS, read_records

ROOT: Final = Path(__file__).parents[1]
MOVES: Final = 0.03
MOST_OF_A_RUN: Final = 3


@dataclass(frozen=True)
class Pair:
    """Two variants of a run.

    Attributes:
        run: The folder.
        change: The parameter with both values.
        measured: Measured time of the second over that of the first.
        predicted: The same as predicted; None where one has no estimate.
    """

    run: str
    change: str
    measured: float
    predicted: float | None

    @property
    def right(self) -> bool:
        """Return whether the predicted time moves to the measured side."""
        return self.predicted is not None and (self.predicted > 1) == (self.measured > 1) and self.predicted != 1


def differing(a: VariantRecord, b: VariantRecord) -> list[str]:
    """Return the parameters that differ, where all else is the same; several where anything else differs."""
    if (a.kernel, a.problem, a.arch, a.compiler) != (b.kernel, b.problem, b.arch, b.compiler):
        return ["", ""]
    names = a.parameters.keys() | b.parameters.keys()
    return [name for name in sorted(names) if a.parameters.get(name) != b.parameters.get(name)]


def pairs(folder: Path, rng: random.Random) -> Iterator[Pair]:
    """Yield the pairs of a run in a drawn order."""
    records = [r for r in read_records(folder).records if r.status.sound and measured(r)]
    drawn = list(combinations(records, 2)) if len(records) <= 300 else [  # noqa: PLR2004 - enough pairs to draw from
        tuple(rng.sample(records, 2)) for _ in range(20_000)
    ]  # fmt: skip
    rng.shuffle(drawn)
    for a, b in drawn:
        names, first, second = differing(a, b), measured(a), measured(b)
        if len(names) != 1 or not first or not second or abs(first / second - 1) <= MOVES:
            continue
        before, after = mutual_estimates([a], [b])
        predicted = after[b.variant].ms / before[a.variant].ms if before and after else None
        change = f"{names[0]} {a.parameters.get(names[0])} -> {b.parameters.get(names[0])}"
        yield Pair(folder.relative_to(ROOT / "reports").as_posix(), change, first / second, predicted)


def main() -> None:
    """Print the pairs and the share of right signs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=40)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311 - drawn, not secret
    folders = sorted(file.parent for file in (ROOT / "reports").glob(f"h?00/*/{RECORDS}"))
    rng.shuffle(folders)
    chosen: list[Pair] = []
    without = 0
    for folder in folders:
        if len(chosen) >= arguments.pairs:
            break
        taken = 0
        for pair in pairs(folder, rng):
            if pair.predicted is None:
                without += 1
                if without % 50 == 0:
                    break
                continue
            chosen.append(pair)
            taken += 1
            if taken == MOST_OF_A_RUN or len(chosen) == arguments.pairs:
                break
    for pair in chosen:
        print(
            f"{'right' if pair.right else 'WRONG'}  measured {100 * (pair.measured - 1):+7.1f} %  "
            f"predicted {100 * ((pair.predicted or 1) - 1):+7.1f} %  {pair.run}  {pair.change}"
        )
    right = sum(pair.right for pair in chosen)
    print(f"{right} of {len(chosen)} signs right where the measured time moves by more than {MOVES:.0%}")
    moving = [pair for pair in chosen if abs((pair.predicted or 1) - 1) > MOVES]
    print(f"{sum(pair.right for pair in moving)} of {len(moving)} where the predicted time does so, too")
    print(f"{without} pairs without a prediction were passed over")


if __name__ == "__main__":
    main()
