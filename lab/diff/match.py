"""Match the kernels of two sides: by symbol, by C++ name, by base name, then by the similarity of their code."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lab.diff.demangle import base_of, demangled, stable_symbol

LEAST_SIMILAR: Final = 0.9
"""Least cosine similarity of two kernels' opcode bytes for a match without a common name."""


@dataclass(frozen=True, slots=True)
class KernelKey:
    """A kernel of a side.

    Attributes:
        image: Index of its image.
        where: File of that image.
        toolchain: Its compiler with the version; empty where the machine code came as it is.
        arch: Its architecture.
        symbol: Its symbol.
        title: Its name as the user wrote it; empty where nobody did.
        opcodes: Number of instructions by the lowest twelve bits of their encoding.
    """

    image: int
    where: str
    toolchain: str
    arch: str
    symbol: str
    title: str = ""
    opcodes: Mapping[int, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def compiler(self) -> str:
        """Its compiler without the version."""
        return self.toolchain.partition(" ")[0]

    @property
    def name(self) -> str:
        """Its C++ name with template arguments."""
        return self.title or demangled(self.symbol)


@dataclass(frozen=True, slots=True)
class Matched:
    """The kernels of two sides.

    Attributes:
        pairs: Matched kernels.
        added: Kernels of HEAD alone.
        removed: Kernels of BASE alone.
    """

    pairs: tuple[tuple[KernelKey, KernelKey], ...]
    added: tuple[KernelKey, ...]
    removed: tuple[KernelKey, ...]


def match(base: Sequence[KernelKey], head: Sequence[KernelKey]) -> Matched:
    """Match kernels of equal architecture, each at most once; earlier rules go first.

    The rules: one compiler, file and symbol; one symbol; one C++ name; one base name, the most similar template
    arguments first; and code at least `LEAST_SIMILAR`. A side of one compiler is matched with any compiler.
    """
    rules: tuple[Callable[[KernelKey], Hashable], ...] = (
        lambda key: (key.arch, key.toolchain, key.where, stable_symbol(key.symbol)),
        lambda key: (key.arch, key.compiler, key.where, stable_symbol(key.symbol)),
        lambda key: (key.arch, key.compiler, stable_symbol(key.symbol)),
        lambda key: (key.arch, stable_symbol(key.symbol)),
        lambda key: (key.arch, key.name),
    )
    left, right = dict(enumerate(base)), dict(enumerate(head))
    pairs: list[tuple[int, int]] = []
    for rule in rules:
        waiting: dict[Hashable, list[int]] = {}
        for place, key in right.items():
            waiting.setdefault(rule(key), []).append(place)
        for place, key in list(left.items()):
            if same := waiting.get(rule(key)):
                other = max(same, key=lambda candidate: _alike(key.where, right[candidate].where))
                same.remove(other)
                pairs.append((place, other))
                del left[place], right[other]
    for rule, likeness in ((_base_name, _name_likeness), (_arch, _code_likeness)):
        for place, other in _by_likeness(left, right, rule, likeness):
            pairs.append((place, other))
            del left[place], right[other]
    return Matched(tuple((base[a], head[b]) for a, b in sorted(pairs)), tuple(right.values()), tuple(left.values()))


_MOST_COMPARED: Final = 200_000
"""Most pairs of one group whose likeness is computed; the kernels of larger groups stay added and removed."""


def _by_likeness(
    left: Mapping[int, KernelKey],
    right: Mapping[int, KernelKey],
    rule: Callable[[KernelKey], Hashable],
    likeness: Callable[[KernelKey, KernelKey], float],
) -> list[tuple[int, int]]:
    """Return pairs of a positive likeness in one group, the most alike first."""
    groups: dict[Hashable, list[int]] = {}
    for place, key in right.items():
        groups.setdefault(rule(key), []).append(place)
    waiting: dict[Hashable, list[int]] = {}
    for place, key in left.items():
        waiting.setdefault(rule(key), []).append(place)
    rows = [
        (-likeness(left[place], right[other]), place, other)
        for group, places in waiting.items()
        if len(places) * len(groups.get(group, ())) <= _MOST_COMPARED
        for place in places
        for other in groups.get(group, ())
    ]
    pairs: list[tuple[int, int]] = []
    used_left, used_right = set[int](), set[int]()
    for score, place, other in sorted(rows):
        if score < 0 and place not in used_left and other not in used_right:
            used_left.add(place)
            used_right.add(other)
            pairs.append((place, other))
    return pairs


def _base_name(key: KernelKey) -> Hashable:
    return key.arch, base_of(key.name)


def _arch(key: KernelKey) -> Hashable:
    return key.arch


def _name_likeness(a: KernelKey, b: KernelKey) -> float:
    return 0.01 + _alike(a.name, b.name)


def _code_likeness(a: KernelKey, b: KernelKey) -> float:
    if not a.opcodes or not b.opcodes:
        return 0.0
    score = _cosine(a.opcodes, b.opcodes)
    return score if score >= LEAST_SIMILAR else 0.0


def _cosine(a: Mapping[int, int], b: Mapping[int, int]) -> float:
    dot = sum(n * b.get(opcode, 0) for opcode, n in a.items())
    return dot / math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))


def _alike(a: str, b: str) -> float:
    return 1.0 if a == b else difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
