"""Hold the times by counted work (`lab.predict.score`) of BF16 products against those that tuning runs took.

python benchmarks/held_out_products.py
python benchmarks/held_out_products.py reports/h200/hgemm_tiles

Without a page: of the kernels of reports/h200/h200_bf16 and hgemm_deepbench, those whose name's hash is even are held
out: no constant of the model was chosen with their times in view. Of the others, --fit draws. Each draw takes five
kernels at each of some sizes, which a seed decides; each kernel is compiled by NVRTC and executed on the CPU at
m = n = k = 256. No GPU is needed; 200 points take ten minutes on two cores.

Of published pages of products, all variants are compiled and executed so, at k = 128: of older pages, counts are
missing or lack what the model reads today. The kernels are those of today's templates, not the code that was measured.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import lzma
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tensor_agreement import agreement  # the module beside this one

from lab.base import workers
from lab.experiment.load import from_text
from lab.experiment.space import Point
from lab.experiment.variants import plan
from lab.measured.timing import CardState, Measurement, Samples
from lab.predict.variant_scores import scores_of_problem
from lab.recorded.run_records import VariantRecord
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages import record as records
from lab.stages.build import BuildFailure, build, build_task
from lab.stages.estimate import execute
from lab.store import published
from lab.toolchain.select import toolchain

ROOT = Path(__file__).parents[1]
PAGES = tuple(ROOT / "reports" / "h200" / name for name in ("h200_bf16", "hgemm_deepbench"))
GPU = ROOT / "reports" / "h200" / "hgemm_ladder"
"""A page of the same GPU, whose facts have its description."""
_SIZE = 256
_EACH = 5


@dataclass(frozen=True)
class Timed:
    """The time of a kernel at a size.

    Attributes:
        page: The tuning run.
        template: The kernel's.
        parameters: Its parameters, as JSON.
        problem: What else the problem says, as JSON: layout and types.
        size: m, n and k.
        ms: Median of its samples.
        cache: State of L2.
    """

    page: str
    template: str
    parameters: str
    problem: str
    size: tuple[int, int, int]
    ms: float
    cache: str

    @property
    def held_out(self) -> bool:
        """Return whether the kernel is held out from fitting constants, at all sizes."""
        return hashlib.sha256(f"{self.template}{self.parameters}".encode()).digest()[0] % 2 == 0


def times_of(page: Path) -> list[Timed]:
    """Read the times of a published tuning run."""
    kernels = {
        (one["type"], one["name"]): one
        for one in json.loads(lzma.decompress((page / "tuning.json.xz").read_bytes()))["kernels"]
    }
    with lzma.open(page / published.TIMES, "rt", encoding="utf-8") as file:
        timed_points = {}
        for row in csv.DictReader(file):
            kernel, samples = kernels.get((row["type"], row["kernel"])), _samples(row)
            if kernel is None or not samples or row["kind"] != "measured" or row["failure"]:
                continue
            size = (int(row["m"]), int(row["n"]), int(row["k"]))
            parameters = json.dumps(kernel["parameters"], sort_keys=True)
            problem = json.dumps({"layout": row["type"][-2:], "dtype": "bfloat16"})
            timed_points[kernel["id"], size] = Timed(
                page.name, kernel["template"], parameters, problem, size, sorted(samples)[len(samples) // 2],
                row["cache"],
            )  # fmt: skip
    return list(timed_points.values())


def times_of_page(page: Path) -> list[Timed]:
    """Read the times of a published page of products."""
    return [
        Timed(
            page.name, record.template, json.dumps(dict(record.parameters), sort_keys=True),
            json.dumps({name: record.problem[name] for name in _FIELDS if name in record.problem}),
            (int(record.problem["m"]), int(record.problem["n"]), int(record.problem["k"])),
            record.measurement.samples.median, record.measurement.cache,
        )
        for record in published.read_records(page).records
        if record.measurement is not None and not record.status.failed
    ]  # fmt: skip


_FIELDS = ("layout", "dtype", "out_dtype", "precision", "epilogue", "data")


def _samples(row: Mapping[str, str]) -> list[float]:
    unused = set(row["unused"].split())
    return [float(ms) for place, ms in enumerate(row["samples_ms"].split()) if str(place) not in unused]


def drawn(times: Iterable[Timed], sizes: int, seed: int) -> list[Timed]:
    """Draw some sizes with enough kernels of two templates at least, and of each so many kernels, template by template.

    Args:
        times: What is drawn from.
        sizes: Sizes that are drawn, a layout counted with its size.
        seed: Of the generator.
    """
    groups: dict[tuple[Any, ...], list[Timed]] = defaultdict(list)
    for timed in times:
        groups[timed.page, timed.problem, *timed.size].append(timed)
    rng, selected = random.Random(seed), []  # noqa: S311 - a draw, no secret
    many = sorted(key for key, own in groups.items() if len(own) >= _EACH and len({one.template for one in own}) > 1)
    for key in rng.sample(many, min(sizes, len(many))):
        by_template: dict[str, list[Timed]] = defaultdict(list)
        for timed in sorted(groups[key], key=lambda one: one.template + one.parameters):
            by_template[timed.template].append(timed)
        for own in by_template.values():
            rng.shuffle(own)
        turns = [own[turn] for turn in range(_EACH) for _, own in sorted(by_template.items()) if turn < len(own)]
        selected += turns[:_EACH]
    return selected


def counted(points: Sequence[Timed], depth: int = _SIZE) -> list[tuple[Timed, VariantRecord]]:
    """Compile one kernel and execute it at k = `depth`, and make a record of each of its points."""
    run = published.read_records(GPU).run
    first = points[0]
    shared = json.loads(first.problem)
    problems = [{**shared, **dict(zip("mnk", point.size, strict=True))} for point in points]
    kernel = {"template": first.template, "parameters": json.loads(first.parameters)}
    emulate = {"m": _SIZE, "n": _SIZE, "k": depth}
    text = json.dumps({
        "question": "How long does it take?", "operator": "gemm", "problem": problems, "emulate": emulate,
        "kernels": [kernel], "archs": ["sm_90a"],
    })  # fmt: skip
    experiment = from_text(text, ROOT / "experiments" / "held_out_products.yaml")
    (kernel_case,) = experiment.kernels
    parameters = kernel_case.template.completed(json.loads(first.parameters))
    context = FlowContext(experiment, run.gpu, emulate=True)
    counted_points, executions = [], {}
    for timed, problem in zip(points, experiment.problems, strict=True):
        (planned,) = plan(experiment, [Point(kernel_case, parameters, problem, "")], [toolchain("nvrtc")], ["sm_90a"])
        (outcome,) = build([build_task(planned)])
        if isinstance(outcome, BuildFailure):
            continue
        variant = flow.inspect(context, planned, outcome, None)
        task = flow.emulation_task(context, variant)
        key = f"{outcome.build.ptx}\n{task!r}"  # the sizes of a kernel share an execution, as in a sweep
        if key not in executions:
            executions[key] = execute(task, outcome.build.ptx, variant.model)
        counted_points.append(
            (timed, _measured(records.judged(variant.record, *executions[key], variant.model), timed))
        )
    return counted_points


def _measured(record: VariantRecord, timed: Timed) -> VariantRecord:
    card = CardState(None, None, None, None, ())
    samples = Samples((timed.ms,), batch=1)
    return replace(record, measurement=Measurement(samples, None, None, timed.cache, card, card))


def main() -> None:
    """Print the totals of a draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="*", help="published pages of products, in place of a draw")
    parser.add_argument("--fit", action="store_true", help="kernels that are not held out")
    parser.add_argument("--sizes", type=int, default=40, help="sizes that are drawn, five kernels each")
    parser.add_argument("--seed", type=int, default=20261125, help="of the draw")
    options = parser.parse_args()
    depth = _SIZE
    if options.pages:
        points, depth = [timed for page in options.pages for timed in times_of_page(page)], _SIZE // 2
    else:
        times = [timed for page in PAGES for timed in times_of(page) if timed.held_out != options.fit]
        points = drawn(times, options.sizes, options.seed)
    kernels: dict[tuple[str, str, str], list[Timed]] = defaultdict(list)
    for timed in points:
        kernels[timed.template, timed.parameters, timed.problem].append(timed)
    with ProcessPoolExecutor(workers.cores()) as pool:
        counted_points = [pair for pairs in pool.map(partial(counted, depth=depth), kernels.values()) for pair in pairs]
    groups: dict[tuple[Any, ...], list[tuple[Timed, VariantRecord]]] = defaultdict(list)
    for timed, record in counted_points:
        groups[timed.page, timed.problem, *timed.size].append(
            (timed, replace(record, variant=str(len(groups)) + record.variant))
        )
    all_results, picks = [], []
    for group in groups.values():
        estimates = scores_of_problem([record for _, record in group])
        own = [(1e3 * estimates[r.variant].seconds, one.ms, one) for one, r in group if r.variant in estimates]
        all_results += own
        if len(own) > 1:
            picks.append(min(ms for _, ms, _ in own) / min(own, key=lambda pair: pair[0])[1])
    _print("all", all_results)
    print(f"first picks reach {sum(picks) / len(picks):.1%} of the fastest in the mean over {len(picks)} sizes")
    for template in sorted({one.template for *_, one in all_results}):
        _print(template, [pair for pair in all_results if pair[2].template == template])


def _print(name: str, pairs: Sequence[tuple[float, float, Timed]]) -> None:
    print(f"{name}: {len(pairs)} points, {agreement([(made, ms) for made, ms, _ in pairs])}")


if __name__ == "__main__":
    main()
