"""Advice on a stored variant, from its record and its files."""

from __future__ import annotations

from collections.abc import Mapping

from lab.advice.advise import advise
from lab.advice.evidence import Evidence, of_variant
from lab.advice.finding import Advice
from lab.base.errors import ReaderError
from lab.base.folder import Folder
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.lines import LineTable
from lab.isa.sass.module import read_sass
from lab.recorded.run_records import VariantRecord
from lab.toolchain.cubin.debug_lines import line_table


def advice_of(folder: Folder, record: VariantRecord) -> Advice:
    """Check all rules on a variant.

    Args:
        folder: The variant's folder. Listings that are absent or cannot be read are left out.
        record: Its complete record.
    """
    return advise(evidence_of(folder, record))


def evidence_of(folder: Folder, record: VariantRecord) -> Evidence:
    """Return the evidence on a variant; see `advice_of`."""
    ptx, sass = folder.read_text("kernel.ptx"), folder.read_text("kernel.sass")
    lines = _lines(folder) if sass else LineTable()
    return of_variant(record, _ptx(_whole(ptx, record.arch)), _sass(_whole(sass, record.arch), lines))


def evidence_of_listings(texts: Mapping[str, str], record: VariantRecord) -> Evidence:
    """Return the evidence on a variant of committed results, whose listings are texts by file name."""
    ptx, sass = (_whole(texts.get(name), record.arch) for name in ("kernel.ptx", "kernel.sass"))
    return of_variant(record, _ptx(ptx), _sass(sass, LineTable()))


def _whole(text: str | None, arch: str) -> str | None:
    """Return a listing that begins as its reader expects.

    Committed results cut listings to one kernel and leave empty lines in place of what stood before it. The head goes
    into the first of these, so that line numbers keep their meaning.
    """
    if not text or not text.startswith("\n"):
        return text
    cut = text.lstrip()
    if cut.startswith((".section", ".text")):
        return f"\t.target\t{arch}{text}"
    head = f'.version 8.0 .target {arch} .address_size 64 .file 1 "kernel.cu"'
    return f"{head}{text}" if cut.startswith((".visible", ".entry", ".weak", ".func")) else text


def _ptx(text: str | None) -> Module | None:
    try:
        return read_ptx(text, "kernel.ptx") if text else None
    except ReaderError:
        return None


def _sass(text: str | None, lines: LineTable) -> Module | None:
    try:
        return read_sass(text, lines, "kernel.sass") if text else None
    except ReaderError:
        return None


def _lines(folder: Folder) -> LineTable:
    try:
        return line_table(folder.read("kernel.cubin") or b"")
    except ValueError:
        return LineTable()
