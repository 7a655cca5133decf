"""Advice on a stored variant, from its record and its files."""

from __future__ import annotations

from lab.advice.advise import advise
from lab.advice.evidence import of_variant
from lab.advice.finding import Advice
from lab.base.errors import ReaderError
from lab.base.folder import Folder
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.lines import LineTable
from lab.isa.sass.module import read_sass
from lab.recorded.run_records import VariantRecord
from lab.toolchain.cubin.lines import line_table


def advice_of(folder: Folder, record: VariantRecord) -> Advice:
    """Check all rules on a variant.

    Args:
        folder: The variant's folder. Listings that are absent or cannot be read are left out.
        record: Its complete record.
    """
    return advise(of_variant(record, _ptx(folder), _sass(folder)))


def _ptx(folder: Folder) -> Module | None:
    text = folder.read_text("kernel.ptx")
    try:
        return read_ptx(text, "kernel.ptx") if text else None
    except ReaderError:
        return None


def _sass(folder: Folder) -> Module | None:
    text = folder.read_text("kernel.sass")
    try:
        return read_sass(text, _lines(folder), "kernel.sass") if text else None
    except ReaderError:
        return None


def _lines(folder: Folder) -> LineTable:
    try:
        return line_table(folder.read("kernel.cubin") or b"")
    except ValueError:
        return LineTable()
