"""Check that lab ranks planted performance faults first and reports none in their clean twins.

Each case is a kernel with a macro: PLANTED 1 has the fault, PLANTED 0 the same work without it. The class of a fault is
in the name of its file. Every second case was held out while the rules were written.

    python benchmarks/advice.py [--half tuned|held-out] [--output FOLDER] [CASE ...]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.advice.finding import Advice, Rule
from lab.runs.pipeline import RunOptions
from lab.runs.pipeline import run as run_experiment
from lab.store.advice import advice_of
from lab.store.database import Store

CASES = Path(__file__).parent / "advice_cases"
CLASSES = {
    "atomic": (Rule.CONTENDED_ATOMIC,),
    "bank": (Rule.BANK_CONFLICT,),
    "local": (Rule.LOCAL_MEMORY,),
    "sectors": (Rule.UNCOALESCED, Rule.MISALIGNED),
    "slow": (Rule.DOUBLE_PRECISION, Rule.DIVISION),
}
MARK = "// FAULT"


@dataclass(frozen=True)
class Outcome:
    """The advice for one case.

    Attributes:
        case: Its name.
        planted: Advice on the variant with the fault.
        clean: Advice on its twin.
        line: Line of the fault.
    """

    case: str
    planted: Advice
    clean: Advice
    line: int

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules that name the fault."""
        return CLASSES[self.case.partition("_")[0]]

    @property
    def first(self) -> bool:
        """The fault is named first."""
        return bool(self.planted.findings) and self.planted.findings[0].rule in self.rules

    @property
    def placed(self) -> bool:
        """The first finding names the fault's line."""
        place = self.planted.findings[0].place.source if self.planted.findings else None
        return self.first and place is not None and place.line == self.line

    @property
    def silent(self) -> bool:
        """No rule of the fault's class finds anything in the twin."""
        return not any(finding.rule in self.rules for finding in self.clean.findings)


def outcome_of(case: str, folder: Path) -> Outcome:
    """Run both variants of a case, each alone since they need not compute the same, and ask for advice on them."""
    planted, clean = (_advice(case, value, folder) for value in (1, 0))
    text = (CASES / f"{case}.cu").read_text(encoding="utf-8").splitlines()
    return Outcome(case, planted, clean, next(number for number, line in enumerate(text, 1) if MARK in line))


def _advice(case: str, planted: int, folder: Path) -> Advice:
    place = folder / f"{case}_{planted}"
    place.mkdir(parents=True, exist_ok=True)
    text = (CASES / f"{case}.yaml").read_text(encoding="utf-8").replace("PLANTED: [1, 0]", f"PLANTED: {planted}")
    (place / f"{case}.yaml").write_text(text, encoding="utf-8")
    (place / f"{case}.cu").write_text((CASES / f"{case}.cu").read_text(encoding="utf-8"), encoding="utf-8")
    run_experiment(place / f"{case}.yaml", RunOptions(output=place / "run", measure=False))
    with Store(place / "run") as store:
        (record,) = store.records()
        if record.status.failed:
            raise SystemExit(f"{case}, PLANTED {planted}: {record.status}: {record.reason}")
        return advice_of(store.variant_folder(record.variant), record)


def table(outcomes: list[Outcome]) -> str:
    """Return the table of docs/results/advice.md."""
    lines = [
        "| case | fault named first | its line | first finding | predicted gain | twin silent | others on the twin |",
        "|---|---|---|---|---:|---|---|",
    ]
    for outcome in outcomes:
        first = outcome.planted.findings[0] if outcome.planted.findings else None
        others = ", ".join(finding.rule for finding in outcome.clean.findings if finding.rule not in outcome.rules)
        lines.append(
            f"| {outcome.case} | {_yes(outcome.first)} | {_yes(outcome.placed)} | {first.rule if first else 'none'} |"
            f" {f'{first.gain:.2f}' if first and first.gain else ''} | {_yes(outcome.silent)} | {others} |"
        )
    total = len(outcomes)
    lines += [
        "",
        (
            f"Named first: {sum(outcome.first for outcome in outcomes)} of {total}; with its line:"
            f" {sum(outcome.placed for outcome in outcomes)};"
            f" silent on the twin: {sum(outcome.silent for outcome in outcomes)}."
        ),
    ]
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("tuned", "held-out"))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--full", action="store_true", help="Print all findings.")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    names = sorted(path.stem for path in CASES.glob("*.yaml"))
    chosen = {None: names, "tuned": names[::2], "held-out": names[1::2]}[given.half]
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = [outcome_of(case, given.output or Path(scratch)) for case in given.cases or chosen]
    if given.full:
        for outcome in outcomes:
            for title, said in (("planted", outcome.planted), ("clean", outcome.clean)):
                print(f"--- {outcome.case}, {title}", *said.text(), sep="\n")
    print(table(outcomes))


if __name__ == "__main__":
    main()
