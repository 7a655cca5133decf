from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from pydantic import TypeAdapter

from lab.isa.mix import Counts, KernelMix, module_mix, to_json
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
