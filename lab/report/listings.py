"""Texts of the variants (source, PTX, SASS, log, details), packed for the page.

Each distinct text is embedded once: gzip, then base64, decoded by the browser when a variant is opened. Variants are
embedded best first until a budget of page bytes is spent; the others become links to the files of their folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer, YamlLexer

from lab.isa.classes import classify
from lab.isa.mix import KernelMix
from lab.report import sasstext
from lab.store import Store, VariantRecord

BUDGET: Final = 3_000_000
"""Bytes of the page that embedded texts may take, so that a page stays under 10 MB whatever the run's size."""

FILES: Final = {"source": "kernel.cu", "ptx": "kernel.ptx", "sass": "kernel.sass", "log": "build.log"}
"""Text to file name in a variant's folder."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Everything the page needs to open variants.

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
        """Bytes that the texts take on the page."""
        return sum(map(len, self.blobs.values()))


@dataclass(slots=True)
class _Packer:
    blobs: dict[str, str] = field(default_factory=dict)

    def candidate(self, texts: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Ids of the texts, and the blobs among them that are not embedded yet."""
        ids, new = {}, {}
        for name, text in texts.items():
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            ids[name] = key
            if key not in self.blobs and key not in new:
                new[key] = pack(text)
        return ids, new


def pack(text: str) -> str:
    """Base64 of the gzipped text; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def read(path: Path) -> str | None:
    """A file's text, or None where it is missing (a variant that failed before it was written)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def highlight_cuda(source: str) -> str:
    """CUDA source as HTML spans, escaped by pygments, one line a line."""
    return str(highlight(source, CudaLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def highlight_yaml(source: str) -> str:
    """YAML as HTML spans, escaped by pygments."""
    return str(highlight(source, YamlLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def pack_variants(
    store: Store, records: Sequence[VariantRecord], ranking: Iterable[VariantRecord], budget: int = BUDGET
) -> Packed:
    """Embed the texts of as many variants as the budget takes.

    Args:
        store: Where the files are.
        records: All records, in the experiment's order.
        ranking: Records that come first, best first; the others follow, failed ones before the rest.
        budget: Bytes that the embedded texts may take.
    """
    first = list(ranking)
    seen = {record.variant for record in first}
    rest = [record for record in records if record.variant not in seen]
    rest.sort(key=lambda record: not record.status.failed)
    packer, variants, used = _Packer(), {}, 0
    for record in (*first, *rest):
        texts = _texts(store, record)
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
    """ISA to opcode to class, for every opcode that occurs: colours the opcodes of the listings."""
    found: dict[str, dict[str, str]] = {"ptx": {}, "sass": {}}
    for record in records:
        for mix in (record.ptx, record.sass):
            if mix is not None:
                for opcode in mix.counts.by_opcode:
                    if opcode not in found[mix.isa]:
                        found[mix.isa][opcode] = str(classify(mix.isa, opcode))
    return found


def _texts(store: Store, record: VariantRecord) -> dict[str, str]:
    folder = store.variant_folder(record.variant)
    texts = {name: text for name, file in FILES.items() if (text := read(folder / file)) is not None}
    if "source" in texts:
        texts["source"] = highlight_cuda(texts["source"])
    if "sass" in texts:
        texts["sass"] = sasstext.compact(texts["sass"])
    first = {}
    for name, mix in (("ptx", record.ptx), ("sass", record.sass)):
        if mix is not None and name in texts:
            texts[name], first[name] = of_kernel(texts[name], mix)
    detail = {**_detail(record, folder), "first": first}
    texts["detail"] = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
    return texts


def of_kernel(text: str, mix: KernelMix) -> tuple[str, int]:
    """The part of a listing that belongs to one kernel: a module may hold entry points that were not launched.

    Returns:
        The kernel's lines with its head (PTX: the declaration, SASS: the section), and the number of the first in
        the whole listing, from 1.
    """
    lines = text.splitlines()
    if mix.lines is None or mix.lines[1] > len(lines):
        return text, 1
    first, last = mix.lines[0] - 1, mix.lines[1] - 1
    head = ".entry" if mix.isa == "ptx" else ".section"
    while first > 0 and head not in lines[first]:
        first -= 1
    if mix.isa == "ptx":
        while last + 1 < len(lines) and not lines[last].startswith("}"):
            last += 1
    return "\n".join(lines[first : last + 1]), first + 1


def _loops(mix: KernelMix | None) -> list[dict[str, object]]:
    """Every loop's label, depth, size and the hot one's listing lines."""
    if mix is None:
        return []
    return [
        {
            "label": loop.label,
            "depth": loop.depth,
            "hot": loop.hot,
            "instructions": loop.counts.instructions,
            "lines": loop.lines if loop.hot else (),
        }
        for loop in mix.loops
    ]


def _detail(record: VariantRecord, folder: Path) -> dict[str, object]:
    """What the page shows of one variant beside its texts."""
    return {
        "name": record.kernel,
        "label": record.label,
        "status": record.status,
        "reason": record.reason,
        "hot": {"ptx": _loops(record.ptx), "sass": _loops(record.sass)},
        "sections": _sections(record),
        "provenance": read(folder / "provenance.json") or "",
    }


def _sections(record: VariantRecord) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """(heading, kind, rows) of the resources, bounds, verification and measurement."""
    made = (
        ("Build", "static", _build_rows(record)),
        ("Occupancy and bounds", "predicted", _prediction_rows(record)),
        ("Verification", "", _verification_rows(record)),
        ("Measurement", "measured", _measurement_rows(record)),
    )
    return [(heading, kind, rows) for heading, kind, rows in made if rows]


def _build_rows(record: VariantRecord) -> list[tuple[str, str]]:
    build, rows = record.build, []
    if record.launch:
        grid, block = ("×".join(map(str, size)) for size in (record.launch.grid, record.launch.block))
        rows.append(("launch", f"grid {grid}, block {block}, {record.launch.dynamic_shared_bytes} B dynamic shared"))
    if build is None:
        return rows
    used = build.resources
    return [
        ("registers", f"{used.registers} per thread"),
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


def _prediction_rows(record: VariantRecord) -> list[tuple[str, str]]:
    prediction = record.prediction
    if prediction is None:
        return []
    share = f"{prediction.occupancy * 100:.0f} %"
    occupancy = f"{share}, {prediction.blocks_per_sm} blocks per SM, limited by {prediction.limited_by}"
    bounds = sorted(prediction.bounds, key=lambda bound: bound.tflops)
    return [
        ("GPU", prediction.gpu),
        ("occupancy", occupancy),
        *((bound.name, f"≤ {bound.tflops:.2f} TFLOP/s: {bound.explanation}") for bound in bounds),
        ("peak", f"{prediction.peak_tflops:.1f} TFLOP/s"),
    ]


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
        ("fresh process", timed.remeasured),
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
