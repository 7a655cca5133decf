"""Write docs/explanation/model.md: the schedulers' model, run without a GPU, against the committed times of an H200.

python benchmarks/model.py

The estimates are those of reports/h200: after a change of the model, benchmarks/estimate_again.py makes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scipy.stats import spearmanr
from time_agreement import KNOWN, PREDICTED, TUNED, UNSEEN, blind, each, lists, spaces  # the module beside this one

from lab.recorded.run_records import VariantRecord
from lab.report.facts.agreement import loss
from lab.store import published
from lab.store.figures import by_problem, estimated, measured

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "model.md"
_WORST = 2
_ERROR, _RANK = 0.1, 0.8  # what an estimate should reach
_FEWEST = 5  # variants of a problem for a rank correlation


@dataclass(frozen=True, slots=True)
class Report:
    """A committed report and what it was used for.

    Attributes:
        name: Its folder.
        used: What the model was made with of it.
    """

    name: str
    used: str


REPORTS = (
    Report("fma_ceiling", "rule of the operand cache"),
    Report("gemm_unroll", "latencies (earlier form)"),
    Report("gemm_ladder", "latencies (earlier form)"),
    Report("gemm_techniques", "watched"),
    Report("gemm_best", "watched"),
    Report("gemm_winners", "watched; shares kernels with gemm_best"),
    Report("gemm_small", "watched"),
    Report("gemm_odd", "DRAM bound added for it"),
    Report("contraction", "nothing"),
    Report("gemm_bulk", "nothing; measured after the model was made"),
)

_TEXT = """\
<!-- made by benchmarks/model.py; do not edit -->
# The time model

Every variant that the CPU could execute has `estimated_ms`, `estimated_ms_low`, `estimated_ms_high` and
`estimated_cost` in records.csv, whatever its operator. Two models give the estimate:

- **The model of the schedulers** simulates the main loop's SASS on one SM. It is used where it covers all variants of
  a run: pipelined kernels on the FMA units.
- **[Counted work](score.md)** divides the work of the CPU execution by the rate of each resource. It covers any kernel.

Without a calibration, both have the constants of an H200. Their errors on it follow below.

## The model of the schedulers

A ceiling says what a kernel cannot exceed. The estimate says what it would reach: `lab/predict/schedulers` issues the
main loop's SASS on an SM with its resident warps, cycle by cycle, and adds the other costs of a launch.

- The compiler's own scheduling bits decide when an instruction may issue: the stall that covers fixed latencies, and
  the barriers that memory instructions raise and others wait for (`lab/isa/sass/control.py`).
- Each of a sub-partition's two register banks (register number modulo 2) delivers one register per cycle. An arithmetic
  instruction issues when all registers that it reads, except those that `.reuse` kept, arrive within three cycles; an
  instruction of another warp empties the operand cache.
- Each of the four sub-partitions sends one memory instruction in four cycles. They share one data path, on which an
  access takes as many passes as the CPU execution counted wavefronts ([against hardware](../results/fidelity.md)).
  Loads from shared memory then pass to the registers at 4 bytes per lane and cycle, however few wavefronts they took.
- A cp.async looks up a tag for each line that it reads; its sub-partition sends nothing else meanwhile. When its data
  arrives, it takes turns with the loads. Copies of 4 bytes whose lanes read four lines therefore cost four times as
  much as copies of 16 bytes of the same data.
- A bulk copy (TMA) takes one slot of one warp and looks up no tag; its data comes from L2 and takes its turn like that
  of a cp.async. A wait for an mbarrier waits for the copies of the previous iteration, as in a ring of two stages: a
  longer ring in a loop shorter than the latency is estimated too slow.
- Barriers wait for the block's last warp, copies for their group, and global loads for a latency under load.
- The loop around the hot loop is issued with it, as often as it ran on the CPU.
- The whole kernel takes a launch, rounds of as many blocks as fit, a last round at the pace of the blocks that are left
  for an SM, and for each block the instructions before and after its loop, its first data's latency and its stores. It
  takes no less than its least traffic through DRAM. Launches before it and buffers that are zeroed take their own time.

There is no estimate for a loop that waits for an mbarrier but issues no bulk copy itself (another warp does), for bulk
copies that more than one warp of a block issues, and for loops that use tensor cores.

Every cycle in which nothing issues is charged to what the first warp waits for, so the estimate also says where the
cycles go. The page of a run shows both beside the measurement. `lab/hardware/latencies.py` gives the source of each
constant; all kernels share them. The estimate assumes the GPU's highest SM clock: it cannot know what power allows.

## Errors of the model of the schedulers

Estimates against the times of an H200, all variants of a report together. "Watched" reports were in view while the form
of the model was chosen, so their figures are not out of sample. Nothing was chosen for contraction and gemm_bulk.
"""

_EVERY = """\
## Every kernel

Spaces whose every variant was measured on an H200. Nobody looked at the times of the first two before the estimates
were made.

{spaces}

convolution is the worst: its unrolled variants are one basic block of up to 7,000 instructions, whose reads are not
traced, and spills of up to 9 KB a thread. Code of 32 KB without a loop runs at a quarter of the issue slots.

The blind test: estimates of fifteen kernels of experiments/others were committed
([benchmarks/predicted_15.md](../../benchmarks/predicted_15.md)) before a GPU ran them at a2ab6ce. The errors of those
estimates:

{newest}

All lists by today's model. In the errors every sweep has the same weight, however many variants it has. "Rank" is
Spearman's correlation within a sweep, the median over the sweeps of five variants and more. Sweeps whose estimates lie
within 20 % have no first pick ("cannot tell"). "In its interval" is the share of measured times between
`estimated_ms_low` and `estimated_ms_high`, "width" the median of the one over the other.

{lists}

The aims on kernels that nothing was fitted to are a median error of 8 %, a p90 of 20 %, a rank of 0.9, and a first
pick that reaches 95 % of the best in nine of ten sweeps. They are missed. The causes:

- **Counts are of a small problem** in the reports below. New runs count up to 256 random blocks of the real one where
  throughput counts no operations, no launch reads what another wrote, and a block takes the CPU less than 2 s
  ([unseen kernels](../results/predictions.md)). Else the CPU also executes it with each size halved and quartered.
  Counts that follow curves of few terms are continued; else counts that grow with a whole power of a size are. Where
  the power is not a whole number, the estimate scales by bytes and the interval reaches up to that power. Data that
  behaves differently at the small size has other counts (mandelbrot's points, the updates of compaction and
  column_sums).
- **Caches.** L1 hits are counted on the first blocks by the lines read in between; each resident block has an equal
  share of L1. L2 holds 32 MiB of different lines, not 60. A sector read again comes from L2 unless the reads and
  stores of all resident blocks in between exceed that. gather is estimated 1.3 times too fast, layer_norm with blocks
  of 32 1.4 times.
- **Blocks at an edge.** Counts do not tell partly filled tiles of the small problem from tiles that reach beyond the
  edge of the real one (nbody, contraction).
- **Broadcast loads of 16 bytes** take four cycles in the model of the schedulers also where all lanes read the same
  ones: matmul with tiles of 32 by 8 elements a thread is faster than that.
- **Clusters, and blocks that fill an SM alone** (softmax_long) wait for each other longer than the norm of the
  resources says, up to two times.
- **Partly filled sectors** are charged their rest in DRAM unless later stores of the same block fill them. inverse3 is
  34 % too fast without that charge, and 58 % too slow with it.

### Sources of the constants

| constant | value | measured by |
|---|---|---|
| fma, integer, special, conversion, float64, shared load | 107, 63, 16, 32, 57, 32 lanes a cycle and SM | pipes |
| dependent fma; rsqrt | 4.8 cycles with the loop around it; 17.2 | pipes |
| branch back, for a warp alone | 5 cycles beside its stall | pipes |
| bank conflicts | 0.95 wavefronts a cycle, for 1 to 32 lanes a bank | banks |
| passes through the banks of L1; lines that it looks up | 1; 2.8 a cycle and SM | l1_reuse; random_sectors |
| code beyond 32 KB; beyond 128 KB | 0.85 to 2.6; 0.66 to 2.57 instructions a cycle, by warps | code_size |
| L2 to all SMs | 36 bytes a cycle and SM in whole lines, 20 in single sectors | working_set, random_sectors |
| load after load | L1 61 cycles, L2 387, DRAM 689 (under load 900, and L2 502) | chase |
| random sectors of DRAM | 42.3 a nanosecond: 45 in 512 MiB, less what L2 holds | random_sectors |
| lines that L2 holds | 32.4 of 60 MiB: 57 and 45 sectors a nanosecond in 128 and 512 MiB | random_sectors |
| loads of a warp between those of others | a basic block's: no variant waits for L2 | l1_reuse |
| launch in a graph | 1.6 µs; 1.8 µs with 132 blocks (the model has 3.4 µs, and 1.6 µs in a queue) | launch |
| starts of blocks | 0.60 ns | block_rate, launch |
| atomics, barriers, tails of blocks | | atomics_global, atomics_shared, barriers, block_tail |

The files stand in experiments/micro, their results in reports/h200/micro. The figures of shuffles in pipes mean
nothing: ptxas removes them.

For a GPU that nobody measured, [`lab calibrate`](../how-to/calibrate.md) runs them and estimates take what they give.

### Kernels whose residuals led to changes

{tuned}

### Kernels held out

benchmarks/held_out.txt names them. The list is not blind: all errors were printed once before it was written, and
rows of it were seen again while the model was made. Measured before the model was made:

{known}

Measured afterwards, with the estimates of today's model:

{unseen}

Estimates of eleven of these fourteen were committed before they ran on a GPU
([benchmarks/predicted.md](../../benchmarks/predicted.md)). Their errors:

{blind}

The twelve times outside are those of inverse3, which was estimated too slow: each thread reads nine floats in a row, at
a stride of 36 bytes from the next thread's, and L1 serves the rest of each sector.
"""

_REMAINS = """\
## Known gaps

- Noise of the measurements does not bound these figures: gemm_best repeated with its own scatter correlates with itself
  at 0.9995.
- Variants of one problem are harder to rank than all variants: orders of FMAs and early loads change throughput by 2 to
  5 %, no more than the model's error on one loop. Long loops lose 2 to 4 % to instruction fetch, which the model lacks.
- Unpacked copies of 4 bytes are estimated up to 11 % too slow in tiles of 8 x 8 per thread, and some 5 % too fast in
  tiles of 8 x 16.
- Clusters of four blocks (split_k 4) are estimated 25 % (1024) to 50 % (512) too fast, those of two correctly. A
  cluster lies within one group of SMs, and not every SM finds one: the times of reports/h200/gemm_tensile fit best if
  clusters of three fill 114 to 120 of the 132 SMs, and clusters of six 102 to 120. The model lacks this effect.
- A block that reaches beyond the edge of its matrices is charged only for the operations that count, not for those on
  its padding: tiles of 256 rows on the 128 rows of contraction's convolutions are estimated twice too fast.
- Kernels bound by latency or by unaligned stores rather than by fma (gemm_odd with a dimension of 1 or 37) and
  kernels of plain loads (gemm_ladder, gemm_unroll, contraction) are estimated worse than pipelines of copies. The
  latencies were fitted to the two former with an earlier form of the model.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured variant with its estimate; throughput in TFLOP/s."""

    name: str
    problem: str
    measured: float
    estimate: float
    loss: str

    @property
    def ratio(self) -> float:
        """Estimate over measured."""
        return self.estimate / self.measured


def main() -> None:
    """Compare and write the page."""
    report_rows = [(report, *of_records(report)) for report in REPORTS]
    lines = [
        _TEXT,
        *overview(report_rows),
        "",
        aim(report_rows),
        "",
        _EVERY.format(
            spaces=spaces(),
            lists=lists(),
            tuned=each(TUNED),
            known=each(KNOWN),
            unseen=each(UNSEEN),
            blind=blind(PREDICTED[1]),
            newest=blind(PREDICTED[0]),
        ),
        _REMAINS,
    ]
    lines += furthest(report_rows)
    PAGE.write_text("\n".join(lines))
    print(PAGE)


def of_records(report: Report) -> tuple[list[Row], str]:
    """A report's measured variants with their estimates, and a sentence on how they were built."""
    kept = published.read_records(ROOT / "reports" / "h200" / report.name)
    wanted = [
        record for record in kept.records if record.status.sound and record.build and measured(record) is not None
    ]
    problems = {one.variant: label for label, group in by_problem(kept.run, kept.records).items() for one in group}
    rows = [row for one in wanted if (row := _row(one, measured(one), problems[one.variant]))]
    tools = ", ".join(sorted({f"{one.build.toolchain} {one.build.version}" for one in wanted if one.build}))
    return rows, f"Measured as {tools} compiled it; {len(rows)} of {len(wanted)} variants have an estimate."


def _row(record: VariantRecord, rate: float | None, problem: str) -> Row | None:
    value = estimated(record)
    if rate is None or value is None:
        return None
    return Row(" ".join(filter(None, [record.kernel, record.label])), problem, rate, value, loss(record) or "")


def overview(report_rows: Sequence[tuple[Report, list[Row], str]]) -> list[str]:
    """One line a report."""
    return [
        "| report | n | median error | Spearman | within a problem | used for |",
        "|---|---:|---:|---:|---:|---|",
        *(
            f"| {report.name} | {len(rows)} | {_error(rows):.1%} "
            f"| {_rank(rows):.2f} | {_within(rows)} | {report.used} |"
            for report, rows, _ in report_rows
        ),
    ]


def aim(report_rows: Sequence[tuple[Report, list[Row], str]]) -> str:
    """Which reports' estimates are as good as they should be, and which are not."""
    good = {report.name: _error(rows) < _ERROR and _rank(rows) >= _RANK for report, rows, _ in report_rows}
    met, missed = (
        ", ".join(name for name, is_good in good.items() if is_good is kind) or "none" for kind in (True, False)
    )
    return (
        f"The aim is a median error below {_ERROR:.0%} and a rank correlation of at least {_RANK}. Met: {met}. "
        f"Not met: {missed}."
    )


def _error(rows: Sequence[Row]) -> float:
    return median(abs(row.ratio - 1) for row in rows)


def _rank(rows: Sequence[Row]) -> float:
    return float(spearmanr([row.measured for row in rows], [row.estimate for row in rows]).statistic)


def _within(rows: Sequence[Row]) -> str:
    """Rank correlation among the variants of one problem, median of the problems that have enough."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.problem, []).append(row)
    ranks = [_rank(group) for group in groups.values() if len(group) >= _FEWEST]
    return f"{median(ranks):.2f}" if ranks and len(groups) > 1 else ""


def furthest(found: Sequence[tuple[Report, list[Row], str]]) -> list[str]:
    """The variants of each report whose estimates are furthest from the measured throughput."""
    return [
        "## Largest errors\n",
        "| report | variant | measured, TFLOP/s | estimate | estimate over measured | costs most besides fma |",
        "|---|---|---:|---:|---:|---|",
        *(
            f"| {report.name} | {row.name} | {row.measured:.2f} | {row.estimate:.2f} | {row.ratio:.2f} | {row.loss} |"
            for report, rows, _ in found
            for row in sorted(rows, key=lambda row: -abs(row.ratio - 1))[:_WORST]
        ),
        "",
        *(f"- {report.name}: {note}" for report, _, note in found),
        "",
    ]


if __name__ == "__main__":
    main()
