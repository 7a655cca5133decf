"""Texts and instruction mixes of files and variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import pytest
from mistakes import coded

from lab.advice.finding import Rule
from lab.base.errors import CompileError, UserError
from lab.cli import inspect
from lab.cli.inspect import (
    InspectedListing,
    Inspection,
    SourceOptions,
    emulate_words,
    execute_file,
    image_rows,
    inspect_file,
    inspect_image,
    variants,
)
from lab.cli.live.snapshot import Stage
from lab.emulator.monitor import LaunchMonitor

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 out)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
    ret;
}}
"""


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "k.ptx").write_text(PTX.format(name="k"))
    return tmp_path / "k.ptx"


def test_a_ptx_file_has_one_listing(kernel):
    found = inspect_file(kernel)
    assert [listing.isa for listing in found.listings] == ["ptx"]
    assert found.listings[0].kernels[0].name == "k"
    assert found.to_json()["kernels"][0]["by_class"]["st.global"] == 1
    with pytest.raises(UserError, match="has no sass"):
        found.to_json("sass")


def test_the_progress_of_an_inspection(kernel):
    """It is asked for here when a part of the work begins, and when the last one is over."""
    looks, stages = [], []

    def follow(look):
        looks.append(look)
        stages.extend(look())

    inspect_file(kernel, follow=follow)
    lines = kernel.read_text().count("\n") + 1
    assert [(stage.name, stage.done, stage.total) for stage in (*stages, *looks[-1]())] == [
        ("lines of PTX", 1, lines),
        ("kernels of PTX", 0, 1),
        ("kernels of PTX", 1, 1),
    ]
    assert looks[0]()[0].done == lines


def test_an_endless_launch_is_stopped_and_watched(kernel, monkeypatch):
    """A look at the clock takes a second."""
    monkeypatch.setattr(inspect, "LaunchMonitor", lambda limit_s: LaunchMonitor(limit_s, count().__next__))
    kernel.write_text(kernel.read_text().replace("ret;", "L: add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; bra L;"))
    looks: list[Callable[[], Sequence[Stage]]] = []
    emulation, outputs, _ = emulate_words(
        kernel, None, ("1", "32"), ["i32[32]=zeros"], limit_s=1000, follow=looks.append
    )
    assert [finding.kind for finding in emulation.findings] == ["unfinished"]
    assert outputs
    blocks, steps, faults = looks[-1]()
    assert (blocks.name, blocks.done, blocks.total) == ("blocks (interpreter)", 0, 1)
    assert (steps.name, steps.done) == ("instructions interpreted", emulation.steps)
    assert (faults.name, faults.done) == ("unfinished", 32)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(UserError, check=coded("unsupported", found=".txt")) as raised:
        inspect_file(tmp_path / "k.txt")
    assert raised.value.found == ".txt"


def test_a_folder_with_one_listing_of_a_kind_is_shown_and_one_with_several_is_listed(kernel):
    folder = kernel.parent
    shown = inspect_image(folder)
    assert [listing.kernels[0].name for listing in shown.listings] == ["k"]
    (folder / "other.ptx").write_text(PTX.format(name="other"))
    assert inspect_image(folder) is None
    rows = image_rows(folder)
    assert [(row["where"], row["kernels"]) for row in rows] == [("k.ptx", ["k"]), ("other.ptx", ["other"])]
    chosen = inspect_image(folder, str(rows[1]["variant"])[:6])
    assert (chosen.title, chosen.listings[0].kernels[0].name) == (f"{folder} other.ptx", "other")
    with pytest.raises(UserError) as caught:
        inspect_image(folder, "zz")
    assert (caught.value.key, caught.value.found) == ("--variant", "zz")


def test_a_folder_without_device_code(tmp_path):
    with pytest.raises(UserError) as caught:
        inspect_image(tmp_path)
    assert caught.value.at.file == tmp_path


def test_a_cubin_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file")):
        inspect_file(tmp_path / "missing.cubin")


def test_arguments_as_text_and_as_arrays_give_the_same(kernel):
    out = np.zeros(64, np.int32)
    by_array = execute_file(kernel, None, 2, 32, [out[:32].copy()])
    by_text, *_ = emulate_words(kernel, "k", ("2", "32"), ["i32[32]=out"])
    assert by_array.clean
    assert by_text.clean
    assert by_array.counts == by_text.counts
    execute_file(kernel, "k", (1,), (64,), [out])
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("word", ["", "0", "1,2,3,4", "-1", "a", "1,,2"])
def test_a_malformed_size_is_refused(kernel, word):
    with pytest.raises(UserError, check=coded("syntax", key="--block")) as raised:
        emulate_words(kernel, None, ("1", word), ["i32[32]=out"])
    assert raised.value.key == "--block"


def test_the_kernel_must_be_named_where_there_are_several(tmp_path):
    both = PTX.format(name="first") + PTX.format(name="second").split(".address_size 64\n")[1]
    (tmp_path / "k.ptx").write_text(both)
    with pytest.raises(UserError, check=coded("out-of-range", key="--kernel")) as raised:
        emulate_words(tmp_path / "k.ptx", None, ("1", "32"), ["i32[32]=out"])
    assert raised.value.accepted == ["first", "second"]
    with pytest.raises(UserError, check=coded("unknown-name", key="--kernel", found="frist")) as raised:
        emulate_words(tmp_path / "k.ptx", "frist", ("1", "32"), ["i32[32]=out"])
    assert "first" in raised.value.suggestion


def test_variants_are_planned_for_named_architectures(root):
    found = variants(root / "experiments" / "gemm_unroll.yaml")
    assert len({one.variant for one in found}) == len(found) > 1
    assert {one.request.arch for one in found} == {"sm_90"}
    with pytest.raises(UserError, check=coded("out-of-range", key="kernels")):
        variants(root / "experiments" / "gemm_unroll.yaml", 1)


def test_an_inspection_without_listings_says_so():
    with pytest.raises(UserError, match="k has no ptx"):
        Inspection("k", None, ()).to_json("ptx")
    assert Inspection("k", None, (InspectedListing("ptx", "", ()),)).to_json()["kernels"] == []


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return folder


KERNEL = "__global__ void add(real *x) { x[threadIdx.x] += ONE; }\n"


def names(shown):
    return [shown.titles.get(kernel.name, kernel.name) for kernel in shown.listings[-1].kernels]


def test_includes_reach_up_to_the_root_and_not_further(tmp_path):
    write(
        tmp_path,
        {"a/b/k.cu": f'#include "../types.h"\n{KERNEL}', "a/types.h": '#include "../../one.h"\ntypedef int real;'},
    )
    (tmp_path / "one.h").write_text("#define ONE 1\n")
    with pytest.raises(UserError) as caught:
        inspect_file(tmp_path / "a/b/k.cu", SourceOptions(root=tmp_path / "a/b"))
    assert (caught.value.key, caught.value.found) == ("root", "../types.h")
    (tmp_path / "a/types.h").write_text('#include "../one.h"\ntypedef int real;')
    assert names(inspect_file(tmp_path / "a/b/k.cu", SourceOptions(root=tmp_path))) == ["add"]


def test_links_out_of_the_root_are_not_followed(tmp_path):
    write(tmp_path, {"a/k.cu": f'#include "types.h"\n{KERNEL}', "types.h": "typedef int real;\n#define ONE 1\n"})
    (tmp_path / "a/types.h").symlink_to(tmp_path / "types.h")
    with pytest.raises(CompileError, match="could not open"):
        inspect_file(tmp_path / "a/k.cu", SourceOptions(root=tmp_path / "a", toolchain="nvrtc"))


def test_flags_are_those_of_the_project_and_of_the_command_line(tmp_path):
    makefile = "DEFS = -DONE=1\nNVCC := nvcc $(DEFS)\nk.o: src/k.cu\n\t$(NVCC) -Iinclude -c $< -o $@\n"
    write(
        tmp_path, {"src/k.cu": f"#include <t.h>\n{KERNEL}", "include/t.h": "typedef float real;", "Makefile": makefile}
    )
    shown = inspect_file(tmp_path / "src/k.cu")
    assert names(shown) == ["add"]
    assert any("-DONE=1" in note for note in shown.notes)
    (tmp_path / "Makefile").unlink()
    search = (tmp_path / "include",)
    assert names(inspect_file(tmp_path / "src/k.cu", SourceOptions(search=search, macros=("ONE=2",)))) == ["add"]


def test_a_header_is_a_source_and_old_comments_are_latin(tmp_path):
    write(tmp_path, {"k.cuh": "// temp\xe9rature\n#define real int\n#define ONE 1\n" + KERNEL})
    assert names(inspect_file(tmp_path / "k.cuh")) == ["add"]


TEMPLATE = "template <class T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; }\n"


def test_templates_are_instantiated_as_the_host_launches_them(tmp_path):
    launch = "template <class T> void run(T *x) { const int M = 4; scale<T, M><<<1, 32>>>(x); }\n"
    text = TEMPLATE + launch + "int main() { run((double *)0); run<int>(0); }"
    write(tmp_path, {"k.cu": text})
    assert sorted(names(inspect_file(tmp_path / "k.cu"))) == ["scale<double, 4>", "scale<int, 4>"]
    only = inspect_file(tmp_path / "k.cu", SourceOptions(kernel="scale<float, 2>"))
    assert names(only) == ["scale<float, 2>"]


def test_templates_alone_name_the_remedy(tmp_path):
    write(tmp_path, {"k.cu": TEMPLATE})
    with pytest.raises(UserError) as caught:
        inspect_file(tmp_path / "k.cu")
    assert caught.value.key == "--kernel"
    assert "scale<float, 128>" in caught.value.accepted


SPARSE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 128;
    add.s64 %rd3, %rd1, %rd2;
    div.u32 %r2, %r1, 3;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def test_advice_says_what_an_execution_shows_and_what_the_text_does(tmp_path):
    file = tmp_path / "sparse.ptx"
    file.write_text(SPARSE)
    *_, advice = emulate_words(file, None, ("1", "32"), ["i32[1024]=zeros"])
    assert [finding.rule for finding in advice.findings] == [Rule.UNCOALESCED]
    assert advice.findings[0].place.ptx == 13
    shown = inspect_file(file).advice
    assert shown is not None
    assert shown.findings == ()
    assert Rule.UNCOALESCED in {one.rule for one in shown.skipped}
    assert Rule.DIVISION not in {one.rule for one in shown.skipped}
