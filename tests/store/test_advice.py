"""Advice on what a run directory holds."""

from __future__ import annotations

from lab.advice.finding import Rule
from lab.store.advice import advice_of

READABLE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry gemm(.param .u64 out)
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
    ret;
}
"""


def test_variant_is_checked_as_far_as_its_listings_go(make):
    store = make("no_gpu")
    record = store.records()[0]
    folder = store.variant_folder(record.variant)
    skipped = {one.rule for one in advice_of(folder, record).skipped}
    assert Rule.CODE_SIZE not in skipped
    assert Rule.DIVISION in skipped  # the PTX of these runs names registers that it does not declare
    folder.write("kernel.ptx", READABLE)
    skipped = {one.rule for one in advice_of(folder, record).skipped}
    assert Rule.DIVISION not in skipped
    assert Rule.BANK_CONFLICT in skipped


def test_variant_without_files_is_not_checked(make):
    store = make("no_gpu")
    record = store.records()[0]
    folder = store.variant_folder("nothing")
    assert {one.rule for one in advice_of(folder, record).skipped} >= {Rule.DIVISION, Rule.CODE_SIZE}


def test_listings_that_were_cut_to_a_kernel_are_checked(make):
    store = make("no_gpu")
    record = store.records()[0]
    folder = store.variant_folder(record.variant)
    kernel = READABLE.partition(".address_size 64\n")[2]
    folder.write("kernel.ptx", "\n" * 3 + kernel)
    _, _, sass = (folder.read_text("kernel.sass") or "").partition("\n")
    folder.write("kernel.sass", f"\n{sass}")  # without its target
    skipped = {one.rule for one in advice_of(folder, record).skipped}
    assert not {Rule.DIVISION, Rule.CODE_SIZE} & skipped
    folder.write("kernel.ptx", "\nno listing")
    assert Rule.DIVISION in {one.rule for one in advice_of(folder, record).skipped}
