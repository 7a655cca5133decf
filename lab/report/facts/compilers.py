"""Comparison of the same variants across several compilers: machine code and speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.isa.mix import Counts
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.store import figures
from lab.store.figures import Response

MOST_SOURCES: Final = 24
"""Most sources in the table; effects and sentences cover all."""

MOST_STEPS: Final = 6
"""Most steps from one kernel to the next that get a sentence each."""


@dataclass(frozen=True, slots=True)
class CompilerResult:
    """One source compiled by one compiler.

    Attributes:
        record: The variant.
        rate: The response; None where there is none.
        to_first: `rate` over that of the first compiler with a rate; None for that compiler.
        step: `rate` over that of the previous kernel by the same compiler; None outside a ladder.
        same_as: First compiler that made the same machine code; empty where this is the first.
        figures: Name in `FIGURES` to value; None where the variant has no such figure.
    """

    record: VariantRecord
    rate: float | None
    to_first: float | None
    step: float | None
    same_as: str
    figures: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """One kernel with its parameters, problem and architecture, compiled by every compiler.

    Attributes:
        kernel: The kernel's name.
        label: Parameters that distinguish it, without the compiler.
        made: A result for each compiler, in the experiment's order.
    """

    kernel: str
    label: str
    made: tuple[CompilerResult, ...]


@dataclass(frozen=True, slots=True)
class Compilers:
    """The comparison of a run's compilers.

    Attributes:
        names: `nvrtc 11.8.89`, …, in the experiment's order.
        sources: The best `MOST_SOURCES` sources, in the experiment's order.
        figures: Names of the figures that are not 0 for every source.
        total: Number of sources.
        sentences: Differences over all sources.
    """

    names: tuple[str, ...]
    sources: tuple[CompiledSource, ...]
    figures: tuple[str, ...]
    total: int
    sentences: tuple[str, ...]


def _hot(of: Callable[[Counts], float | None]) -> Callable[[VariantRecord], float | None]:
    return lambda record: None if (counts := figures.hot_counts(record.sass)) is None else of(counts)


FIGURES: Final[Mapping[str, Callable[[VariantRecord], float | None]]] = {
    "registers": lambda record: record.build.resources.registers if record.build else None,
    "spills (B)": lambda record: record.build.resources.spill_bytes if record.build else None,
    "hot loop": _hot(lambda counts: counts.instructions),
    "fma": _hot(lambda counts: counts.fma),
    "integer": _hot(lambda counts: counts.by_class.get("integer", 0)),
    "ld.global": _hot(lambda counts: counts.by_class.get("ld.global", 0)),
    "ld.shared": _hot(lambda counts: counts.ld_shared),
    "instructions per fma": _hot(lambda counts: counts.instructions / counts.fma if counts.fma else None),
}
"""Figures in the table beside the response: name to getter. All but the first two are of the SASS hot loop."""


def compilers(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> Compilers | None:
    """Compare the compilers of a run; None where there is only one."""
    names = tuple(dict.fromkeys(record.compiler for record in records))
    if len(names) < 2:  # noqa: PLR2004 - nothing to compare
        return None
    grouped: dict[tuple[object, ...], dict[str, VariantRecord]] = {}
    for record in records:
        grouped.setdefault(_source(record), {})[record.compiler] = record
    ladder = _ladder([next(iter(group.values())) for group in grouped.values()])
    sources: list[CompiledSource] = []
    before: dict[tuple[object, ...], Mapping[str, VariantRecord]] = {}
    for group in grouped.values():
        first = next(iter(group.values()))
        track = (repr(sorted(first.problem.items())), first.arch)
        sources.append(_compared(group, names, response, before.get(track, {}) if ladder else {}))
        before[track] = group
    telling = tuple(
        name for name in FIGURES if any(result.figures[name] for source in sources for result in source.made)
    )
    return Compilers(names, _shown(sources), telling, len(sources), _sentences(run, names, sources, response))


def _source(record: VariantRecord) -> tuple[object, ...]:
    """Return everything that identifies a variant except its compiler."""
    return (record.kernel, repr(sorted(record.parameters.items())), repr(sorted(record.problem.items())), record.arch)


def _ladder(firsts: Sequence[VariantRecord]) -> bool:
    """Return whether each kernel occurs once per problem and architecture, so that the kernels form a ladder."""
    places = [(record.kernel, repr(sorted(record.problem.items())), record.arch) for record in firsts]
    return len({record.kernel for record in firsts}) > 1 and len(set(places)) == len(places)


def _compared(
    group: Mapping[str, VariantRecord], names: Sequence[str], response: Response, before: Mapping[str, VariantRecord]
) -> CompiledSource:
    results: list[CompilerResult] = []
    first_rate: float | None = None
    codes: dict[str, str] = {}
    for name in names:
        if (record := group.get(name)) is None:
            continue
        rate = response.of(record)
        earlier = response.of(before[name]) if name in before else None
        same_as = codes.setdefault(record.build.sass_sha256, name) if record.build else ""
        results.append(
            CompilerResult(
                record=record,
                rate=rate,
                to_first=rate / first_rate if rate and first_rate else None,
                step=rate / earlier if rate and earlier else None,
                same_as="" if same_as == name else same_as,
                figures={title: of(record) for title, of in FIGURES.items()},
            )
        )
        first_rate = first_rate or rate
    first = results[0].record
    return CompiledSource(first.kernel, first.label.replace(first.compiler, "").strip(), tuple(results))


def _shown(sources: Sequence[CompiledSource]) -> tuple[CompiledSource, ...]:
    """Return the sources with the highest response, in the experiment's order."""
    best = sorted(sources, key=lambda source: -max((result.rate or 0.0 for result in source.made), default=0.0))
    chosen = {id(source) for source in best[:MOST_SOURCES]}
    return tuple(source for source in sources if id(source) in chosen)


def _sentences(
    run: RunRecord, names: Sequence[str], sources: Sequence[CompiledSource], response: Response
) -> tuple[str, ...]:
    sentences = [_code(names, sources)]
    steps = [source for source in sources if any(result.step for result in source.made)]
    if steps and len(steps) <= MOST_STEPS and not run.problem_axes:
        sentences += [_step(source, sources[sources.index(source) - 1], response) for source in steps]
    else:
        sentences += [text for name in names[1:] if (text := _ratio(name, names[0], sources, response))]
    return tuple(filter(None, sentences))


def _code(names: Sequence[str], sources: Sequence[CompiledSource]) -> str:
    """Report for how many sources machine code and hot-loop mix are the same with all compilers."""
    built = [
        source for source in sources if sum(result.record.build is not None for result in source.made) == len(names)
    ]
    if not built:
        return ""
    identical = sum(all(result.same_as for result in source.made[1:]) for source in built)
    mixes = sum(len({_mix(result.record) for result in source.made}) == 1 for source in built)
    return (
        f"All {len(names)} compilers compile {len(built)} of the {len(sources)} sources. The machine code is the same "
        f"for {identical} of them, the instruction mix of the hot loop for {mixes}."
    )


def _mix(record: VariantRecord) -> str:
    counts = figures.hot_counts(record.sass)
    return repr(sorted(counts.by_class.items())) if counts else ""


def _step(source: CompiledSource, before: CompiledSource, response: Response) -> str:
    """Report a kernel's gain over the previous one with each compiler; equal factors are merged."""
    gains: dict[str, list[str]] = {}
    for result in source.made:
        if result.step:
            gains.setdefault(f"{result.step:.2f}", []).append(result.record.compiler)
    parts = [f"{factor} with {' and '.join(names)}" for factor, names in gains.items()]
    loops = [_per_fma(result) for result in (before.made[0], source.made[0])]
    text = f"From {before.kernel} to {source.kernel}, the {response.kind} {response.title} changes by a factor of "
    text += ", ".join(parts)
    if all(loops) and all(len({_per_fma(result) for result in s.made}) == 1 for s in (before, source)):
        text += f"; with all of them, SASS instructions per fma change from {loops[0]} to {loops[1]}"
    return f"{text}."


def _per_fma(result: CompilerResult) -> str:
    value = result.figures["instructions per fma"]
    return "" if value is None else f"{value:.2f}"


def _ratio(name: str, first: str, sources: Sequence[CompiledSource], response: Response) -> str:
    """Compare a compiler with the first one, over the sources that both compile."""
    ratios = [
        one.to_first
        for source in sources
        if source.made[0].record.compiler == first
        for one in source.made
        if one.record.compiler == name and one.to_first
    ]
    if not ratios:
        return ""
    return (
        f"The {response.kind} {response.title} with {name} is {median(ratios):.3f} times that with {first} in the "
        f"median, {min(ratios):.3f} to {max(ratios):.3f} times in all, n = {len(ratios)}."
    )
