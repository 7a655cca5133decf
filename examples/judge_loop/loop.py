"""Improve kernels by the judge's advice alone: ``python examples/judge_loop/loop.py``.

The model is a script here: it answers a finding's rule with its next kernel. Put a call of a language model in place of
`answer`, with the task, the source and the verdict in its prompt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lab

HERE = Path(__file__).parent
TASKS = HERE.parents[1] / "benchmarks" / "judge_gallery"
ANSWERS = {"gemm": ["uncoalesced access", "uncoalesced access"], "softmax": ["uncoalesced access"]}


def answer(name: str, step: int, verdict: dict[str, Any]) -> str | None:
    """Return the model's next kernel for a verdict; None if it has no further idea."""
    rules = [finding["rule"] for finding in verdict.get("advice", [])]
    if step < len(ANSWERS[name]) and ANSWERS[name][step] in rules:
        return (HERE / f"{name}_{step + 1}.cu").read_text()
    return None


def improve(name: str, seed: int = 0) -> list[float]:
    """Return the predicted time of every kernel that the model wrote for a task, in microseconds."""
    times: list[float] = []
    source: str | None = (HERE / f"{name}_0.cu").read_text()
    while source is not None:
        verdict = json.loads(lab.judge(TASKS / name / "task.yaml", source, seed=seed).as_json())
        print(f"{name} {len(times)}: {verdict['verdict']}, {verdict['reason']}")
        if verdict["verdict"] != "correct":
            break
        times.append(verdict["time"]["predicted_us"])
        print(f"  {times[-1]:.0f} us predicted, limited by {verdict['time']['limit']}")
        for finding in verdict.get("advice", [])[:1]:
            print(f"  {finding['rule']} at {finding.get('line', '?')}: {finding['remedy']}")
        source = answer(name, len(times) - 1, verdict)
    return times


if __name__ == "__main__":
    for task in ANSWERS:
        improve(task)
