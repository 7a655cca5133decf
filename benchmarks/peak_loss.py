"""Print what an SGEMM at 8192 loses of the FP32 peak: idle SMs, other instructions, and cycles without an instruction.

python benchmarks/peak_loss.py

A row for the fastest variant with hardware counters of every layout in the committed runs. Three shares of different
origin:

- rounds: tiles over the places for blocks in whole rounds of them, from the tile's sides and the occupancy
- fma: the fma that the product needs (m n k / 32 of a warp) over the instructions that ncu counted
- issue: of a scheduler's active cycles, those in which it issued an instruction, by ncu

A scheduler issues one instruction a cycle, and the peak is an fma in each, so their product is what they leave of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from published_rows import rows  # the module beside this one

from lab.base.warp import WARP_SIZE
from lab.hardware.gpus import gpu_for

H200 = Path(__file__).parents[1] / "reports" / "h200"
RUNS = ("gemm_bulk", "gemm_best", "gemm_winners")
SIDE = 8192
GPU = gpu_for("H200")


def rounds(block_m: float, block_n: float, threads: float, occupancy: float) -> float:
    """Return the part of all places for blocks, over whole rounds, that has a tile of a SIDE x SIDE result."""
    tiles = math.ceil(SIDE / block_m) * math.ceil(SIDE / block_n)
    places = GPU.sms * round(occupancy * GPU.architecture.threads_per_sm / threads)
    return tiles / (math.ceil(tiles / places) * places)


def counted(run: str) -> pd.DataFrame:
    """Return the fastest variant with counters of each layout of a committed run, one row each."""
    frame = rows(H200 / run)
    frame = frame.assign(layout=frame.get("problem.layout", "nn"))
    if "problem.m" in frame:
        frame = frame[frame["problem.m"] == SIDE]
    frame = frame[frame["counted_issue_share"].notna() & frame["p.block_m"].notna()]
    return frame.sort_values("measured_tflops", ascending=False).groupby("layout", sort=True).head(1)


def lines() -> Iterator[str]:
    """Yield the table as Markdown."""
    yield "| run, layout | TFLOP/s | of the peak | rounds | fma | issue | product | the most frequent wait |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for run in RUNS:
        for _, row in counted(run).iterrows():
            threads = row["p.block_m"] * row["p.block_n"] / (row["p.thread_m"] * row["p.thread_n"])
            shares = (
                rounds(row["p.block_m"], row["p.block_n"], threads, row["occupancy"]),
                SIDE**3 / WARP_SIZE / row["counted_instructions"],
                row["counted_issue_share"],
            )
            three = " | ".join(f"{share:.3f}" for share in shares)
            yield (
                f"| [{run}](../../reports/h200/{run}/index.html), {row['layout']} | {row['measured_tflops']:.1f} "
                f"| {row['measured_peak_share']:.3f} | {three} | {math.prod(shares):.3f} | {row['counted_wait']} |"
            )


if __name__ == "__main__":
    print("\n".join(lines()))
