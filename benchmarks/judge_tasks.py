"""Tasks for `lab judge` made from experiments: their arguments and references, and their kernels as solutions.

A parameter that a shape, a value or the reference names becomes a field of the task's problem. The other parameters are
the candidate's own: its source begins with a macro for each, and its header has the launch with their values.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.api.given import yaml_of
from lab.base import yamlfile
from lab.experiment.load import load
from lab.experiment.machine import on
from lab.experiment.space import expand
from lab.operators.declared.operator import Declared

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("plain", "others")

HIDDEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "argmax": {"segments": {"range": [1, 9, 1]}, "length": {"range": [1, 2500, 1]}},
    "attention_row": {"keys": {"range": [1, 60, 1]}},
    "axpy": {"n": {"range": [1, 40000, 1]}},
    "block_sort": {"segments": [1, 2, 4]},
    "cholesky": {"n": {"range": [1, 80, 1]}},
    "column_sums": {"m": {"range": [1, 500, 1]}, "n": {"range": [1, 150, 1]}},
    "compaction": {"n": {"range": [1, 50000, 1]}},
    "conv3x3": {"width": {"range": [1, 70, 1]}, "height": {"range": [1, 17, 1]}},
    "csr_sums": {"rows": {"range": [1, 400, 1]}},
    "depthwise": {"height": {"range": [1, 12, 1]}, "width": {"range": [1, 14, 1]}},
    "dot": {"n": {"range": [1, 100000, 1]}},
    "ell": {"rows": {"range": [1, 900, 1]}},
    "fft": {"transforms": [1, 2, 4]},
    "filter2d": {"width": {"range": [1, 90, 1]}, "height": {"range": [1, 40, 1]}},
    "fir": {"n": {"range": [1, 6000, 1]}},
    "flash_attention": {"queries": {"range": [1, 200, 1]}, "keys": {"range": [1, 60, 1]}},
    "gather": {"n": {"range": [1, 20000, 1]}},
    "heat3d": {"nx": {"range": [1, 66, 1]}, "ny": {"range": [1, 19, 1]}, "nz": {"range": [1, 9, 1]}},
    "inverse3": {"n": {"range": [1, 3000, 1]}},
    "jacobi": {"n": {"range": [1, 120, 1]}},
    "layer_norm": {"m": {"range": [1, 6, 1]}, "n": {"range": [2, 400, 1]}},
    "matmul": {"n": {"range": [1, 80, 1]}},
    "matvec": {"m": {"range": [1, 150, 1]}, "n": {"range": [1, 220, 1]}},
    "median": {"width": {"range": [1, 80, 1]}, "height": {"range": [1, 40, 1]}},
    "merged": {"n": {"range": [1, 4000, 1]}},
    "batched_gemm": {"count": {"range": [1, 80, 1]}},
    "histogram": {"n": {"range": [1, 60000, 1]}},
    "nbody": {"n": {"range": [1, 300, 1]}},
    "reduction": {"n": {"range": [1, 40000, 1]}},
    "spmv": {"rows": {"range": [1, 800, 1]}},
    "stencil": {"nx": {"range": [3, 140, 1]}, "ny": {"range": [3, 70, 1]}},
    "transpose": {"width": {"range": [1, 150, 1]}, "height": {"range": [1, 90, 1]}},
    "upsample": {"width": {"range": [1, 70, 1]}, "height": {"range": [1, 60, 1]}},
    "vector_add": {"n": {"range": [1, 10000, 1]}},
}  # fmt: skip
"""Sizes from which the judge draws; experiments that need multiples of a block have none."""

SMALLER: Final[Mapping[str, Mapping[str, int]]] = {"dot": {"n": 20_000}}
"""Sizes to emulate in place of the experiment's, where the grid makes these long."""

_LAUNCH: Final = ("kernel", "grid", "block", "shared_bytes", "cluster", "launches", "configs")


@dataclass(frozen=True)
class GalleryTask:
    """A task with its solutions.

    Attributes:
        name: The experiment's name.
        file: The task file.
        solutions: Correct candidates, one for each setting of the parameters.
    """

    name: str
    file: Path
    solutions: tuple[Path, ...]


def make_tasks(folder: Path, most: int = 4, seed: int = 0) -> list[GalleryTask]:
    """Write tasks and solutions below a folder.

    Args:
        folder: Where to.
        most: Settings of the parameters of each experiment, drawn at random.
        seed: Seed of the draw.
    """
    files = sorted(path for name in FOLDERS for path in (ROOT / "experiments" / name).glob("*.yaml"))
    tasks = (_task(file, folder, most, random.Random(f"{seed} {file.stem}")) for file in files)  # noqa: S311
    return [task for task in tasks if task is not None]


def _task(file: Path, folder: Path, most: int, rng: random.Random) -> GalleryTask | None:
    """Write one task; None for an experiment without a reference, or on a Triton function."""
    raw: dict[str, Any] = yamlfile.parse(file.read_text(encoding="utf-8"), file).data
    if ".cu" not in raw["source"] or "reference" not in raw or isinstance(raw["problem"], list):
        return None
    experiment = load(file, run_operator=False)
    experiment = on(experiment, ["sm_90"])
    if not isinstance(experiment.operator, Declared):
        return None
    points = list(expand(experiment, max_variants=10_000).points)
    shared = [name for name in experiment.operator.declaration.parameters if name in (raw.get("parameters") or {})]
    first = points[0].parameters
    fixed = {name: first[name] for name in shared}
    points = [point for point in points if all(point.parameters[name] == fixed[name] for name in shared)]
    home = folder / file.stem
    home.mkdir(parents=True, exist_ok=True)
    keys: dict[str, object] = {
        "title": raw["question"],
        "problem": {**raw["problem"], **fixed},
        "emulate": {**raw["emulate"], **SMALLER.get(file.stem, {})},
        "arguments": raw["arguments"],
        "reference": _absolute(raw["reference"], file.parent),
        **{key: raw[key] for key in ("constants", "tolerance", "metrics", "options") if key in raw},
        "hidden": {"sizes": dict(HIDDEN.get(file.stem, {}))},
        "policy": {"printing": False},
    }
    task = home / "task.yaml"
    task.write_text(yaml_of(keys), encoding="utf-8")
    source = (file.parent / raw["source"]).read_text(encoding="utf-8")
    solutions = []
    for number, point in enumerate(rng.sample(points, min(most, len(points)))):
        header: dict[str, object] = {key: _valued(raw[key], point.parameters) for key in _LAUNCH if key in raw}
        if "kernel" in raw:
            header["kernel"] = _valued(raw["kernel"], fixed)  # a parameter in braces stays one
        header["parameters"] = {name: value for name, value in point.parameters.items() if name not in fixed}
        solution = home / f"solution_{number}.cu"
        text = f"/* lab\n{yaml_of(header)}*/\n{_with_macros(source, fixed)}"
        solution.write_text(text, encoding="utf-8")
        solutions.append(solution)
    return GalleryTask(file.stem, task, tuple(solutions))


def _with_macros(source: str, macros: Mapping[str, Any]) -> str:
    """Return a source with macros behind its last include line, so that they do not change headers."""
    defines = "".join(f"#define {name} {_cuda(value)}\n" for name, value in macros.items())
    last = source.rfind("#include")
    end = source.find("\n", last) + 1 if last >= 0 else 0
    return source[:end] + defines + source[end:]


def _absolute(reference: object, folder: Path) -> object:
    return str(folder / reference) if isinstance(reference, str) else reference


def _cuda(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _valued(value: object, parameters: Mapping[str, Any]) -> object:
    """Return an expression with the values of parameters in place of their names."""
    if isinstance(value, list):
        return [_valued(member, parameters) for member in value]
    if isinstance(value, dict):
        return {key: _valued(member, parameters) for key, member in value.items()}
    if not isinstance(value, str):
        return value
    text = re.sub(r"\{\s*(\w+)\s*\}", lambda match: _cuda(parameters.get(match[1], match[0])), value)
    pattern = r"\b(" + "|".join(map(re.escape, parameters)) + r")\b" if parameters else r"(?!)"
    return re.sub(pattern, lambda match: _cuda(parameters[match[1]]), text)


def candidates_of(tasks: list[GalleryTask]) -> Iterator[tuple[GalleryTask, Path]]:
    """Yield every solution with its task."""
    for task in tasks:
        for solution in task.solutions:
            yield task, solution


if __name__ == "__main__":
    made = make_tasks(Path("judge-gallery"))
    print(json.dumps({task.name: [str(path) for path in task.solutions] for task in made}, indent=1))
