"""Facts of one variant beside its listings: loops, resources, bounds, verification, measurement."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.expressions import Scalar
from lab.emulator.results import MemoryCount
from lab.isa.mix import Counts, KernelMix
from lab.recorded.run_records import LaunchRecord, VariantRecord
from lab.report.facts import counted
from lab.report.variant.accessmap import access_maps
from lab.report.variant.executed_counts import difference, executed_loops, line_notes, mix_tables
from lab.report.variant.faults import findings_of, marked_lines
from lab.store.role_figures import registers_by_role
from lab.store.verdicts import describe_full_size


def _loops(mixes: tuple[KernelMix, ...], executed: Mapping[str, int]) -> list[dict[str, object]]:
    """Return label, depth, size and executed warp instructions of every loop, and the listing lines of hot loops.

    Args:
        mixes: Static mix of each kernel.
        executed: Loop label to the warp instructions executed in the loop but not in loops inside it.
    """
    return [
        {
            "label": loop.label if len(mixes) == 1 else f"{mix.name} {loop.label}",
            "depth": loop.depth,
            "hot": loop.hot,
            "instructions": loop.counts.instructions,
            "lines": loop.lines if loop.hot else (),
            "executed": executed.get(loop.label),
        }
        for mix in mixes
        for loop in mix.loops
    ]


def variant_detail(record: VariantRecord) -> dict[str, object]:
    """Return everything the page shows of a variant besides its texts, ready for JSON."""
    return {
        "name": record.kernel,
        "label": record.label,
        "status": record.status,
        "reason": record.reason,
        "hot": {
            "ptx": _loops(record.mixes("ptx"), executed_loops(record)),
            "sass": _loops(record.mixes("sass"), {}),
        },
        "sections": _sections(record),
        "findings": findings_of(record),
        "marked": marked_lines(record),
        "mixes": mix_tables(record),
        "difference": difference(record),
        "executed": line_notes(record),
        "maps": access_maps(record),
    }


def _sections(record: VariantRecord) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return (heading, kind of the figures, rows) of each section that has rows."""
    sections = (
        ("Build", "static", _build_rows(record)),
        ("Launches", "static", _step_rows(record)),
        ("Occupancy and bounds", "predicted", _prediction_rows(record)),
        ("Where the cycles go", "predicted", _estimate_rows(record)),
        ("Execution on the CPU", "emulated", _emulation_rows(record)),
        ("Verification on the GPU", "", _verification_rows(record)),
        ("Measurement", "measured", _measurement_rows(record)),
        ("Hardware counters", "measured", counted.rows(record)),
    )
    return [(heading, kind, rows) for heading, kind, rows in sections if rows]


def _build_rows(record: VariantRecord) -> list[tuple[str, str]]:
    build, rows = record.build, [("problem", _fields(record.problem))]
    if record.launch:
        rows.append(("launch", _launch(record.launch)))
    if build is None:
        return rows
    used = build.resources
    return [
        ("registers", f"{used.registers} per thread"),
        *([("registers by role", roles)] if (roles := registers_by_role(record)) else []),
        ("spills", f"{used.spill_store_bytes} B stored, {used.spill_load_bytes} B loaded per thread"),
        ("stack", f"{used.stack_bytes} B per thread"),
        ("shared memory", f"{used.shared_bytes} B static per block"),
        ("constant", f"{used.constant_bytes} B"),
        ("barriers", str(used.barriers)),
        *rows,
        (
            "compiler",
            f"{build.toolchain} {build.version}, {build.seconds:.2f} s" + (" (cached)" if build.cached else ""),
        ),
        ("disassembler", build.disassembler),
        ("command", build.command),
        ("SASS sha256", build.sass_sha256),
    ]


def _fields(problem: Mapping[str, Scalar]) -> str:
    return " ".join(f"{name}={value}" for name, value in problem.items())


def _step_rows(record: VariantRecord) -> list[tuple[str, str]]:
    """Describe each launch of a variant that needs several."""
    rows = []
    for number, step in enumerate(record.steps, 1):
        facts = [_launch(step.launch)]
        if step.resources:
            facts.append(f"{step.resources.registers} registers, {step.resources.spill_bytes} B spills")
        if step.sass:
            loop = step.sass.hot_loop
            facts.append(_classes("hot loop" if loop else "whole kernel", (loop or step.sass).counts))
        if step.prediction:
            facts.append(f"occupancy {step.prediction.occupancy:.0%} (predicted)")
        if step.bytes_moved is not None:
            facts.append(f"moves at least {step.bytes_moved / 1e6:.4g} MB (declared)")
        rows.append((f"{number}. {step.entry}", "; ".join(facts)))
    return rows


def _launch(launch: LaunchRecord) -> str:
    grid, block = ("×".join(map(str, size)) for size in (launch.grid, launch.block))
    carveout = "" if launch.carveout is None else f", carve-out {launch.carveout} %"
    cluster = "" if launch.cluster is None else f", clusters of {'×'.join(map(str, launch.cluster))}"
    return f"grid {grid}, block {block}, {launch.dynamic_shared_bytes} B dynamic shared{carveout}{cluster}"


def _classes(scope: str, counts: Counts) -> str:
    by_count = sorted(counts.by_class.items(), key=lambda item: -item[1])
    return f"SASS {scope} {counts.instructions} instructions: " + ", ".join(f"{n} {name}" for name, n in by_count)


def _prediction_rows(record: VariantRecord) -> list[tuple[str, str]]:
    prediction = record.prediction
    accesses = [
        (
            name.replace(".", " "),
            f"{cost:.2f} {'sectors' if name.startswith('global') else 'bank conflicts'} per request",
        )
        for name, cost in record.accesses.items()
    ]
    if prediction is None:
        return accesses
    share = f"{prediction.occupancy * 100:.0f} %"
    occupancy = f"{share}, {prediction.blocks_per_sm} blocks per SM, limited by {prediction.limited_by}"
    bounds = sorted(prediction.bounds, key=lambda bound: bound.rate)
    return [
        ("GPU", prediction.gpu),
        ("occupancy", occupancy),
        *((bound.name, f"≤ {bound.rate:.2f} {record.merit}: {bound.explanation}") for bound in bounds),
        ("peak", f"{prediction.peak:.1f} {record.merit}"),
        *accesses,
    ]


def _estimate_rows(record: VariantRecord) -> list[tuple[str, str]]:
    if record.estimate is None:
        return []
    shares = sorted(record.estimate.shares.items(), key=lambda item: -item[1])
    return [
        ("throughput", f"{record.estimate.tflops:.2f} TFLOP/s"),
        ("cycles per iteration", f"{record.estimate.cycles:,.0f}"),
        *((cause, f"{share:.1%}") for cause, share in shares),
    ]


def _emulation_rows(record: VariantRecord) -> list[tuple[str, str]]:
    emulation = record.emulation
    if emulation is None:
        return []
    size = _fields(emulation.problem)
    if emulation.unsupported or emulation.failure:
        return [("not executed", emulation.unsupported or emulation.failure), ("problem", size)]
    rows = [("problem", size)]
    for step in emulation.launches:
        counted = (
            f", {step.executed.warps:,} warp instructions" if step.executed and len(emulation.launches) > 1 else ""
        )
        rows.append(("entry", f"{step.entry}: {_launch(step.launch)}{counted}"))
    if emulation.verification:
        check = emulation.verification
        rows.append(("outputs", "agree with NumPy" if check.passed else f"differ from NumPy: {check.worst}"))
        rows.append(("largest error", f"{check.max_error:.3g}, tolerance {check.tolerance:.3g}"))
    if emulation.executed:
        lanes = f"{emulation.executed.active_lanes:.1f} active lanes each"
        rows.append(("executed", f"{emulation.executed.warps:,} warp instructions, {lanes}"))
        rows += [(name.replace(".", " "), _traffic(name, count)) for name, count in emulation.executed.memory.items()]
    rows.append(("findings", "none" if not emulation.findings else str(len(emulation.findings))))
    if emulation.full_size is not None:
        rows.append(("at the problem's own size", describe_full_size(emulation.full_size)))
    rows += [("suspect", suspicion.summary) for suspicion in emulation.suspicions]
    rows += [("not shown", sentence) for sentence in emulation.not_shown]
    return [*rows, *(("note", note) for note in emulation.notes)]


def _traffic(name: str, count: MemoryCount) -> str:
    if name.startswith("shared"):
        return (
            f"{count.requests:,} requests, {count.wavefronts:,} wavefronts, {count.bank_conflicts:,} of them conflicts"
        )
    if name.startswith("const"):
        return f"{count.requests:,} requests, {count.passes:,} passes, one for each distinct word"
    used = f"{count.bytes_used:,} B used of {count.bytes_moved:,} B moved"
    return f"{count.requests:,} requests, {count.sectors_per_request:.2f} sectors each, {used}"


def _verification_rows(record: VariantRecord) -> list[tuple[str, str]]:
    check = record.verification
    if check is None:
        return []
    rows = [
        ("result", "passed" if check.passed else "failed"),
        ("executed on", check.executed_on),
        ("largest error", f"{check.max_error:.3g}, tolerance {check.tolerance:.3g}"),
    ]
    return [*rows, ("worst element", check.worst)] if check.worst else rows


def _measurement_rows(record: VariantRecord) -> list[tuple[str, str]]:
    timed = record.measurement
    if timed is None:
        return []
    samples = [
        ("variant", timed.samples),
        (timed.baseline_name or "baseline", timed.baseline),
        *timed.others.items(),
        ("fresh process", timed.remeasured),
        ("in the sweep", timed.sweep.samples if timed.sweep else None),
    ]
    rows = [
        (
            name,
            f"median {s.median:.4f} ms, p20 {s.p20:.4f}, p80 {s.p80:.4f}, n = {s.n}"
            + (f" × {s.batch}" if s.batch > 1 else ""),
        )
        for name, s in samples
        if s is not None
    ]
    rows.append(("L2 cache", timed.cache))
    rows += [(name, text) for name, text in (("card", timed.card), ("does not compare", timed.doubt)) if text]
    for name, card in (("card before", timed.before), ("card after", timed.after)):
        facts = [
            f"{value:g} {unit}"
            for value, unit in (
                (card.sm_clock_mhz, "MHz SM"),
                (card.memory_clock_mhz, "MHz memory"),
                (card.power_w, "W"),
                (card.temperature_c, "°C"),
            )
            if value is not None
        ]
        rows.append((name, ", ".join([*facts, *card.throttle_reasons]) or "not reported"))
    return [*rows, *(("note", note) for note in timed.notes)]
