"""Tasks and candidates in a folder, judged in the test's own process."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from lab.judging.judge import JudgeOptions, judge_text
from lab.judging.task import Request, load_task
from lab.judging.verdict import Judgement

ADD = """title: Add two vectors
problem: {n: 1_000_000}
emulate: {n: 300}
arguments: {c: "out float32[n]", a: "float32[n]", b: "float32[n]", n: int32}
reference: {c: a + b}
grid: ceil_div(n, 128)
block: 128
hidden: {sizes: {n: {range: [1, 400, 1]}}}
"""

SUM = """problem: {n: 100_000}
emulate: {n: 3000}
arguments: {total: "inout float32[1] zeros", x: "float32[n] uniform 0 1", n: int32}
reference: {total: total + sum(x)}
hidden: {sizes: {n: {range: [1, 3000, 1]}}}
"""

RIGHT = """__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


class InProcess:
    """An executor that runs each function at once, in this process."""

    workers = 1

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - as a worker hands it on
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def task_in(folder: Path, text: str = ADD, **changes: str) -> Path:
    """Write a task file; `changes` replace or add top-level keys, given as YAML."""
    lines = [line for line in text.splitlines() if line.partition(":")[0] not in changes]
    lines += [f"{key}: {value}" for key, value in changes.items() if value]
    file = folder / "add.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def request_in(file: Path, name: str, source: str, seed: int) -> Request:
    """Return the request for a source."""
    return Request(file, file.read_text(), name, source, seed)


def judged(
    folder: Path, source: str, text: str = ADD, *, name: str = "kernel.cu", seed: int = 3, **changes: str
) -> Judgement:
    """Return the verdict on a source."""
    task = load_task(task_in(folder, text, **changes))
    return judge_text(task, source, name, JudgeOptions(seed=seed, executor=InProcess()))
