"""`lab fix`: the smallest change of a kernel's source that removes a cost, tried by executing it.

All changes are branches of one source, selected by a macro, and variants of one experiment: the kernel as it is comes
first, so that outputs are compared with its own where the experiment has no reference.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lab.advice.edits import EditContext, SourceEdit, edits
from lab.advice.finding import Advice, PerformanceFinding, Rule
from lab.api.running import run_mapping
from lab.base import yamlfile
from lab.base.amounts import time_text
from lab.base.errors import Location, UserError
from lab.base.files import write_atomically
from lab.cli.inspect import variants
from lab.experiment.variants import Planned
from lab.isa.cuda.kernels import base_name
from lab.predict.variant_scores import real_work
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions
from lab.runs.services import Services
from lab.store.advice import advice_of
from lab.store.database import Store
from lab.store.figures import SHARED, emulated_traffic

_MOST_TRIED: Final = 12
_MOST_EACH: Final = 6
_HEADERS: Final = (".h", ".hpp", ".cuh", ".inc")
_MACRO: Final = "LAB_CHANGE"
_KEPT: Final = 0.1
"""Share of a finding's cost below which a larger change is not looked at."""
_LEAST: Final = 0.01
"""Share of a finding's cost that a change must remove."""
_TIED: Final = 1.01


@dataclass(frozen=True)
class TriedVariant:
    """The outcome of a variant's emulation.

    Attributes:
        status: Its verdict.
        conflicts: Wavefronts of shared memory that are conflicts.
        wavefronts: All of them.
        seconds: Predicted time; None where none is predicted.
        gpu: The GPU of that time; empty where there is none.
        registers: Per thread; None without a build.
        spill_bytes: Stored and loaded per thread because registers do not suffice.
        sectors: Of global loads and stores.
        advice: Its performance findings.
    """

    status: Status
    conflicts: int = 0
    wavefronts: int = 0
    seconds: float | None = None
    gpu: str = ""
    registers: int | None = None
    spill_bytes: int = 0
    sectors: int = 0
    advice: Advice = field(default_factory=lambda: Advice(()))

    def slower_than(self, other: TriedVariant) -> bool:
        """Return whether the predicted time is clearly longer than another one."""
        return self.seconds is not None and other.seconds is not None and self.seconds > _TIED * other.seconds

    def cost_of(self, rule: Rule) -> float:
        """Return the cost that a rule finds: wavefronts of bank conflicts, else the wasted shares of its findings."""
        if rule is Rule.BANK_CONFLICT:
            return float(self.conflicts)
        return sum(finding.waste for finding in self.advice.findings if finding.rule is rule)


@dataclass(frozen=True)
class ProposedFix:
    """A change that removes a cost.

    Attributes:
        source: The file to change.
        finding: The finding that it is a remedy for.
        edit: The change.
        after: The variant with the change.
        diff: Lines of the unified difference.
    """

    source: Path
    finding: PerformanceFinding
    edit: SourceEdit
    after: TriedVariant
    diff: tuple[str, ...]

    def write(self) -> None:
        """Write the changed source.

        Raises:
            UserError: The file cannot be written.
        """
        try:
            write_atomically(self.source, self.edit.text)
        except OSError as error:
            raise UserError(
                f"the file cannot be written: {error.strerror}", code="unwritable", at=Location(self.source)
            ) from error


@dataclass(frozen=True)
class FixOutcome:
    """The outcome of looking for a change.

    Attributes:
        before: The variant as it is.
        without_change: Findings before the one that is fixed, or all, and how many changes were tried for each.
        fix: The change; None where none helps, or there is nothing to remove.
        others: Changes for further findings.
    """

    before: TriedVariant
    without_change: tuple[tuple[PerformanceFinding, int], ...] = ()
    fix: ProposedFix | None = None
    others: tuple[ProposedFix, ...] = ()


@dataclass(frozen=True)
class _Setting:
    """An experiment's keys with the parameters of one variant, and where it runs."""

    given: Mapping[str, Any]
    source: Path
    observer: RunObserver | None
    services: Services | None


def propose(
    experiment: Path,
    variant: str = "",
    rule: Rule | None = None,
    observer: RunObserver | None = None,
    services: Services | None = None,
) -> FixOutcome:
    """Look for the smallest change of the source that removes the cost of a performance finding.

    Findings are taken in the order of their gains. Each change is compiled and executed as `lab run` does without a
    GPU. It counts where the verdict stays, the predicted time is no longer, and the finding's cost is less.

    Args:
        experiment: The file of an experiment on a CUDA source.
        variant: Beginning of the variant's id; needed where there are several.
        rule: The rule whose findings are looked at; all by default.
        observer: Receives the progress; nobody by default.
        services: The surroundings; this machine by default.

    Raises:
        UserError: The experiment is wrong, has no such variant, or its kernels are not a CUDA source.
    """
    data = _plain_data(experiment)
    source = experiment.parent / str(data["source"])
    text = yamlfile.read_text(source)
    parameters = dict(_chosen(experiment, variant).point.parameters)
    setting = _Setting({**data, "parameters": parameters}, source, observer, services)
    ((record, before),) = _tried(setting, [text])
    findings = [finding for finding in before.advice.findings if rule in (None, finding.rule)]
    if record.status.failed or not findings:
        return FixOutcome(before)
    changes = _changes(record, text, findings, source.name)
    tried = _tried(setting, [text, *(edit.text for _, edit in changes)]) if changes else []
    afters = [after for _, after in tried[1:]]
    without: list[tuple[PerformanceFinding, int]] = []
    fixes: list[ProposedFix] = []
    for finding in findings:
        own = [(edit, after) for (of, edit), after in zip(changes, afters, strict=True) if of is finding]
        if (best := _best(before, finding.rule, own)) is not None:
            edit, after = best
            diff = unified_diff(text.splitlines(), edit.text.splitlines(), source.name, source.name, lineterm="", n=1)
            fixes.append(ProposedFix(source, _removed(finding, findings, after), edit, after, tuple(diff)))
        elif not fixes and (own or finding.rule is not Rule.BANK_CONFLICT):
            without.append((finding, len(own)))
    return FixOutcome(before, tuple(without), next(iter(fixes), None), tuple(fixes[1:]))


def _removed(
    finding: PerformanceFinding, findings: Sequence[PerformanceFinding], after: TriedVariant
) -> PerformanceFinding:
    """Return the finding of a rule that a change removed; the first where it removed a part of each.

    Changes are tried once for all findings of some rules, and none of those changes moves lines.
    """
    left = {other.place.line for other in after.advice.findings if other.rule is finding.rule}
    same = [other for other in findings if other.rule is finding.rule]
    if len(same) < 2 or finding.rule is not Rule.BANK_CONFLICT:  # noqa: PLR2004 - one finding has no others
        return finding
    return next((other for other in same if other.place.line not in left), finding)


def rule_of(word: str) -> Rule | None:
    """Return the rule with a name; None for no word.

    Raises:
        UserError: No rule has that name.
    """
    if not word:
        return None
    try:
        return Rule(word)
    except ValueError:
        raise UserError(
            "no rule has this name", code="unknown-name", key="--finding", found=word, accepted=", ".join(Rule)
        ) from None


def _changes(
    record: VariantRecord, text: str, findings: Sequence[PerformanceFinding], file: str
) -> list[tuple[PerformanceFinding, SourceEdit]]:
    """Return changes with the finding that each is for, in the order of findings, of each the smallest first."""
    context = EditContext(
        text,
        base_name(record.kernel),
        (record.emulation.patterns or ()) if record.emulation is not None else (),
        math.prod(record.launch.block) if record.launch is not None else 0,
        record.prediction.blocks_per_sm if record.prediction is not None else 0,
    )
    rules, seen = set[Rule](), {text}
    changes: list[tuple[PerformanceFinding, SourceEdit]] = []
    for finding in findings:
        if finding.place.source is not None and Path(finding.place.source.file).name != file:
            continue  # in a header
        if finding.rule is Rule.BANK_CONFLICT and finding.rule in rules:
            continue  # paddings are those of all accesses
        rules.add(finding.rule)
        new = [edit for edit in islice(edits(context, finding), _MOST_EACH) if edit.text not in seen]
        seen.update(edit.text for edit in new)
        changes += [(finding, edit) for edit in new]
    return changes[:_MOST_TRIED]


def _best(
    before: TriedVariant, rule: Rule, own: Sequence[tuple[SourceEdit, TriedVariant]]
) -> tuple[SourceEdit, TriedVariant] | None:
    """Return the smallest change that leaves little of a cost, else the one that leaves least; None where none helps.

    Args:
        before: The variant as it is.
        rule: The rule whose cost is to go.
        own: The changes that were tried for it, the smallest first.
    """
    cost = before.cost_of(rule)
    best: tuple[SourceEdit, TriedVariant] | None = None
    for edit, after in own:
        least = best[1].cost_of(rule) if best is not None else (1 - _LEAST) * cost
        if after.status is before.status and after.cost_of(rule) < least and not after.slower_than(before):
            best = edit, after
            if after.cost_of(rule) <= _KEPT * cost:
                break
    return best


def _plain_data(experiment: Path) -> dict[str, Any]:
    """Return the keys of an experiment file on one CUDA source.

    Raises:
        UserError: It is another kind of file.
    """
    data = yamlfile.parse(yamlfile.read_text(experiment), experiment).data
    source = data.get("source") if isinstance(data, Mapping) else None
    if not isinstance(source, str) or not source.endswith((".cu", ".cuh")):
        raise UserError(
            "lab fix changes CUDA sources",
            code="wrong-value",
            at=Location(experiment),
            key="source",
            found=source if source is not None else "an experiment without it",
            accepted="an experiment on a .cu file, as lab new writes it",
        )
    return dict(data)


def _chosen(experiment: Path, variant: str) -> Planned:
    every = variants(experiment)
    matching = [planned for planned in every if planned.variant.startswith(variant)]
    if len(matching) == 1:
        return matching[0]
    raise UserError(
        "several variants fit" if matching else "no variant has this id",
        code="unknown-name",
        at=Location(experiment),
        key="--variant",
        found=variant or "no id",
        accepted="\n    ".join(["", *(f"{planned.variant} {planned.label}".rstrip() for planned in every[:50])]),
    )


def _tried(setting: _Setting, texts: Sequence[str]) -> list[tuple[VariantRecord, TriedVariant]]:
    """Execute variants whose sources have these texts; headers beside the source stand beside it."""
    source = setting.source
    with tempfile.TemporaryDirectory(prefix="lab-fix-") as scratch:
        folder = Path(scratch)
        for header in source.parent.iterdir():
            if header.suffix in _HEADERS and header.is_file():
                shutil.copyfile(header, folder / header.name)
        file = folder / source.name
        file.write_text(texts[0] if len(texts) == 1 else _branches(texts, source.name), encoding="utf-8")
        given = {**setting.given, "source": str(file)}
        if len(texts) > 1:
            given["parameters"] = {**given["parameters"], _MACRO: list(range(len(texts)))}
        options = RunOptions(output=folder / "run", measure=False)
        outcome = run_mapping(given, options, setting.observer, setting.services)
        with Store(outcome.folder) as store:
            records = sorted(store.records(), key=lambda record: int(record.parameters.get(_MACRO, 0)))
            return [
                (record, _variant(record, advice_of(store.variant_folder(record.variant), record)))
                for record in records
            ]


def _branches(texts: Sequence[str], name: str) -> str:
    """Return one source with a text in each branch of a condition, whose lines count from 1."""
    branches = (
        f'#{"elif" if number else "if"} {_MACRO} == {number}\n#line 1 "{name}"\n{text.rstrip()}\n'
        for number, text in enumerate(texts)
    )
    return f"{''.join(branches)}#endif\n"


def _variant(record: VariantRecord, advice: Advice) -> TriedVariant:
    traffic, work = emulated_traffic(record, *SHARED), real_work(record)
    moved = emulated_traffic(record, "global.load", "global.store")
    used = record.build.resources if record.build is not None else None
    return TriedVariant(
        record.status,
        traffic.bank_conflicts if traffic is not None else 0,
        traffic.wavefronts if traffic is not None else 0,
        work.score().seconds if work is not None else None,
        record.prediction.gpu if record.prediction is not None else "",
        used.registers if used is not None else None,
        used.spill_bytes if used is not None else 0,
        moved.sectors if moved is not None else 0,
        advice,
    )


def lines_of(outcome: FixOutcome) -> tuple[str, ...]:
    """Return what the command prints before the diff."""
    before, fix = outcome.before, outcome.fix
    if before.status.failed:
        return (f"nothing was tried: the kernel is {before.status}; lab run names line and cause",)
    if not before.advice.findings:
        return (f"nothing to remove ({before.status}): {before.advice.closing or 'no performance findings'}",)
    lines = []
    for finding, count in outcome.without_change:
        first, second = finding.lines
        why = f"{count} change{'s' if count > 1 else ''} tried, none removes it" if count else "not a mechanical change"
        lines += [first, f"   {why}; {second}"]
    if fix is None:
        return (*lines, "no change is proposed")
    lines += [fix.finding.lines[0], f"   change: {fix.edit.title}", *(f"   {row}" for row in _figures(before, fix))]
    for other in outcome.others:
        lines.append(
            f"also, with --finding '{other.finding.rule}': {other.edit.title}: {'; '.join(_figures(before, other))}"
        )
    return tuple(lines)


def _figures(before: TriedVariant, fix: ProposedFix) -> list[str]:
    """Return a line for each figure that the change moves, with its kind, and one for the verdicts."""
    after, rows = fix.after, list[str]()
    if before.conflicts != after.conflicts:
        rows.append(f"bank conflicts: {_conflicts(before)} -> {_conflicts(after)} wavefronts (emulated)")
    if before.sectors != after.sectors:
        rows.append(f"sectors of global memory: {before.sectors:,} -> {after.sectors:,} (emulated)")
    if before.registers != after.registers:
        rows.append(f"registers: {before.registers} -> {after.registers} per thread")
    if before.spill_bytes != after.spill_bytes:
        rows.append(f"spills: {before.spill_bytes} -> {after.spill_bytes} bytes per thread")
    if before.seconds and after.seconds:
        times = [time_text(1e3 * seconds, 2) for seconds in (before.seconds, after.seconds)]
        ratio = before.seconds / after.seconds
        change = "no faster" if ratio < _TIED else f"{ratio:.2f} x as fast"
        rows.append(f"time: {times[0]} -> {times[1]}, {change} (predicted for {before.gpu})")
    left = after.cost_of(fix.finding.rule)
    rows.append(f"{fix.finding.rule}: {'gone' if not left else 'less'}; verdict: {before.status} -> {after.status}")
    return rows


def _conflicts(tried: TriedVariant) -> str:
    return f"{tried.conflicts:,} of {tried.wavefronts:,}"
