"""Write the README's ladder table from the committed H200 run.

python benchmarks/readme_ladder.py
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
START, END = "<!-- table: ladder -->\n", "<!-- end table -->"

# GFLOP/s at 8192x8192x8192 on a V100 SXM2, as the SGEMM ladder is known from; peak 80 SMs x 64 lanes x 2 x 1.53 GHz.
V100 = {
    "v0": 235, "v1": 2147, "v2": 2396, "v3": 702, "v4": 3391, "v5": 5401, "64x64": 13607, "128x128": 14429,
    "cuBLAS": 15325,
}  # fmt: skip
V100_PEAK = 15700
IDEAS = {
    "v0": "a thread an element, uncoalesced",
    "v1": "coalesced",
    "v2": "signed index",
    "v3": "32x32 shared tiles",
    "v4": "padded rows",
    "v5": "4 elements a thread, vector loads, prefetch",
    "64x64": "4x4 elements a thread",
    "128x128": "8x8 elements a thread, double buffer",
    "cuBLAS": "",
}


def table(csv: Path) -> str:
    """The table as Markdown; one row a rung, cuBLAS last."""
    frame = pd.read_csv(csv).set_index("kernel")
    peak = float(frame["peak_tflops"].iloc[0])
    lines = [
        "| rung | idea | fma : ld.shared | H200 TFLOP/s | % of peak | V100 GFLOP/s | % of peak |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    best = frame["measured_tflops"].idxmax()
    cublas = float(frame.loc[best, "measured_tflops"]) / float(frame.loc[best, "ratio_to_baseline"])
    for rung, idea in IDEAS.items():
        known = V100[rung]
        measured = cublas if rung == "cuBLAS" else float(frame.loc[rung, "measured_tflops"])
        ratio = None if rung == "cuBLAS" else frame.loc[rung, "ptx_fma_per_ld_shared"]
        shown = "" if ratio is None or pd.isna(ratio) else f"{float(ratio):g} : 1"
        cells = [rung, idea, shown, f"{measured:.2f}", f"{measured / peak:.1%}", f"{known}", f"{known / V100_PEAK:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    note = f"Peaks: {peak:.1f} TFLOP/s (H200), {V100_PEAK / 1000:.1f} TFLOP/s (V100). FP32, 8192 x 8192 x 8192."
    return "\n".join([*lines, "", note, ""])


def main() -> None:
    """Replace what stands between the markers."""
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(START)
    _, _, tail = rest.partition(END)
    made = table(ROOT / "reports" / "h200" / "gemm_ladder" / "records.csv")
    readme.write_text(f"{head}{START}{made}{END}{tail}")


if __name__ == "__main__":
    main()
