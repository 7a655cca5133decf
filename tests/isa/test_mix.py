from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from pydantic import TypeAdapter

from lab.isa.mix import BODY, Counts, KernelMix, LoopMix, kernel_mix, module_mix, to_json
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name.removesuffix(".expected.json") for path in GOLDEN.glob("*.expected.json"))


def read(name: str) -> Module:
    listing = GOLDEN / f"{name}.lst"
    if listing.exists():
        return read_sass(listing.read_text(), file=listing.name)
    return read_ptx((GOLDEN / f"{name}.ptx").read_text(), f"{name}.ptx")


def test_every_listing_has_an_expectation() -> None:
    assert {path.stem for path in [*GOLDEN.glob("*.ptx"), *GOLDEN.glob("*.lst")]} == set(NAMES)
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_golden_mix(name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text())
    module = read(name)
    assert json.loads(json.dumps(to_json(expected["file"], module.isa, module_mix(module)))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_survives_the_store(name: str) -> None:
    adapter = TypeAdapter(tuple[KernelMix, ...])
    kernels = module_mix(read(name))
    assert adapter.validate_json(adapter.dump_json(kernels)) == kernels


@pytest.mark.parametrize("name", NAMES)
def test_exactly_one_loop_is_hot(name: str) -> None:
    for kernel in module_mix(read(name)):
        hot = [loop for loop in kernel.loops if loop.hot]
        assert len(hot) == (1 if kernel.loops else 0)
        assert kernel.hot_loop == (hot[0] if hot else None)


def test_figures_of_the_tile_are_the_same_in_ptx_and_sass() -> None:
    for name in ("nvrtc_tile", "sm_90_tile"):
        (kernel,) = module_mix(read(name))
        hot = kernel.hot_loop
        assert hot is not None
        assert hot.counts.fma == 4
        assert hot.counts.ld_shared == 8
        assert hot.counts.fma_per_ld_shared == 0.5
        assert hot.counts.fma_over_fma_plus_ld_shared == pytest.approx(1 / 3)
        assert hot.counts.fma_share == pytest.approx(4 / 17)
        assert hot.counts.bytes_per_fma_shared == 8
        assert hot.counts.bytes_per_fma_global == 0


def test_lines_hold_the_loop() -> None:
    text = (GOLDEN / "nvrtc_tile.ptx").read_text().split("\n")
    hot = module_mix(read("nvrtc_tile"))[0].hot_loop
    assert hot is not None
    ((first, last),) = hot.lines
    assert text[first - 1].strip().startswith("ld.shared.f32")
    assert text[last - 1].strip().endswith(f"bra \t{hot.label};")
    assert hot.first_line == first
    assert hot.last_line == last


def test_live_registers_are_the_most_within() -> None:
    (kernel,) = module_mix(read("sm_90_tile"))
    assert kernel.live_registers == 19
    assert module_mix(read("nvrtc_tile"))[0].live_registers is None


def test_figures_without_denominator_are_none() -> None:
    nothing = Counts(0, {}, {}, 0, 0)
    assert nothing.fma_per_ld_shared is None
    assert nothing.fma_share is None
    assert nothing.fma_over_fma_plus_ld_shared is None
    assert nothing.bytes_per_fma_shared is None
    assert nothing.bytes_per_fma_global is None
    loads = Counts(2, {"ld.shared": 2}, {"LDS": 2}, 8, 0)
    assert loads.fma_per_ld_shared == 0
    assert loads.fma_over_fma_plus_ld_shared == 0


def test_json_has_the_keys_that_inspect_promises() -> None:
    value = to_json("x.ptx", "ptx", module_mix(read("nvrtc_tile")))
    assert list(value) == ["file", "isa", "kernels"]
    (kernel,) = cast("list[dict[str, list[dict[str, object]]]]", value["kernels"])
    assert {"name", "by_class", "by_opcode", "instructions", "loops"} <= set(kernel)
    for loop in kernel["loops"]:
        assert {
            "label", "depth", "parent", "hot", "instructions", "by_class", "by_opcode",
            "fma_per_ld_shared", "fma_share", "fma_over_fma_plus_ld_shared",
        } <= set(loop)  # fmt: skip


HEAD = ".version 8.0\n.target sm_80\n.entry k() { .reg .pred p; .reg .b32 r; .reg .f32 f; "


def ptx(body: str) -> KernelMix:
    return kernel_mix("ptx", read_ptx(f"{HEAD}{body} }}").functions[0])


def sass(*lines: str) -> KernelMix:
    code = "\n".join(f"/*{16 * number:04x}*/ {line} ;" for number, line in enumerate(lines))
    return kernel_mix("sass", read_sass(f"\t.target\tsm_90\n\t.section\t.text.k\n{code}").functions[0])


def counts(**by_class: int) -> Counts:
    named = {name.replace("_", "."): n for name, n in by_class.items()}
    return Counts(sum(named.values()), named, {}, 12, 20)


def a_loop(label: str, depth: int = 1, parent: str | None = None, **by_class: int) -> LoopMix:
    return LoopMix(label, depth, parent, False, counts(**by_class), 1, 2, ((1, 2),), None)


def a_mix(*loops: LoopMix) -> KernelMix:
    return KernelMix("sass", "k", counts(fma=1), loops, None)


def test_ratios_of_counts() -> None:
    totals = counts(fma=5, ld_shared=2, integer=3)
    assert (totals.fma, totals.ld_shared, totals.kept, totals.instructions) == (5, 2, 7, 10)
    assert (totals.fma_per_ld_shared, totals.fma_share, totals.fma_over_fma_plus_ld_shared) == (2.5, 0.5, 5 / 7)
    assert (totals.bytes_per_fma_shared, totals.bytes_per_fma_global) == (2.4, 4.0)


def test_classes_that_ptxas_does_not_keep() -> None:
    totals = counts(integer=1, compare=2, move=3, ld_const=4, branch=5, other=6)
    assert (totals.kept, totals.fma, totals.ld_shared) == (0, 0, 0)


def test_of_several_labels_the_one_that_a_branch_back_names() -> None:
    assert ptx("A: B: C: add.s32 r, r, 1; @p bra B; ret;").loops[0].label == "B"
    assert ptx("A: B: add.s32 r, r, 1; @p bra B; ret;").hot_name == "B"
    jumps = "T: .branchtargets L, M; L: add.s32 r, r, 1; brx.idx r, T; M: ret;"
    assert ptx(jumps).loops[0].label == "L"
    both = "T: .branchtargets L, M; K: L: add.s32 r, r, 1; brx.idx r, T; M: ret;"
    assert ptx(both).loops[0].label == "K"  # the table names it, not the branch


def test_a_loop_without_a_label_has_its_address() -> None:
    assert sass("NOP", "IADD3 R1, R1, R2, RZ", "@P0 BRA 0x10", "EXIT").loops[0].label == "0x10"
    assert sass("IADD3 R1, R1, R2, RZ", "@P0 BRA 0x0", "EXIT").loops[0].label == "0x0"


def test_a_kernel_without_loops_is_its_own_hot_region() -> None:
    mix = ptx("ret;")
    assert (mix.hot_loop, mix.hot_name, mix.hot_counts) == (None, BODY, mix.counts)
    assert mix.lines == (3, 3)
    assert ptx("").lines is None
    nested = ptx("\nA: add.s32 r, r, 1;\nfma.rn.f32 f, f, f, f; @p bra A;\nret;")
    assert nested.lines == (4, 6)
    assert nested.hot_counts == nested.loops[0].counts != nested.counts


def test_another_loop_may_be_marked_hot() -> None:
    mix = a_mix(a_loop("A"), a_loop("B"))
    assert [loop.hot for loop in mix.with_hot("B").loops] == [False, True]
    assert mix.with_hot("B").with_hot("A").hot_name == "A"
    assert mix.with_hot("C") is mix
    assert mix.with_hot("") is mix
    assert mix.with_hot("", unrolled=True).hot_loop is None


def test_the_loop_most_like_another_has_its_kept_classes_in_the_same_shares() -> None:
    mix = a_mix(a_loop("A", fma=10, ld_shared=1), a_loop("B", fma=1, ld_shared=2, integer=90), a_loop("C", integer=9))
    assert mix.like(a_loop("X", fma=100, ld_shared=30)) == "A"
    assert mix.like(a_loop("X", fma=2, ld_shared=3)) == "B"
    deeper = a_mix(a_loop("A", fma=1), a_loop("B", 2, "A", fma=3), a_loop("C", fma=2))
    assert deeper.like(a_loop("X", fma=7)) == "B"
    assert a_mix().like(a_loop("X", fma=7)) == ""
    # 0.8 against 0.6 of the direction
    close = a_mix(a_loop("A", fma=6, special=8), a_loop("B", fma=8, special=6))
    assert close.like(a_loop("X", fma=1)) == "B"
    assert close.like(a_loop("X", special=1)) == "A"


def test_loops_around_and_lines_of_their_own() -> None:
    outer = LoopMix("A", 1, None, True, counts(ld_global=1), 2, 9, ((2, 5), (8, 9)), None)
    inner = LoopMix("B", 2, "A", False, counts(fma=1), 3, 4, ((3, 4),), None)
    mix = a_mix(outer, inner)
    assert (mix.around(inner), mix.around(outer)) == (outer, None)
    assert outer.numbers == {2, 3, 4, 5, 8, 9}
    assert mix.own_lines(outer) == {2, 5, 8, 9}
    assert mix.own_lines(inner) == {3, 4}
    assert (outer.fetches, inner.fetches, inner.aside) == (True, False, 0)
    assert a_loop("A", cp_async=1).fetches


def test_bytes_that_a_text_loads() -> None:
    totals = ptx(
        "ld.shared.v2.f32 {f, f}, [r]; ld.global.v4.f32 {f, f, f, f}, [r]; ld.global.f32 f, [r];"
        " cp.async.cg.shared.global [r], [r], 16; st.shared.f32 [r], f; ld.local.f32 f, [r]; ret;"
    ).counts
    assert (totals.load_bytes_shared, totals.load_bytes_global) == (8, 36)
    assert totals.by_opcode["ret"] == 1
    repeated = ptx("ret; add.s32 r, r, 1; add.s32 r, r, 1; add.u32 r, r, 1; add.u32 r, r, 1; ret; ret;").counts
    assert list(repeated.by_opcode.items()) == [("ret", 3), ("add.s32", 2), ("add.u32", 2)]


def test_a_body_in_two_places_has_two_ranges_of_lines() -> None:
    loop = ptx("\nA: add.s32 r, r, 1;\n@p bra B;\nret;\nB: add.s32 r, r, 1;\nbra A;").loops[0]
    assert loop.lines == ((4, 5), (7, 8))
    assert (loop.first_line, loop.last_line) == (4, 8)
    behind = ptx("\nbra A; B: add.s32 r, r, 1;\nret;\nA: add.s32 r, r, 1;\n@p bra A; ret;").loops[0]
    assert (behind.first_line, behind.last_line, behind.depth, behind.parent) == (6, 7, 1, None)


def test_live_registers_of_a_loop_are_those_of_its_body() -> None:
    text = (GOLDEN / "sm_90_tile.lst").read_text()
    function = read_sass(text).functions[0]
    for loop in kernel_mix("sass", function).loops:
        inside = [
            instruction.live_registers for instruction in function.instructions if instruction.line in loop.numbers
        ]
        assert loop.live_registers == max(one for one in inside if one is not None)


def test_json_names_the_roles_of_warps() -> None:
    mix = ptx("\n@p bra A;\nsetmaxnreg.dec.sync.aligned.u32 40; ret;\nA: mma.sync.aligned.m16n8k8 f, f, f, f; ret;")
    (kernel,) = cast("list[dict[str, object]]", to_json("k.ptx", "ptx", [mix])["kernels"])
    assert kernel["roles"] == [
        {"role": "consumer", "registers": None, "line": 6},
        {"role": "other", "registers": 40, "line": 5},
    ]


def test_json_of_one_loop_in_full() -> None:
    mix = ptx("\nA: ld.shared.f32 f, [r];\nfma.rn.f32 f, f, f, f; fma.rn.f32 f, f, f, f; @p bra A;\nret;")
    body = {
        "by_class": {"fma": 2, "ld.shared": 1, "branch": 1},
        "by_opcode": {"fma.rn.f32": 2, "bra": 1, "ld.shared.f32": 1},
        "instructions": 4,
        "load_bytes_shared": 4,
        "load_bytes_global": 0,
    }
    loop = {
        "label": "A", "depth": 1, "parent": None, "hot": True, **body, "fma_per_ld_shared": 2.0, "fma_share": 0.5,
        "fma_over_fma_plus_ld_shared": 2 / 3, "bytes_per_fma_shared": 2.0, "bytes_per_fma_global": 0.0,
        "live_registers": None, "lines": [[4, 5]],
    }  # fmt: skip
    whole = body | {
        "by_class": {"fma": 2, "ld.shared": 1, "branch": 2},
        "by_opcode": {"fma.rn.f32": 2, "bra": 1, "ld.shared.f32": 1, "ret": 1},
        "instructions": 5,
    }
    kernel = {"name": "k", **whole, "live_registers": None, "roles": [], "loops": [loop]}
    assert to_json("k.ptx", "ptx", [mix]) == {"file": "k.ptx", "isa": "ptx", "kernels": [kernel]}
