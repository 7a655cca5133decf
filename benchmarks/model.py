"""Write docs/model.md: the schedulers' model, run without a GPU, against the committed times of an H200.

python benchmarks/model.py

The experiments are compiled here, executed on the CPU and estimated; the measured figures are those of reports/h200.
Another compiler's SASS may differ from what is estimated here; the page says which compilers they were.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from lab.pipeline import machine_of
from lab.report.figures import estimated
from lab.report.model import agreement, loss
from lab.run import Options, run
from lab.store import VariantRecord

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "model.md"
NAMES = ("gemm_ladder", "gemm_unroll")

_TEXT = """\
<!-- made by benchmarks/model.py; do not edit -->
# Estimated throughput: a model of the SM's schedulers

A ceiling says what a kernel cannot exceed. The estimate says what it would reach: `lab/pipeline` issues the main loop's
SASS on one of an SM's four schedulers, cycle by cycle, with the resident warps.

- The compiler's own scheduling bits decide when an instruction may issue: the stall that covers fixed latencies, and
  the barriers that memory instructions raise and others wait for (`lab/isa/control.py`).
- An arithmetic instruction that reads two or three registers of one bank (register number modulo 2) beyond the operand
  cache costs more than its slot.
- Shared and global memory take turns on the SM's data path, for as many passes as the CPU execution counted: wavefronts
  and sectors ([how those agree with hardware](fidelity.md)). A queue of memory instructions that is full stops issue.
- Barriers wait for the block's last warp, copies for their group, global loads for a latency under load.
- The loop around the hot loop is issued with it, as often as the CPU execution says. What surrounds both is left out,
  and a last round of blocks that does not fill the GPU takes as long as a full one.

Every cycle in which nothing issues belongs to what the first warp waits for, so the estimate also says where the cycles
go. On the page of a run both stand beside the measurement.

The few latencies and rates of the model ({source}) are the same for all
kernels; they were fitted to the very variants below.
"""


def main() -> None:
    """Run, compare and write the page."""
    machine = machine_of("sm_90")
    lines = [_TEXT.format(source=machine.source if machine else "")]
    for name in NAMES:
        lines += section(name)
    PAGE.write_text("\n".join(lines))
    print(PAGE)


def section(name: str) -> list[str]:
    """The comparison of one experiment."""
    times = pd.read_csv(ROOT / "reports" / "h200" / name / "records.csv", keep_default_na=False)
    with tempfile.TemporaryDirectory() as folder:
        options = Options(output=Path(folder) / name, measure=False)
        records = run(ROOT / "experiments" / f"{name}.yaml", options, _Silent()).records
    table = pd.DataFrame(map(_figures, records)).merge(times[["kernel", "label", "measured_tflops"]], how="left")
    if table.isna().any(axis=None):
        raise SystemExit(f"{name}: the committed report has other variants, or one has no estimate")
    build, theirs = records[0].build, times.iloc[0]
    here = f"{build.toolchain} {build.version}" if build else "?"
    lines = [
        f"## {name}\n",
        f"Compiled here by {here}, measured as {theirs.toolchain} {theirs.toolchain_version} made it.\n",
    ]
    for what in ("estimate", "ceiling"):
        points = list(zip(table.variant, table.measured_tflops, table[what], strict=True))
        if found := agreement(what, what, points):
            lines.append(f"- The {found.sentence}.")
    lines += [
        "",
        "| variant | measured, TFLOP/s | estimate | ceiling | estimate over measured | costs most besides fma |",
    ]
    lines += ["|---|---:|---:|---:|---:|---|"]
    lines += [
        f"| {row.label or row.kernel} | {row.measured_tflops:.2f} | {row.estimate:.2f} | {row.ceiling:.2f} "
        f"| {row.estimate / row.measured_tflops:.2f} | {row.loss} |"
        for row in table.itertuples()
    ]
    return [*lines, ""]


def _figures(record: VariantRecord) -> dict[str, object]:
    ceiling = record.prediction.ceiling if record.prediction else None
    return {
        "variant": record.variant,
        "kernel": record.kernel,
        "label": record.label,
        "estimate": estimated(record),
        "ceiling": ceiling.tflops if ceiling else None,
        "loss": loss(record),
    }


class _Silent:
    """Nobody watches."""

    def __getattr__(self, name: str) -> object:
        return lambda *_args, **_options: None


if __name__ == "__main__":
    main()
