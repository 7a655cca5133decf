"""Texts of the variants (source, PTX, SASS, log, details), packed for the page.

Each distinct text is embedded once, compressed by gzip and coded in base64; the browser decodes it when a variant is
opened. Variants are embedded best first until a budget of page bytes is spent; the others link to their files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from markupsafe import escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer, YamlLexer

from lab.base.folder import Folder
from lab.isa.classes import classify
from lab.isa.mix import KernelMix
from lab.recorded.run_records import VariantRecord
from lab.report.aside import HERE, Aside
from lab.report.variant import sasstext
from lab.report.variant.advised import advice_rows
from lab.report.variant.details import variant_detail
from lab.report.variant.faults import marked_lines
from lab.report.variant.places import LINES, sass_places, source_number, text_of
from lab.store.advice import advice_of
from lab.store.database import PROVENANCE, Store

BUDGET: Final = 600_000
"""Most bytes of embedded texts."""

FILES: Final = {"source": "kernel.cu", "ptx": "kernel.ptx", "sass": "kernel.sass", "log": "build.log"}
"""Text name to file name in a variant's folder."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The data the page needs to open variants.

    Attributes:
        blobs: Text id to base64 of gzip.
        variants: Variant to text ids by text name (`source`, `ptx`, `sass`, `log`, `detail`), for embedded ones.
        links: Variants whose texts did not fit, in the experiment's order.
        budget: The budget that was kept, in bytes.
    """

    blobs: dict[str, str]
    variants: dict[str, dict[str, str]]
    links: tuple[str, ...]
    budget: int

    @property
    def bytes(self) -> int:
        """Bytes the texts take on the page."""
        return sum(map(len, self.blobs.values()))


LARGE = 1000
"""Number of variants above which only `MOST_EMBEDDED` have their texts in the page; the others have links."""

MOST_EMBEDDED = 60

MOST_COLOURED, LARGE_COLOURED = 30, 10
"""Variants whose source is highlighted, and the same for a large run; highlighting takes about 50 ms each."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A packed text.

    Attributes:
        key: Its id, from its content.
        packed: The result of `pack`.
    """

    key: str
    packed: str


@dataclass(slots=True)
class _Packer:
    blobs: dict[str, str] = field(default_factory=dict)

    def candidate(self, texts: Mapping[str, Blob]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the ids of the texts, and the blobs that are not embedded yet."""
        ids = {name: blob.key for name, blob in texts.items()}
        return ids, {blob.key: blob.packed for blob in texts.values() if blob.key not in self.blobs}


def pack(text: str) -> str:
    """Return the gzipped text in base64; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def unpack(packed: str) -> str:
    """Return the text that `pack` was given."""
    return gzip.decompress(base64.b64decode(packed)).decode()


def highlight_cuda(source: str) -> str:
    """Return CUDA source as HTML spans, escaped by pygments, line for line.

    Variants of one template share most of their lines, so that each different line is read once. Where a token may
    span lines (a comment, a macro, a raw string, code left out by `#if`), the whole source is read.
    """
    if len(source) > _MOST_HIGHLIGHTED or any(sign in source for sign in _LONGER_THAN_A_LINE):
        return _highlighted(source)
    return "".join(_highlighted_line(line) for line in source.splitlines(keepends=True))


_MOST_HIGHLIGHTED: Final = 1 << 17
"""Most characters of a highlighted source; a longer one is shown without colours."""

_MOST_SEARCHED: Final = 20_000_000
_LONGER_THAN_A_LINE: Final = ("/*", "\\\n", 'R"', "#if")


@lru_cache(maxsize=20_000)
def _highlighted_line(line: str) -> str:
    return _highlighted(line)


def _highlighted(source: str, lexer: Lexer | None = None) -> str:
    # pygments takes seconds for a hundred kilobytes, and searches the rest of the text at each raw string
    if len(source) > _MOST_HIGHLIGHTED or len(source) * source.count('R"') > _MOST_SEARCHED:
        return str(escape(source))
    return str(highlight(source, lexer or CudaLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def highlight_python(source: str) -> str:
    """Return Python as HTML spans, escaped by pygments, line for line."""
    return _highlighted(source, PythonLexer(stripnl=False))


def highlight_yaml(source: str) -> str:
    """Return YAML as HTML spans, escaped by pygments."""
    return _highlighted(source, YamlLexer(stripnl=False))


@lru_cache(maxsize=64)
def _blob(text: str) -> Blob:
    """Pack a text; variants that follow one another often share theirs."""
    return Blob(hashlib.sha256(text.encode()).hexdigest()[:16], pack(text))


def packed_texts(folder: Folder, record: VariantRecord, *, coloured: bool) -> dict[str, Blob]:
    """Read a variant's texts, prepare them for the page, and pack them. May run in another process.

    Args:
        folder: The variant's folder.
        record: Its complete record.
        coloured: Highlight its source.

    Returns:
        By text name: `source`, `ptx`, `sass`, `log`, `detail`.
    """
    return {name: _blob(text) for name, text in _texts(folder, record, coloured=coloured).items()}


def pack_variants(
    store: Store,
    records: Sequence[VariantRecord],
    ranking: Iterable[VariantRecord],
    budget: int = BUDGET,
    aside: Aside = HERE,
) -> Packed:
    """Embed the texts of as many variants as fit into the budget.

    Args:
        store: Where the files are.
        records: All records, in the experiment's order; embedded ones are read again, since these lack executed lines.
        ranking: Records to embed first, best first; failed variants follow, then all others.
        budget: Most bytes of the embedded texts.
        aside: Where texts are prepared.
    """
    first = list(ranking)
    ranked_ids = {record.variant for record in first}
    unranked = [record for record in records if record.variant not in ranked_ids]
    unranked.sort(key=lambda record: not record.status.failed)
    packer, variants, used = _Packer(), {}, 0
    limit, coloured = (MOST_EMBEDDED, LARGE_COLOURED) if len(records) > LARGE else (len(records), MOST_COLOURED)
    calls = (
        (
            partial(packed_texts, coloured=place < coloured),
            store.variant_folder(record.variant),
            store.record(record.variant),
        )
        for place, record in enumerate((*first, *unranked)[:limit])
    )
    for record, texts in zip((*first, *unranked), aside.each(calls), strict=False):
        ids, new = packer.candidate(texts)
        size = sum(map(len, new.values()))
        if used + size > budget:
            break
        packer.blobs.update(new)
        used += size
        variants[record.variant] = ids
    links = tuple(record.variant for record in records if record.variant not in variants)
    return Packed(packer.blobs, variants, links, budget)


def opcode_classes(records: Iterable[VariantRecord]) -> dict[str, dict[str, str]]:
    """Map ISA to opcode to class for every opcode that occurs; the page colours its listings by it."""
    classes: dict[str, dict[str, str]] = {"ptx": {}, "sass": {}}
    for record in records:
        for mix in (*record.mixes("ptx"), *record.mixes("sass")):
            for opcode in mix.counts.by_opcode:
                if opcode not in classes[mix.isa]:
                    classes[mix.isa][opcode] = str(classify(mix.isa, opcode))
    return classes


def _texts(folder: Folder, record: VariantRecord, *, coloured: bool) -> dict[str, str]:
    texts = {name: text for name, file in FILES.items() if (text := folder.read_text(file)) is not None}
    is_python = record.template.endswith(".py")
    if "source" in texts:
        coloring = highlight_python if is_python else highlight_cuda
        texts["source"] = coloring(texts["source"]) if coloured else str(escape(texts["source"]))
    first = {}
    source_names = {record.template, FILES["source"]}  # names of the source in line tables
    places: dict[str, object] = {"file": source_number(texts.get("ptx", ""), source_names)}
    if record.sass is not None and "source" in texts:
        places["sass"] = sass_places(folder, record.sass.name, source_names)
    for name, mix in (("ptx", record.ptx), ("sass", record.sass)):
        if mix is not None and name in texts:
            extra_lines = _needed(record) if name == "ptx" else ()
            texts[name], first[name] = of_kernel(texts[name], mix, extra_lines)
    if "sass" in texts:
        texts["sass"] = sasstext.compact(texts["sass"])
    detail = {**variant_detail(record), "provenance": folder.read_text(PROVENANCE) or "", "first": first}
    detail["places"] = places
    detail["advice"] = advice_rows(advice_of(folder, record), source_names)
    texts["detail"] = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
    return texts


def published_texts(store: Store, record: VariantRecord) -> dict[str, str]:
    """Return a variant's files as committed results keep them: listings cut to the kernel the page shows.

    Lines of other kernels of the module are empty, so that line numbers keep their meaning.

    Args:
        store: Where the files are.
        record: The complete record.

    Returns:
        File name to text; empty where the variant has no files.
    """
    folder, texts = store.variant_folder(record.variant), dict[str, str]()
    for file in (*FILES.values(), PROVENANCE):
        if (text := folder.read_text(file)) is not None:
            texts[file] = text
    for name, mix in (("ptx", record.ptx), ("sass", record.sass)):
        if mix is not None and FILES[name] in texts:
            kernel_text, first = of_kernel(texts[FILES[name]], mix, _needed(record) if name == "ptx" else ())
            texts[FILES[name]] = "\n" * (first - 1) + kernel_text
    if texts and record.sass is not None and (places := sass_places(folder, record.sass.name, FILES["source"])):
        texts[LINES] = text_of(places)
    return texts


def _needed(record: VariantRecord) -> tuple[int, ...]:
    """Return the PTX lines the page refers to: executed ones (perhaps of another entry point) and faulty ones."""
    emulation = record.emulation
    executed = (line for group in emulation.lines for line in group.lines) if emulation else ()
    return (*executed, *marked_lines(record))


def of_kernel(text: str, mix: KernelMix, extra_lines: Iterable[int] = ()) -> tuple[str, int]:
    """Cut a listing to one kernel: a module may hold entry points that were not launched.

    Args:
        text: The whole listing.
        mix: The kernel.
        extra_lines: Further lines, counted from 1, that the part must hold, with the functions around them.

    Returns:
        The kernel's lines with its head (PTX: the declaration, SASS: the section), and the number of the first in
        the whole listing, from 1.
    """
    lines = text.splitlines()
    if mix.lines is None or mix.lines[1] > len(lines):
        return text, 1
    inside = [line for line in (*mix.lines, *extra_lines) if line <= len(lines)]
    first, last = min(inside) - 1, max(inside) - 1
    heads = (".entry", ".func") if mix.isa == "ptx" else (".section",)
    while first > 0 and not any(head in lines[first] for head in heads):
        first -= 1
    if mix.isa == "ptx":
        while last + 1 < len(lines) and not lines[last].startswith("}"):
            last += 1
    return "\n".join(lines[first : last + 1]), first + 1
