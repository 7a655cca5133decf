"""Tables and texts that commands print at the end, without any decisions."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from lab.base.expressions import Scalar
from lab.cli.comparison import VERDICT_STYLES, interval_text
from lab.cli.guesses import PROVISIONAL, summarise
from lab.cli.table_figures import shown_figures
from lab.cli.terminal import Text, columns, print_flowing, write
from lab.measured.timing import Kind
from lab.predict.variant_scores import scores
from lab.recorded.run_records import Status, VariantRecord
from lab.store import figures
from lab.store.advice import advice_of
from lab.store.constant_sources import never_compared
from lab.store.database import Store
from lab.store.role_figures import registers_by_role
from lab.store.verdicts import group_reasons, summarise_full_size
from lab.toolchain.base import title

if TYPE_CHECKING:  # the stages, whose values are printed here, take seconds to import
    from lab.advice.finding import Advice
    from lab.cli.doctor import Diagnosis
    from lab.emulator.results import Emulation, ExecutedCounts, Finding, MemoryCount
    from lab.experiment.variants import Planned
    from lab.isa.model import SourceLocation
    from lab.report.tuning.data import Champion
    from lab.runs.compare import Comparison
    from lab.runs.pipeline import RunOutcome
    from lab.templates.mapping.mapping_facts import Facts
    from lab.templates.plain.draft import Guess
    from lab.tuning.run import TuningOutcome

_FAILURES_SHOWN = 10
_LOG_SHOWN = 40
"""Most lines of a compiler's log."""
_LEAST_LOG = 2
_ELEMENTS_SHOWN = 1024
_MAP_WIDTH = 200
"""Most columns of a map where the output has no width of its own."""
_VERDICTS = {True: ("race-free", "green"), False: ("a race", "red"), None: ("not known", "yellow")}
"""Word and colour of each verdict on races."""
_THREADS = ("blue", "yellow", "green", "magenta", "red", "cyan")
"""Colours of consecutive threads."""


_HANGING = 3
"""Columns before the further lines of a finding, below its text."""
_BEST_SHOWN = 5
_BEST_FINDINGS = 3


def print_best(console: Console, outcome: RunOutcome) -> None:
    """Print the best variants and the worst: figure, ratio, registers, occupancy and faults of each."""
    records = outcome.lean_records
    response = figures.response_of(records)
    ranked = [record for record in figures.ranked(records, response) if response.of(record) is not None]
    if not ranked:
        return
    compared = all(record.measurement and record.measurement.baseline for record in ranked)
    over = "baseline" if compared and response.kind is Kind.MEASURED else "median"
    middle = median(response.of(record) or 0.0 for record in ranked)
    listed = [(str(number), record) for number, record in enumerate(ranked[:_BEST_SHOWN], 1)]
    if len(ranked) > _BEST_SHOWN:
        listed.append(("worst", ranked[-1]))
    longest = {}  # a throughput from a predicted time is below the ceiling, so that the ceiling's bound is not its own
    if response.basis is figures.Basis.SCORE:
        longest = {variant: score.bound for variant, score in scores(ranked).items()}
    shown = shown_figures([record for _, record in listed], ranked, response)
    gpus = dict.fromkeys(record.prediction.gpu for record in ranked if record.prediction)
    if response.kind is Kind.MEASURED and outcome.run.gpu is not None:
        where = f" on {outcome.run.gpu.name}"
    else:
        where = f" for {', '.join(gpus)}" if gpus else ""
    console.print(
        Text(
            f"{shown.title.removeprefix('predicted ')}, {response.kind}{where}, in {shown.unit}{shown.note}",
            style="bold",
        )
    )
    rows = []
    for (place, record), text in zip(listed, shown.texts, strict=True):
        value, timed = response.of(record) or 0.0, record.measurement
        ratio = timed.ratio_to_baseline if timed and over == "baseline" else value / middle if middle else None
        rows.append(
            {
                "": place,
                "variant": record.variant,
                "name": shown.names[record.variant],
                shown.unit: text,
                f"/ {over}": "" if ratio is None else f"{ratio:.{3 if over == 'baseline' else 2}f}",
                "registers": registers_by_role(record)
                or (str(record.build.resources.registers) if record.build else ""),
                "occupancy": f"{record.prediction.occupancy:.0%}" if record.prediction else "",
                "findings": _trouble(record, longest.get(record.variant, "")),
            }
        )
    _print_fitting(console, rows)
    if rule := figures.rule_of(ranked, response):
        print_flowing(console, rule)
    if response.kind is Kind.PREDICTED and (doubt := never_compared(record for _, record in listed)):
        print_flowing(console, doubt)


_LEAST_NEEDED = ("findings", "occupancy", "registers")
"""Columns that a narrow terminal leaves out, the first one first."""
_LEFT_ALIGNED = frozenset({"", "variant", "name", "findings"})


def _print_fitting(console: Console, rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows in as many columns as fit; names longer than that go on a line of their own."""
    chosen = [header for header in rows[0] if any(row[header] for row in rows)]
    for header in _LEAST_NEEDED:
        if _width(rows, chosen) > console.width and header in chosen:
            chosen.remove(header)
    below = _width(rows, chosen) > console.width and "name" in chosen
    if below:
        chosen.remove("name")
    table = Table(box=None, pad_edge=False)
    for header in chosen:
        title = "" if header == "name" else header
        table.add_column(title, justify="left" if header in _LEFT_ALIGNED else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row[header]) for header in chosen))
    console.print(table)
    for row in rows if below else ():
        console.print(Text(f"{row['variant']}: {row['name']}"), soft_wrap=not console.is_terminal)


def _width(rows: Sequence[Mapping[str, str]], chosen: Sequence[str]) -> int:
    widths = [max(0 if one == "name" else len(one), *(len(row[one]) for row in rows)) for one in chosen]
    return sum(widths) + 2 * (len(chosen) - 1)


def _trouble(record: VariantRecord, longest: str) -> str:
    """Describe the faults and limits of a variant in a few words.

    Args:
        record: The variant.
        longest: The resource that takes the most of its predicted time; empty where no such time is shown.
    """
    kinds = Counter(str(finding.kind) for finding in record.emulation.findings) if record.emulation else Counter[str]()
    troubles = [f"{count} {kind}" for kind, count in kinds.items()]
    if record.build and record.build.resources.spill_bytes:
        troubles.append(f"{record.build.resources.spill_bytes} B spilled")
    if fences := figures.wide_fences(record.sass):
        troubles.append(f"{fences} GPU-wide {'fence' if fences == 1 else 'fences'} in the hot loop")
    if longest:
        troubles.append(f"{longest} takes longest")
    elif record.prediction and (ceiling := record.prediction.ceiling):
        troubles.append(f"bound by {ceiling.name}")
    return ", ".join(troubles)


def print_changes(console: Console, comparison: Comparison) -> None:
    """Print the changes since the last finished run in the directory: the largest ones and the counts."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in comparison.counts.items())
    extra = [f"{len(ids)} {words}" for ids, words in ((comparison.only_b, "new"), (comparison.only_a, "gone")) if ids]
    console.print(Text(f"against the last run, {comparison.a.started}: {', '.join([counts, *extra])}"))
    changed = [change for change in comparison.changes if change.verdict not in {"same", "ambiguous", "not compared"}]
    changed.sort(key=lambda change: abs((change.ratio or 0.0) - 1), reverse=True)
    for change in changed[:_BEST_SHOWN]:
        ratio = "" if change.ratio is None else f" {change.ratio - 1:+.1%} ({interval_text(change)}, {change.kind})"
        name = f"{change.kernel} {change.label}".strip()
        style = VERDICT_STYLES.get(change.verdict, "")
        console.print(Text(f"  {change.verdict}: {change.variant_b} {name}{ratio}", style=style))


def print_outcome(console: Console, outcome: RunOutcome, guesses: Sequence[Guess] = ()) -> None:
    """Print the number of variants per status, the warnings, the report's path, and the next command.

    Args:
        console: Where to.
        outcome: The run.
        guesses: What the verdicts rest on, so that none of them counts.
    """
    counts = {status: sum(r.status is status for r in outcome.lean_records) for status in Status}
    fared = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if guesses:
        fared = f"not judged: {summarise(guesses)}. {PROVISIONAL}{fared}"
    records = outcome.lean_records
    print_flowing(console, f"{len(records)} of {outcome.run.variants} variants: {fared}")
    _print_reasons(console, outcome, PROVISIONAL if guesses else "")
    if outcome.run.not_measured:
        print_flowing(console, outcome.run.not_measured)
    warnings = (*outcome.run.notes, *_not_listed(records), *_not_launched(records), *_not_executed(records))
    for note in dict.fromkeys(warnings):
        print_flowing(console, f"warning: {note}", "yellow")
    console.print(Text(f"report: {outcome.folder / 'index.html'}"), soft_wrap=True)
    if following := _next_command(outcome):
        purpose, command = following
        console.print(Text(f"next, {purpose}:"))
        console.print(Text(f"    {command}"), soft_wrap=True)


def _print_reasons(console: Console, outcome: RunOutcome, prefix: str = "") -> None:
    """Print the reasons for verdicts, once per group of variants, and what was emulated at full size.

    The compiler's errors are printed in full, those of a group's first variant.
    """
    groups = group_reasons(outcome.lean_records)
    for group in groups[:_FAILURES_SHOWN]:
        style = "red" if group.status.failed else "yellow"
        print_flowing(console, prefix + group.text, style, indent=4)
        if group.status is Status.COMPILE_FAILED:
            _print_log(console, outcome.folder / "variants" / group.variants[0] / "build.log")
    if len(groups) > _FAILURES_SHOWN:
        console.print(f"{len(groups) - _FAILURES_SHOWN} further reasons; the report has them all", highlight=False)
    if sampled := summarise_full_size(outcome.lean_records):
        print_flowing(console, sampled)


def _print_log(console: Console, log: Path) -> None:
    """Print a compiler's log; of a long one, the first lines and its path."""
    try:
        lines = log.read_text(encoding="utf-8").strip().splitlines()
    except OSError:
        return
    if len(lines) < _LEAST_LOG:  # the reason says it
        return
    for line in lines[:_LOG_SHOWN]:
        console.print(Text(f"    {line}"), soft_wrap=True)
    if len(lines) > _LOG_SHOWN:
        console.print(Text(f"    {len(lines) - _LOG_SHOWN} further lines in {log}"), soft_wrap=True)


def _not_launched(records: Sequence[VariantRecord]) -> list[str]:
    """Return the variants the GPU of the predictions cannot launch, one line per reason."""
    predicted = [record.prediction for record in records if record.prediction]
    reasons = Counter(
        (prediction.gpu, prediction.limited_by) for prediction in predicted if prediction.blocks_per_sm == 0
    )
    total = len(records)
    return [
        f"{count} of {total} variants cannot be launched on {gpu}: {reason}" for (gpu, reason), count in reasons.items()
    ]


def _not_listed(records: Sequence[VariantRecord]) -> list[str]:
    """Say which variants have no SASS, once for each reason."""
    reasons = Counter(record.build.lacking for record in records if record.build and record.build.lacking)
    return [f"{count} of {len(records)} variants have no SASS: {why}" for why, count in reasons.items()]


def _not_executed(records: Sequence[VariantRecord]) -> list[str]:
    """Return what could not be emulated, one line per reason."""
    reasons = Counter(
        record.emulation.unsupported for record in records if record.emulation and record.emulation.unsupported
    )
    return [
        f"{count} of {len(records)} variants were not executed on the CPU: {reason}"
        for reason, count in reasons.items()
    ]


def _next_command(outcome: RunOutcome) -> tuple[str, str] | None:
    """Return the purpose of the command a reader of the table probably wants, and the command."""
    if outcome.interrupted:
        return ("to continue this run", _resuming(outcome.run.command)) if outcome.run.command else None
    ranked = figures.ranked(outcome.lean_records, figures.response_of(outcome.lean_records))
    place = shlex.quote(str(outcome.folder))
    if len(ranked) > 1:
        best = ranked[0]
        other = nearest(ranked)
        apart = " ".join(f"{name}={figures.text(value)}" for name, value in _apart(other, best).items())
        words = f"what {apart} would do to the best" if apart else "what the best does differently from the next"
        return words, f"{_program()} compare {place} {other.variant} {best.variant}"
    return None


def nearest(ranked: Sequence[VariantRecord]) -> VariantRecord:
    """Return the neighbour of the best variant that says most: the fewest parameters apart, of these the slowest.

    Args:
        ranked: At least two variants, the best first.
    """
    best, *others = ranked
    fewest = min(_distance(other, best) for other in others)
    return [other for other in others if _distance(other, best) == fewest][-1]


def _distance(a: VariantRecord, b: VariantRecord) -> tuple[int, int]:
    """Return by how many properties two variants differ, besides parameters first."""
    others = (a.kernel != b.kernel, a.problem != b.problem, a.arch != b.arch, a.compiler != b.compiler)
    return sum(others), len(_apart(a, b))


def _apart(a: VariantRecord, b: VariantRecord) -> dict[str, Scalar]:
    """Return the parameters of a variant that the other has not, or with another value."""
    return {name: value for name, value in a.parameters.items() if b.parameters.get(name) != value}


def _program() -> str:
    """Return the words that start this program from where it runs."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m lab"
    found = shutil.which("lab")
    if found is None and started.name == "lab":
        return shlex.quote(sys.argv[0])
    return "lab"


def _resuming(command: str) -> str:
    """Return the command that continues a run: ``--no-resume`` would throw its finished part away."""
    words = shlex.split(command)
    return shlex.join("--resume" if word == "--no-resume" else word for word in words)


def print_tuned(console: Console, outcome: TuningOutcome, winners: Iterable[tuple[str, Champion]] = ()) -> None:
    """Print the failures, the kernels that win most, and the paths of the libraries and the report.

    Args:
        console: Where it is printed.
        outcome: The outcome of the run.
        winners: Problem type and kernel, the one with most sizes first.
    """
    for failure in outcome.failed[:_FAILURES_SHOWN]:
        console.print(Text(failure, style="red"))
    if len(outcome.failed) > _FAILURES_SHOWN:
        console.print(f"{len(outcome.failed) - _FAILURES_SHOWN} further kernels failed", highlight=False)
    kind, won = ("predicted" if outcome.not_measured else "measured"), list(winners)
    for label, best in won[:_BEST_SHOWN]:
        words = (
            f"{best.facts.name}: fastest at {best.wins} sizes of {label}, up to {best.best_tflops:.2f} TFLOP/s ({kind})"
        )
        console.print(Text(words))
    if len(won) > _BEST_SHOWN:
        console.print(f"{len(won) - _BEST_SHOWN} more kernels are fastest somewhere", highlight=False)
    if outcome.not_measured:
        console.print(Text(f"{outcome.not_measured} All times are predicted."))
    if outcome.previous is not None:
        console.print(Text(f"the last finished run: {outcome.previous}"))
    for folder in outcome.libraries:
        console.print(Text(f"library: {folder}"))
    for page in outcome.pages[:1]:
        console.print(Text(f"report: {page}"))


def print_findings(console: Console, findings: Iterable[Diagnosis]) -> None:
    """Print the diagnoses; then what each missing thing adds and how to install it."""
    findings = list(findings)
    table = Table(box=None, pad_edge=False)
    for header in ("", "what", "found"):
        table.add_column(header)
    for finding in findings:
        mark = Text("✓", style="green") if finding.found else Text("–", style="yellow")
        table.add_row(mark, finding.name, Text(finding.detail))
    console.print(table)
    missing = [finding for finding in findings if not finding.found]
    if missing:
        console.print()
        console.print(Text("missing", style="bold"))
    for finding in missing:
        console.print(Text(f"{finding.name}: {finding.adds}"))
        console.print(Text(f"    {finding.install}", style="cyan"))


def print_variants(console: Console, planned: Iterable[Planned]) -> None:
    """Print one line per variant."""
    rows = [(p.variant, p.point.kernel.name, p.label, title(p.toolchain), p.request.arch) for p in planned]
    headers = ("variant", "kernel", "parameters", "toolchain", "arch")
    write(console, [(columns(headers, rows, left_aligned=len(headers)), "")])


def print_images(console: Console, images: Iterable[Mapping[str, Any]]) -> None:
    """Print one line for each PTX or cubin of a library, with the number of its kernels and the first."""
    rows = []
    for image in images:
        names = list[str](image["kernels"])
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        what = image["refused"] or "".join(names[:1]) + more
        rows.append((image["variant"], image["kind"], image["arch"], image["where"], what))
    headers = ("variant", "kind", "arch", "where", "kernels")
    write(console, [(columns(headers, rows, left_aligned=len(headers)), "")])


def _print_finding(console: Console, finding: Finding) -> None:
    """Print a finding with its place in the CUDA source, and the other side of a race."""
    place = f"block {finding.block} thread {finding.thread}{_warp(finding.warp)} " if finding.block else ""
    at = f"PTX line {finding.line}{_source(finding.source, finding.calls)}"
    print_flowing(console, f"{finding.kind}: {at}: {place}{finding.detail} {finding.text}", "red", indent=4)
    if finding.variable:
        print_flowing(console, f"    at {finding.variable}", "red", indent=4)
    if side := finding.other:
        location = f"PTX line {side.line}{_source(side.source, side.calls)}" if side.line else "no instruction"
        whose = f"thread {side.thread}{_warp(side.warp)}" + (f" of block {side.block}" if side.block else "")
        print_flowing(console, f"    other side: {side.kind} by {whose}, {location}", "red", indent=4)
    if finding.remedy:
        print_flowing(console, f"    {finding.remedy}", "red", indent=4)


def _warp(number: int | None) -> str:
    return "" if number is None else f" (warp {number})"


def _source(place: SourceLocation | None, calls: tuple[SourceLocation, ...]) -> str:
    return (
        f" ({', called at '.join(f'{location.file}:{location.line}' for location in (place, *calls))})" if place else ""
    )


def print_advice(
    console: Console, advice: Advice, title: str = "performance findings", most: int | None = None
) -> None:
    """Print performance findings, the largest gain first.

    Args:
        console: Where.
        advice: The findings.
        title: The line before them.
        most: Findings to print; None for all.
    """
    print_flowing(console, title, "bold")
    for line in advice.text(most):
        print_flowing(console, line, indent=_HANGING)


def print_advice_on_best(console: Console, outcome: RunOutcome) -> None:
    """Print the first performance findings on the best variant; nothing where no variant is ranked."""
    response = figures.response_of(outcome.lean_records)
    ranked = figures.ranked(outcome.lean_records, response)
    if not ranked or not (outcome.folder / Store.form.name).is_file():
        return
    with Store(outcome.folder) as store:
        best = store.record(ranked[0].variant)
        advice = advice_of(store.variant_folder(best.variant), best)
    gpu = f", gains for {best.prediction.gpu}" if best.prediction else ""
    title = f"performance findings on {best.variant} {figures.name_of(best)}".rstrip() + gpu
    print_advice(console, advice, title, _BEST_FINDINGS)


def print_emulation(console: Console, emulation: Emulation, outputs: Iterable[str] = ()) -> None:
    """Print counts by class, memory traffic, the findings, and a line per output."""
    if emulation.counts:
        table = Table(title=f"executed by {emulation.kernel}", title_justify="left", box=None, pad_edge=False)
        for header in ("class", "warp instructions", "thread instructions"):
            table.add_column(header, justify="left" if header == "class" else "right")
        for name, warps in sorted(emulation.counts.warps_by_class.items(), key=lambda item: -item[1]):
            table.add_row(name, f"{warps:,}", f"{emulation.counts.threads_by_class.get(name, 0):,}")
        table.add_row("all", f"{emulation.counts.warps:,}", f"{emulation.counts.threads:,}")
        console.print(table)
        print_traffic(console, emulation.counts)
    if emulation.printed:
        console.print("printed by the kernel:", style="bold")
        console.print(Text(emulation.printed.removesuffix("\n")), soft_wrap=True)
    for note in (*emulation.notes, *_notes_on_limit(emulation)):
        console.print(Text(f"note: {note}"))
    for finding in emulation.findings:
        _print_finding(console, finding)
    for output in outputs:
        console.print(Text(output))
    if emulation.clean:
        console.print("no faults were found")


def print_traffic(console: Console, executed: ExecutedCounts) -> None:
    """Print requests, wavefronts, conflicts and sectors of each kind of access."""
    console.print(_memory(executed.memory))


def variant_lines(record: VariantRecord) -> Iterator[str]:
    """Yield what a record says of a variant: name, verdict, throughput with kind and GPU, resources."""
    yield f"{record.variant} {figures.name_of(record)}".rstrip()
    yield f"{record.status}: {record.reason}" if record.reason else str(record.status)
    response = figures.response_of((record,))
    if response.of(record) is not None:
        shown = shown_figures([record], [record], response)
        gpu = record.prediction.gpu if record.prediction is not None and response.kind is Kind.PREDICTED else ""
        kind = f"{response.kind} for {gpu}" if gpu else str(response.kind)
        yield f"{shown.title.removeprefix('predicted ')}: {shown.texts[0]} {shown.unit} ({kind})"
    if record.build is not None:
        used = record.build.resources
        occupancy = f", occupancy {record.prediction.occupancy:.0%}" if record.prediction is not None else ""
        spills = f", {used.spill_bytes} B spilled" if used.spill_bytes else ""
        yield f"{used.registers} registers, {used.shared_bytes} B shared{spills}{occupancy}"


def _notes_on_limit(emulation: Emulation) -> Iterator[str]:
    """Explain how to give an unfinished launch more time, and where its machine code stopped."""
    if any(finding.kind == "unfinished" for finding in emulation.findings):
        yield "--limit SECONDS sets the time limit"
        if emulation.not_compiled:
            yield f"before, the launch ran as machine code up to: {emulation.not_compiled}"


def print_mapping(console: Console, facts: Facts) -> None:
    """Print the map, low elements first, the races of writes, the coalescing, and the CUDA expressions."""
    console.print(Text(facts.mapping, style="bold"))
    owners = facts.map[:_ELEMENTS_SHOWN]
    width = len(str(max(owners)))
    cells = [("−" if owner < 0 else str(owner)).rjust(width) for owner in owners]
    a_line = max(1, (min(console.width, _MAP_WIDTH) + 1) // (width + 1))
    for first in range(0, len(cells), a_line):
        line = Text()
        for owner, cell in zip(owners[first : first + a_line], cells[first : first + a_line], strict=True):
            line.append(cell, style="dim" if owner < 0 else _THREADS[owner % len(_THREADS)]).append(" ")
        console.print(line, soft_wrap=True)
    if len(facts.map) > len(owners):
        console.print(f"… {len(facts.map) - len(owners):,} elements more; --json has them all", highlight=False)
    console.print()
    units = f"{facts.scope.partition(' ')[0] or 'thread'}s"
    counts = f"{facts.threads:,} {units} x {facts.items:,} items, {facts.elements:,} elements"
    console.print(f"{counts}: {facts.untouched:,} untouched, {facts.beyond:,} accesses beyond the end", highlight=False)
    console.print()
    console.print(Text("writes to out[index] by"))
    for obligation in facts.obligations:
        console.print(
            Text(f"  {obligation.writes}: ")
            .append(*_VERDICTS[obligation.race_free])
            .append(f"\n    {obligation.because}")
        )
    console.print()
    if facts.coalescing:
        _print_coalescing(console, facts)
    if facts.t:
        console.print(Text(f"t:     {facts.t}"))
    console.print(Text(f"index: {facts.index}\nguard: {facts.guard}"))
    if len(facts.names) > 1:
        names = ", ".join(facts.names)
        console.print(Text(f"index of ({names}): {facts.index_of_names}\nguard of ({names}): {facts.guard_of_names}"))


def _print_coalescing(console: Console, facts: Facts) -> None:
    table = Table(title="coalescing (predicted)", title_justify="left", box=None, pad_edge=False)
    for header in (f"access, {facts.element_bytes} B elements", "sectors / request", "bytes used of bytes moved"):
        table.add_column(header, justify="left" if header.startswith("access") else "right")
    for access in facts.coalescing:
        name = "one element" if access.vector == 1 else f"{access.vector} elements at once"
        table.add_row(name, f"{access.sectors_per_request:.2f}", f"{access.efficiency:.1%}")
    console.print(table)
    console.print()


def _memory(traffic: Mapping[str, MemoryCount]) -> Table:
    table = Table(title="memory", title_justify="left", box=None, pad_edge=False)
    served = "wavefronts or passes" if "const.load" in traffic else "wavefronts"
    for header in ("access", "requests", served, "conflicts", "sectors / request", "bytes used"):
        table.add_column(header, justify="left" if header == "access" else "right")
    for name, count in traffic.items():
        shared, constant = name.startswith("shared"), name.startswith("const")
        table.add_row(
            name,
            f"{count.requests:,}",
            f"{count.wavefronts:,}" if shared else f"{count.passes:,}" if constant else "",
            f"{count.bank_conflicts:,}" if shared else "",
            "" if shared or constant else f"{count.sectors_per_request:.2f}",
            f"{count.bytes_used:,}",
        )
    return table
