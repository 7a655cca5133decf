"""Write the tables of docs/results/README.md and the figure of the GEMM from the committed H200 runs.

python benchmarks/result_tables.py
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from published_rows import rows  # the module beside this one

from lab.recorded.run_records import Status
from lab.report.charts import style
from lab.store import published

ROOT = Path(__file__).parents[1]
H200 = ROOT / "reports" / "h200"
LIBRARY = ROOT / "libraries" / "h200_sgemm"
START, END = "<!-- table: {} -->\n", "<!-- end table -->"
LAYOUTS = ("nn", "nt", "tn", "tt")
SOUND = [str(status) for status in Status if status.sound]

# GFLOP/s at 8192x8192x8192 on a V100 SXM2, as the SGEMM ladder is known from; peak 80 SMs x 64 lanes x 2 x 1.53 GHz.
V100 = {
    "v0": 235, "v1": 2147, "v2": 2396, "v3": 702, "v4": 3391, "v5": 5401, "64x64": 13607, "128x128": 14429,
    "CUTLASS": 13853, "cuBLAS": 15325,
}  # fmt: skip
V100_PEAK = 15700
TUNED = {
    "gemm_tensile": "27 x 27 of M and N, K = 3104",
    "gemm_tensile_brute": "14 x 14 of these, by brute force",
    "gemm_deepbench": "DeepBench's",
    "gemm_deepbench_paper": "DeepBench's nn and tn, kernels of Tensile's paper",
    "hgemm_deepbench": "DeepBench's, BF16",
    "gemm_batched": "batches of 8 to 256 products of 16 to 512",
}

LADDER_SIZE = 8192
TWO = 2
IDEAS = {
    "v0": "a thread an element, uncoalesced",
    "v1": "coalesced",
    "v2": "signed index",
    "v3": "32x32 shared tiles",
    "v4": "padded rows",
    "v5": "4 elements a thread, vector loads, prefetch",
    "64x64": "4x4 elements a thread",
    "64x64 padded": "padded rows, unrolled 16 times",
    "128x128": "8x8 elements a thread",
    "128x128 two buffers": "a barrier less for each k tile",
    "128x128 padded": "padded rows, unrolled 8 times, two blocks an SM",
    "CUTLASS": "the best of 44 settings, 16x8 elements a thread",
    "cuBLAS": "",
}


def table(ladder: Path, cutlass: Path) -> str:
    """The table as Markdown; one row a rung, the fastest of CUTLASS's kernels and cuBLAS last."""
    frame, others = rows(ladder), rows(cutlass)
    others = others[others["kernel"].str.startswith("CUTLASS") & (others["problem.m"] == LADDER_SIZE)]
    frame = pd.concat([frame, best_first(others).head(1).assign(kernel="CUTLASS")], ignore_index=True)
    rates = dict(zip(frame["kernel"], frame["measured_tflops"].astype(float), strict=True))
    loads = dict(zip(frame["kernel"], frame["ptx_fma_per_ld_shared"].astype(float), strict=True))
    buffers = dict(zip(frame["kernel"], map(_buffers, frame.to_dict("records")), strict=True))
    over = dict(zip(frame["kernel"], frame["ratio_to_baseline"].astype(float), strict=True))
    peak = float(frame["peak_tflops"].iloc[0])
    lines = [
        "| rung | idea | fma : ld.shared | H200 TFLOP/s | % of peak | V100 GFLOP/s | % of peak |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    best = max(rates.keys() - {"CUTLASS"}, key=lambda name: over[name])  # cuBLAS as it ran beside the ladder
    cublas = rates[best] / over[best]
    for rung, idea in IDEAS.items():
        if rung not in rates and rung != "cuBLAS":
            continue
        measured = cublas if rung == "cuBLAS" else rates[rung]
        ratio = loads.get(rung, math.nan)
        shown = "" if math.isnan(ratio) else f"{ratio:.3g} : 1"
        known = [f"{V100[rung]}", f"{V100[rung] / V100_PEAK:.1%}"] if rung in V100 else ["", ""]
        both = ", two buffers" if buffers.get(rung) == TWO else ""
        cells = [rung, f"{idea}{both}", shown, f"{measured:.2f}", f"{measured / peak:.1%}", *known]
        lines.append(f"| {' | '.join(cells)} |")
    note = f"Peaks: {peak:.1f} TFLOP/s (H200), {V100_PEAK / 1000:.1f} TFLOP/s (V100). FP32, m = n = k = {LADDER_SIZE}."
    return "\n".join([*lines, "", note, ""])


def _buffers(row: Mapping[Hashable, object]) -> int:
    """Return how many pairs of shared tiles a variant has; 1 where its template has no choice."""
    return TWO if row.get("p.double_buffer") is True or row.get("p.buffers") == TWO else 1


def best_first(problem: pd.DataFrame, rate: str = "measured_tflops") -> pd.DataFrame:
    """Rows of one problem, ranked as `lab.measured.standing` says.

    Args:
        problem: Rows of verified variants.
        rate: The column with their throughput.
    """
    compared = problem[problem[rate].notna()]
    return compared.sort_values(
        "ratio_to_baseline" if compared["ratio_to_baseline"].notna().all() else rate, ascending=False
    )


def winners(*folders: Path) -> pd.DataFrame:
    """The best verified variant of each problem, with `cublas_tflops` beside it, by size and layout."""
    frames = []
    for folder in folders:
        frame = rows(folder)
        frame = frame[frame["status"].isin(SOUND)]
        problem = ["problem.m", "problem.n", "problem.k", "problem.layout"]
        frames.append(pd.concat(best_first(group).head(1) for _, group in frame.groupby(problem)))
    best_variants = pd.concat(frames)
    best_variants["cublas_tflops"] = best_variants["measured_tflops"] / best_variants["ratio_to_baseline"]
    sizes = best_variants[["problem.m", "problem.n", "problem.k"]]
    best_variants["size"] = [f"{m}" if m == n == k else f"{m} x {n} x {k}" for m, n, k in sizes.itertuples(index=False)]
    return best_variants.sort_values(["problem.k", "problem.m", "problem.layout"])


def gemm_table(best_variants: pd.DataFrame) -> str:
    """One row a size: ours and cuBLAS for each layout, and the best of ours as a share of the peak."""
    lines = [
        f"| m = n = k | {' | '.join(LAYOUTS)} | best of ours, % of peak | cuBLAS there |",
        f"| --- | {' | '.join('---:' for _ in LAYOUTS)} | ---: | ---: |",
    ]
    for size, group in best_variants.groupby("size", sort=False):
        by_layout = group.set_index("problem.layout")
        cells = []
        for layout in LAYOUTS:
            if layout in by_layout.index:
                one = by_layout.loc[layout]
                ratio = one["ratio_to_baseline"]
                cells.append(f"{one['measured_tflops']:.1f} / {one['cublas_tflops']:.1f} = {ratio:.2f}")
            else:
                cells.append("")
        best = group.sort_values("measured_tflops").iloc[-1]
        shares = [f"{best[name] / best['peak_tflops']:.1%}" for name in ("measured_tflops", "cublas_tflops")]
        lines.append(f"| {' | '.join([str(size), *cells, *shares])} |")
    return "\n".join([*lines, ""])


TENSOR_IDEAS = {
    "v0": "`mma.sync`, fragments from global memory",
    "v1": "shared memory, `ldmatrix`",
    "v2": "`cp.async`, several stages",
    "v3": "`wgmma`",
    "v4": "bulk tensor copies",
    "v5": "a warp that fetches, warpgroups that multiply",
    "v6": "persistent blocks, tiles in bands",
    "v7": "clusters of two, multicast",
    "v8": "C by `stmatrix` and bulk stores",
}


def tensor_table(folder: Path) -> str:
    """Format one row per rung: for each problem, the variant closest to cuBLAS, timed interleaved with it."""
    frame = rows(folder)
    frame = frame[(frame["status"].isin(SOUND)) & ~frame["kernel"].str.contains("four")]
    frame["cublas_tflops"] = frame["measured_tflops"] / frame["ratio_to_baseline"]
    problem = ["problem.m", "problem.layout", "problem.dtype"]
    groups = list(frame.groupby(problem, sort=False))
    heads = [f"{m} {layout} {dtype}" for (m, layout, dtype), _ in groups]
    lines = [f"| | idea | {' | '.join(heads)} |", f"| --- | --- | {' | '.join('---:' for _ in heads)} |"]
    for rung, idea in TENSOR_IDEAS.items():
        cells = []
        for _, group in groups:
            own = group[group["kernel"].str.startswith(rung)]
            best = best_first(own).iloc[0]
            ours, theirs, ratio = (best[name] for name in ("measured_tflops", "cublas_tflops", "ratio_to_baseline"))
            cells.append(f"{ours:.0f} / {theirs:.0f} = {ratio:.2f}")
        lines.append(f"| {rung} | {idea} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def gemm_figure(best_variants: pd.DataFrame, file: Path) -> None:
    """Ours and cuBLAS as bars, a pair for each layout of each size, against the peak."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    places, labels, x = [], [], 0.0
    for size, group in best_variants.groupby("size", sort=False):
        first = x
        for ours, theirs in zip(group["measured_tflops"], group["cublas_tflops"], strict=True):
            axes.bar(x, float(ours), 0.4, color=style.SERIES[0])
            axes.bar(x + 0.4, float(theirs), 0.4, color=style.SERIES[1])
            x += 1
        places.append((first + x - 0.6) / 2)
        labels.append(f"{size}\n{' '.join(group['problem.layout'])}")
        x += 0.7
    peak = float(best_variants["peak_tflops"].iloc[0])
    axes.axhline(peak, color="grey", linewidth=1, linestyle="--")
    axes.set(ylabel="TFLOP/s (measured, median)", title="FP32 matrix product on an H200", ylim=(0, peak * 1.2))
    axes.set_xticks(places, labels, fontsize=8)
    axes.bar(0, 0, color=style.SERIES[0], label="ours")
    axes.bar(0, 0, color=style.SERIES[1], label="cuBLAS")
    axes.plot([], [], color="grey", linewidth=1, linestyle="--", label=f"peak, {peak:.1f} TFLOP/s")
    axes.legend(ncols=3, loc="upper left", fontsize=8)
    figure.savefig(file, dpi=130)


def softmax_table(short: Path, long: Path) -> str:
    """Some row lengths: the fastest of ours, and what copy, torch and Triton did beside it."""
    lines = [
        "| rows x row length | GB/s | of the copy | of torch | of Triton | form |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    # the number of rows is the experiments' own, and no column of theirs
    chosen = ((short, 4096, (256, 1024, 2048, 4096, 8192, 12672)), (long, 1024, (16384, 65536, 131072, 262144)))
    for folder, count, lengths in chosen:
        frame = rows(folder)
        for length in lengths:
            group = frame[frame["problem.n"] == length]
            best = best_first(group, "measured_gb_s").iloc[0]
            ratios = [f"{best[f'ratio_to_{name}']:.3f}" for name in ("baseline", "torch", "triton")]
            lines.append(
                f"| {' | '.join([f'{count} x {length}', f'{best.measured_gb_s:.0f}', *ratios, best['kernel']])} |"
            )
    return "\n".join([*lines, ""])


def tuning_table() -> str:
    """One row a tuning run: the size-tuned kernels over cuBLAS and over one kernel for all sizes."""
    lines = [
        "| sizes | n | over cuBLAS | faster at | over one kernel for all | kernels that win |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, sizes in TUNED.items():
        frame = pd.read_csv(H200 / name / published.WINNERS)
        over = {key: frame[f"{key}_ms"] / frame["ms"] for key in ("cublas", "single_tuned")}
        means = [f"{np.exp(np.log(ratio).mean()):.2f}" if ratio.notna().any() else "" for ratio in over.values()]
        link = f"[{sizes}](../../reports/h200/{name}/index.html)"
        cells = [link, f"{len(frame)}", means[0], f"{(over['cublas'] > 1).mean():.0%}", means[1]]
        lines.append(f"| {' | '.join([*cells, str(frame['kernel'].nunique())])} |")
    return "\n".join([*lines, ""])


def library_table() -> str:
    """One row a class of sizes: the shipped library over cuBLAS, at sizes that it was not tuned for."""
    random, listed = (pd.read_csv(LIBRARY / f"{name}.csv") for name in ("check", "check_deepbench"))
    classes = {"tiny": "tiny", "thin": "m or n at most 64", "deep": "k above 16 times both", "large": "larger"}
    groups = {"random": random}
    groups |= {f"random, {layout}": random[random["layout"] == layout] for layout in LAYOUTS}
    groups |= {f"random, {text}": random[random["shape"] == name] for name, text in classes.items()}
    groups |= {"random, 4 divides m, n and k": random[random["alignment"] == "aligned"], "DeepBench's": listed}
    lines = ["| sizes | n | over cuBLAS | 5th percentile | faster at |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, frame in groups.items():
        ratio = frame["ratio"].dropna()
        mean, least, faster = np.exp(np.log(ratio).mean()), ratio.quantile(0.05), (ratio > 1).mean()
        lines.append(f"| {name} | {len(ratio)} | {mean:.2f} | {least:.2f} | {faster:.0%} |")
    return "\n".join([*lines, ""])


def tables() -> dict[str, str]:
    """Every table by the name of its marker."""
    return {
        "ladder": table(*(H200 / name for name in ("gemm_ladder", "gemm_cutlass"))),
        "gemm": gemm_table(_gemm()),
        "tensor": tensor_table(H200 / "hgemm_ladder"),
        "softmax": softmax_table(H200 / "softmax_rows", H200 / "softmax_long"),
        "tuning": tuning_table(),
        "library": library_table(),
    }


def _gemm() -> pd.DataFrame:
    return winners(*(H200 / name for name in ("gemm_small", "gemm_winners")))


def filled(page: str, made: dict[str, str]) -> str:
    """The text with what stands between the markers replaced."""
    for name, text in made.items():
        start = START.format(name)
        head, _, rest = page.partition(start)
        _, _, tail = rest.partition(END)
        page = f"{head}{start}{text}{END}{tail}"
    return page


def main() -> None:
    """Fill the tables of the results and draw the figure."""
    page = ROOT / "docs" / "results" / "README.md"
    page.write_text(filled(page.read_text(), tables()))
    gemm_figure(_gemm(), H200 / "gemm.png")


if __name__ == "__main__":
    main()
