"""Compare two sides kernel by kernel. The result is plain data, which renderers and JSON show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

import numpy as np

from lab.base.errors import CompileError, Location, UserError
from lab.diff.classify import CodeClass, classify_difference, mix_key
from lab.diff.figures import KernelFigures, PredictedChange, figures_of, predicted_change
from lab.diff.image import CubinImage
from lab.diff.match import KernelKey, match
from lab.diff.normal import NormalInstruction, NormalKernel, normalise
from lab.diff.side import CodeSide, SideImage
from lab.isa.model import Module
from lab.isa.sass.module import read_sass
from lab.toolchain.base import Disassembly
from lab.toolchain.disassembly.nvdisasm import disassemble_all

_MOST_ALIGNED: Final = 6000
"""Most instructions of a kernel whose listings are aligned exactly."""
_CONTEXT: Final = 3
_MOST_ROWS: Final = 400
"""Most rows of an aligned listing to keep."""
_TOGETHER: Final = 24
"""Pairs of images that one call of the disassembler lists."""
_FLAGS: Final = 0x30
"""Offset of `e_flags` in an ELF header."""
_REMARK = re.compile(r"^\s*/\*([0-9a-f]{4,8})\*/[^\n]*SpillRefill", re.MULTILINE)
_TEXT = re.compile(r'^\t\.section\t"?\.text\.([^,"\s]+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ListingRow:
    """A row of two aligned listings.

    Attributes:
        mark: ` ` equal, `-` of BASE, `+` of HEAD, `!` unlike instructions of both, `~` another form of the same, `@`
            left-out equal rows.
        base: Instruction of BASE; empty without one.
        head: Instruction of HEAD; empty without one.
        line: Source line of HEAD's instruction, or BASE's: `k.cu:12`; empty where it is unknown.
    """

    mark: str
    base: str
    head: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel of both sides for one architecture.

    Attributes:
        name: C++ name in HEAD.
        base_name: C++ name in BASE.
        arch: Architecture.
        where: File of HEAD's image; empty where the side is the file.
        toolchain: Compilers, `BASE -> HEAD` where they differ; empty where none is known.
        cls: Class of the difference.
        reasons: Why, the decisive reason first.
        base: Figures of BASE; None where its code is not listed.
        head: Figures of HEAD.
        predicted: Predicted change of the hot loop's time.
        lines: Source lines of HEAD behind the difference, most instructions first.
        listing: Aligned rows around the differences.
    """

    name: str
    base_name: str
    arch: str
    where: str
    toolchain: str
    cls: CodeClass
    reasons: tuple[str, ...] = ()
    base: KernelFigures | None = None
    head: KernelFigures | None = None
    predicted: PredictedChange | None = None
    lines: tuple[str, ...] = ()
    listing: tuple[ListingRow, ...] = ()


@dataclass(frozen=True, slots=True)
class SoleKernel:
    """A kernel of one side alone."""

    name: str
    arch: str
    where: str


@dataclass(frozen=True, slots=True)
class SideVerdict:
    """The verdict on one variant of the experiment that stands for the kernels.

    Attributes:
        side: `BASE` or `HEAD`.
        variant: The variant.
        word: Its verdict: `verified`.
        passed: Its results are right.
        reason: Why not, or what was shown.
    """

    side: str
    variant: str
    word: str
    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class VariantTime:
    """The predicted or measured time of one variant of the experiment in HEAD over that in BASE.

    Attributes:
        variant: The variant, with its problem where there are several.
        ratio: The likely ratio: above 1, HEAD is slower.
        low: Lower end of its range.
        high: Upper end.
        kind: `predicted` or `measured`.
    """

    variant: str
    ratio: float
    low: float
    high: float
    kind: str


@dataclass(frozen=True, slots=True)
class SideComparison:
    """The comparison of two sides.

    Attributes:
        base: Name of the first side.
        head: Name of the second side.
        changes: Matched kernels, the largest differences first.
        added: Kernels of HEAD alone, on architectures that both sides have.
        removed: Kernels of BASE alone, on architectures that both sides have.
        missing_archs: Architectures of one side alone: `sm_90 in HEAD`.
        failures: What did not compile or cannot be read: side, place, reason.
        notes: What was not compared.
        verdicts: Of both sides, where an experiment stands for the kernels.
        times: Of the variants of that experiment.
    """

    base: str
    head: str
    changes: tuple[KernelChange, ...]
    added: tuple[SoleKernel, ...] = ()
    removed: tuple[SoleKernel, ...] = ()
    missing_archs: tuple[str, ...] = ()
    failures: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    verdicts: tuple[SideVerdict, ...] = ()
    times: tuple[VariantTime, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of changes by class, in the order of the classes."""
        counted = Counter(change.cls for change in self.changes)
        return {cls.value: counted[cls] for cls in CodeClass if counted[cls]}


@dataclass
class _Indexed:
    """The kernels of a side, before anything is disassembled."""

    side: CodeSide
    images: dict[int, CubinImage] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    keys: list[KernelKey] = field(default_factory=list)

    @property
    def archs(self) -> set[str]:
        return {key.arch for key in self.keys}


def compare_sides(base: CodeSide, head: CodeSide, *, figures: bool = False) -> SideComparison:
    """Compare two sides.

    Kernels whose code, constants and attributes have one digest are identical and need no disassembly.

    Args:
        base: The first side.
        head: The second side.
        figures: Disassemble identical kernels, too, for their figures.

    Raises:
        UserError: A side has no kernel.
        ReaderError: A listing lacks instructions of a kernel.
        MissingToolError: nvdisasm is missing.
    """
    before, after = _index(base), _index(head)
    matched = match(before.keys, after.keys)
    shared = before.archs & after.archs
    missing = [
        *(f"{arch} is missing in HEAD" for arch in sorted(before.archs - after.archs)),
        *(f"{arch} is missing in BASE" for arch in sorted(after.archs - before.archs)),
    ]
    changes = list(_changes(before, after, matched.pairs, figures=figures))
    changes.sort(key=lambda change: (-list(CodeClass).index(change.cls), change.name, change.arch))
    return SideComparison(
        base.name,
        head.name,
        tuple(changes),
        tuple(SoleKernel(key.name, key.arch, key.where) for key in matched.added if key.arch in shared),
        tuple(SoleKernel(key.name, key.arch, key.where) for key in matched.removed if key.arch in shared),
        tuple(missing),
        (
            *(("BASE", *failure) for failure in (*base.failures, *before.unreadable)),
            *(("HEAD", *failure) for failure in (*head.failures, *after.unreadable)),
        ),
        tuple(dict.fromkeys((*_noted("BASE", base), *_noted("HEAD", head)))),
    )


def _noted(name: str, side: CodeSide) -> Iterator[str]:
    yield from (f"{name}: {note}" for note in side.notes)


def _index(side: CodeSide) -> _Indexed:
    indexed = _Indexed(side)
    copies: set[tuple[object, ...]] = set()
    for place, image in enumerate(side.images):
        try:
            cubin = CubinImage(image.cubin)
        except ValueError as error:
            indexed.unreadable.append((image.where or side.name, f"the cubin cannot be read: {error}"))
            continue
        indexed.images[place] = cubin
        arch = arch_of(image.cubin)
        for symbol in cubin.resources:
            # one kernel of a header is in every object that includes it
            copy = (arch, image.where, image.toolchain, symbol, cubin.digest(symbol))
            if copy not in copies:
                copies.add(copy)
                title = image.titles.get(symbol, "")
                opcodes = _opcodes(cubin.code(symbol))
                indexed.keys.append(KernelKey(place, image.where, image.toolchain, arch, symbol, title, opcodes))
    if not indexed.keys and not side.failures:
        raise UserError(
            "this side has no kernel",
            code="nothing-left",
            at=Location(side.name),
            found="; ".join(reason for _, reason in indexed.unreadable[:1]) or None,
            accepted="at least one kernel",
        )
    return indexed


def arch_of(cubin: bytes) -> str:
    """Return the architecture of a cubin, `sm_90`, from the flags of its ELF header.

    The lowest byte has it up to sm_90; from CUDA 13 on, the second byte. Such images have ABI version 8.
    """
    (flags,) = np.frombuffer(cubin, "<u4", 1, _FLAGS)
    abi = cubin[8]
    number = int(flags >> 8 & 0xFF) if abi >= 8 else int(flags & 0xFF)  # noqa: PLR2004 - the newer layout
    return f"sm_{number}"


def _opcodes(code: bytes) -> dict[int, int]:
    words = np.frombuffer(code, "<u2")[::8] & 0xFFF
    numbers, counts = np.unique(words, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Pair:
    """A matched kernel with its images on both sides."""

    old: KernelKey
    new: KernelKey
    images: tuple[SideImage, SideImage]
    cubins: tuple[CubinImage, CubinImage]

    def change(self, cls: CodeClass, reasons: tuple[str, ...] = ()) -> KernelChange:
        """Return the change without figures."""
        before, after = (image.toolchain for image in self.images)
        compilers = after if before == after else f"{before or 'unknown'} -> {after or 'unknown'}"
        return KernelChange(self.new.name, self.old.name, self.new.arch, self.new.where, compilers, cls, reasons)


def _changes(
    before: _Indexed, after: _Indexed, pairs: Sequence[tuple[KernelKey, KernelKey]], *, figures: bool
) -> Iterator[KernelChange]:
    """Yield the change of every pair; images that differ are disassembled a few at a time."""
    by_images: dict[tuple[int, int], list[_Pair]] = {}
    for old, new in pairs:
        images = before.side.images[old.image], after.side.images[new.image]
        pair = _Pair(old, new, images, (before.images[old.image], after.images[new.image]))
        digests = pair.cubins[0].digest(old.symbol), pair.cubins[1].digest(new.symbol)
        if old.symbol == new.symbol and digests[0] == digests[1] and not figures:
            yield pair.change(CodeClass.IDENTICAL)
        else:
            by_images.setdefault((old.image, new.image), []).append(pair)
    waiting = list(by_images.values())
    for start in range(0, len(waiting), _TOGETHER):
        group = waiting[start : start + _TOGETHER]
        modules = _Modules([image for kernels in group for image in kernels[0].images])
        for kernels in group:
            for pair in kernels:
                yield _compared(pair, modules.of(pair.images[0]), modules.of(pair.images[1]))


class _Modules:
    """The disassembled modules of some images, by contents."""

    def __init__(self, images: Sequence[SideImage]) -> None:
        self._listed: dict[bytes, Disassembly | CompileError] = {
            image.cubin: image.disassembly for image in images if image.disassembly is not None
        }
        cubins = [cubin for cubin in dict.fromkeys(image.cubin for image in images) if cubin not in self._listed]
        self._listed |= zip(cubins, disassemble_all(cubins), strict=True) if cubins else ()
        self._modules: dict[bytes, _Listed | str] = {}

    def of(self, image: SideImage) -> _Listed | str:
        """Return the module, or why there is none."""
        if image.cubin not in self._modules:
            self._modules[image.cubin] = listed(self._listed[image.cubin])
        return self._modules[image.cubin]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A module, and the marked spills of its functions."""

    module: Module
    spills: Mapping[str, frozenset[int]]


def listed(listing: Disassembly | CompileError) -> _Listed | str:
    """Return the module of a listing with its marked spills, or why there is none."""
    if isinstance(listing, CompileError):
        return str(listing).splitlines()[0]
    if listing.lacking:
        return listing.lacking
    headings = list(_TEXT.finditer(listing.text))
    ends = [*(heading.start() for heading in headings[1:]), len(listing.text)]
    spills = {
        heading[1]: frozenset(int(offset, 16) for offset in _REMARK.findall(listing.text[heading.end() : end]))
        for heading, end in zip(headings, ends, strict=True)
    }
    return _Listed(read_sass(listing.text, listing.lines, version=listing.version), spills)


def _compared(pair: _Pair, old: _Listed | str, new: _Listed | str) -> KernelChange:
    if isinstance(old, str) or isinstance(new, str):
        refused = old if isinstance(old, str) else new
        return pair.change(CodeClass.CHANGED, (f"not listed: {refused}",))
    base = normalise(pair.cubins[0], old.module, pair.old.symbol)
    head = normalise(pair.cubins[1], new.module, pair.new.symbol)
    difference = classify_difference(base, head)
    cls, reasons = difference.cls, difference.reasons
    if cls is CodeClass.IDENTICAL and pair.old.name != pair.new.name:
        cls, reasons = CodeClass.RENAMED, ("the kernel has another name",)
    before, after = (
        figures_of(kernel, image.spills.get(kernel.symbol), listed.spills.get(kernel.symbol, frozenset()))
        for kernel, image, listed in zip((base, head), pair.images, (old, new), strict=True)
    )
    lines, rows = ((), ()) if cls.harmless else _aligned(base, head)
    return replace(
        pair.change(cls, reasons),
        base=before,
        head=after,
        predicted=predicted_change(before, after),
        lines=lines,
        listing=rows,
    )


def _aligned(base: NormalKernel, head: NormalKernel) -> tuple[tuple[str, ...], tuple[ListingRow, ...]]:
    """Return the source lines behind a difference, and the aligned listings around it."""
    old, new = [mix_key(i) for i in base.instructions], [mix_key(i) for i in head.instructions]
    blocks = SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > _MOST_ALIGNED).get_opcodes()
    places: Counter[str] = Counter()
    rows: list[ListingRow] = []
    for kind, i1, i2, j1, j2 in blocks:
        if kind == "equal":
            rows += [_row(a, b) for a, b in zip(base.instructions[i1:i2], head.instructions[j1:j2], strict=True)]
            continue
        rows += [_unlike(a, b) for a, b in zip_longest(base.instructions[i1:i2], head.instructions[j1:j2])]
        places.update(line for i in head.instructions[j1:j2] or base.instructions[i1:i2] if (line := _line(i)))
    if not places:
        places.update(row.line for row in rows if row.mark == "~" and row.line)
    differ = any(row.mark != " " for row in rows)
    return tuple(line for line, _ in places.most_common(8)), _excerpt(rows) if differ else ()


def _row(a: NormalInstruction, b: NormalInstruction) -> ListingRow:
    same = (a.guard, a.opcode, a.operands, a.control) == (b.guard, b.opcode, b.operands, b.control)
    return ListingRow(" " if same else "~", a.text, b.text, _line(b))


def _unlike(a: NormalInstruction | None, b: NormalInstruction | None) -> ListingRow:
    if a is None or b is None:
        instruction = a or b
        assert instruction is not None  # noqa: S101 - zip_longest fills one side
        return ListingRow("+" if a is None else "-", a.text if a else "", b.text if b else "", _line(instruction))
    return ListingRow("!", a.text, b.text, _line(b))


def _line(instruction: NormalInstruction) -> str:
    source = instruction.source
    return f"{source.file.lstrip('/')}:{source.line}" if source else ""


def _excerpt(rows: Sequence[ListingRow]) -> tuple[ListingRow, ...]:
    """Return the rows that differ with some equal rows around them."""
    near = {
        place
        for centre, row in enumerate(rows)
        if row.mark != " "
        for place in range(centre - _CONTEXT, centre + _CONTEXT + 1)
    }
    excerpt: list[ListingRow] = []
    for place, row in enumerate(rows):
        if place in near:
            excerpt.append(row)
        elif not excerpt or excerpt[-1].mark != "@":
            excerpt.append(ListingRow("@", "", ""))
        if len(excerpt) == _MOST_ROWS:
            excerpt.append(ListingRow("@", f"more than {_MOST_ROWS} rows differ", ""))
            break
    return tuple(excerpt)
