from __future__ import annotations

import pytest
from diff_support import LOOP, SCALE, comparison, image, side

from lab.base.errors import ReaderError, UserError
from lab.diff.classify import CodeClass
from lab.diff.collect import CollectOptions, collect
from lab.diff.comparison import arch_of, compare_sides
from lab.diff.side import CodeSide
from lab.isa.sass.control import BYTES
from lab.toolchain.cubin.image import code


def test_changed_identical_added_removed():
    result = comparison()
    assert {change.name: change.cls for change in result.changes} == {
        "scale": CodeClass.CHANGED, "dot": CodeClass.IDENTICAL,
    }  # fmt: skip
    assert [kernel.name for kernel in result.added] == ["fresh"]
    assert [kernel.name for kernel in result.removed] == ["old"]
    assert result.missing_archs == ("sm_80 is missing in HEAD",)


def test_the_lines_behind_a_change():
    (change,) = (change for change in comparison().changes if change.name == "scale")
    assert change.lines[0] == "kernel.cu:7"
    assert {row.mark for row in change.listing} & {"!", "+"}
    assert (change.base.registers, change.base.spill_bytes) > (0, -1)


def test_identical_kernels_have_figures_where_they_are_asked_for():
    both = side(image(LOOP))
    (change,) = compare_sides(both, both).changes
    assert change.head is None
    (change,) = compare_sides(both, both, figures=True).changes
    assert (change.cls, change.head.shared_bytes) == (CodeClass.IDENTICAL, 512)


def test_a_build_is_not_disassembled_again(tmp_path, monkeypatch):
    (tmp_path / "a.cu").write_text(SCALE)
    (tmp_path / "b.cu").write_text(SCALE.replace("3.0f", "5.0f"))
    options = CollectOptions(("sm_90",), ("nvrtc",))
    sides = [collect(tmp_path / name, options) for name in ("a.cu", "b.cu")]
    monkeypatch.setattr("lab.diff.comparison.disassemble_all", lambda _: pytest.fail("both are listed"))
    assert compare_sides(*sides).counts == {"changed": 1}


def test_a_renamed_kernel():
    (change,) = compare_sides(side(image(SCALE)), side(image(SCALE.replace("scale", "rescale")))).changes
    assert (change.cls, change.base_name, change.name) == (CodeClass.RENAMED, "scale", "rescale")


def test_equal_copies_count_once():
    copies = side(image(SCALE, where="a.o"), image(SCALE, where="a.o"))
    assert len(compare_sides(copies, copies).changes) == 1


@pytest.mark.parametrize(("arch", "options"), [("sm_80", ()), ("sm_90", ()), ("sm_120", ())])
def test_the_architecture_of_an_image(arch, options):
    assert arch_of(image(SCALE, arch, *options).cubin) == arch


def test_sides_without_kernels_are_refused():
    nothing = CodeSide("nothing", ())
    with pytest.raises(UserError) as caught:
        compare_sides(nothing, nothing)
    assert caught.value.code == "nothing-left"


def test_listings_without_instructions_are_refused():
    """Two listings that say nothing would be equal."""
    part = image(SCALE)
    text = code(part.cubin, "scale")
    empty = part.cubin.replace(text, text[-BYTES:] * (len(text) // BYTES))
    nothing = CodeSide("nothing", (type(part)("", empty),))
    with pytest.raises(ReaderError):
        compare_sides(nothing, nothing, figures=True)


def test_a_damaged_cubin():
    damaged = CodeSide("damaged", (type(image(SCALE))("k.o", image(SCALE).cubin[:400]),))
    with pytest.raises(UserError) as caught:
        compare_sides(damaged, damaged)
    assert caught.value.code == "nothing-left"
    whole = image(SCALE)
    result = compare_sides(CodeSide("one", (whole, *damaged.images)), side(whole))
    assert [(name, place) for name, place, _ in result.failures] == [("BASE", "k.o")]
