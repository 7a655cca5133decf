from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from diff_support import LOOP, SCALE, compiled, image, side

from lab.base.errors import UserError
from lab.diff.collect import CollectOptions, collect
from lab.diff.side import to_json

FATBIN = Path(__file__).parents[1] / "toolchain" / "containers" / "golden" / "size.fatbin"


def test_a_source_for_several_architectures(tmp_path):
    (tmp_path / "scale.cu").write_text(SCALE)
    found = collect(
        tmp_path / "scale.cu", CollectOptions(("sm_80", "sm_90"), ("nvrtc",), options=("--maxrregcount=32",))
    )
    assert [part.options for part in found.images] == [("--maxrregcount=32",)] * 2
    assert found.images[0].spills == {"scale": (0, 0)}
    assert found.images[0].toolchain.startswith("nvrtc 1")


def test_an_instance(tmp_path):
    (tmp_path / "k.cu").write_text("template <int N> __global__ void add(int *x) { x[threadIdx.x] += N; }")
    (found,) = collect(tmp_path / "k.cu", CollectOptions(("sm_90",), ("nvrtc",), ("add<3>",))).images
    assert list(found.titles.values()) == ["add<3>"]


def test_a_source_that_does_not_compile(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void add(int *x) { nothing; }")
    found = collect(tmp_path / "k.cu", CollectOptions(("sm_90",), ("nvrtc",)))
    assert not found.images
    assert found.failures[0][0] == "k.cu for sm_90 by nvrtc"


def test_ptx_is_assembled_for_its_own_target(tmp_path):
    (tmp_path / "k.ptx").write_text(compiled(SCALE).build.ptx)
    (found,) = collect(tmp_path / "k.ptx", CollectOptions()).images
    assert found.toolchain.startswith("ptx ")
    failed = collect(tmp_path / "k.ptx", CollectOptions(("sm_80",)))
    assert failed.failures == (("k.ptx for sm_80", "it is PTX for sm_90"),)


def test_containers(tmp_path):
    (tmp_path / "k.cubin").write_bytes(image(SCALE).cubin)
    shutil.copy(FATBIN, tmp_path / "size.fatbin")
    with zipfile.ZipFile(tmp_path / "k-1-py3-none-any.whl", "w") as wheel:
        wheel.write(FATBIN, "pkg/size.fatbin")
    (tmp_path / "side.json").write_text(to_json(side(image(LOOP))))
    for name in ("k.cubin", "size.fatbin", "k-1-py3-none-any.whl", "side.json"):
        assert len(collect(tmp_path / name, CollectOptions()).images) == 1, name
    folder = collect(tmp_path, CollectOptions())
    assert sorted(part.where for part in folder.images) == ["k.cubin", "size.fatbin"]
    assert "1 PTX images beside cubins are not compared" in folder.notes


def test_a_folder_of_sources(tmp_path):
    (tmp_path / "a.cu").write_text(SCALE)
    (tmp_path / "b.cu").write_text(LOOP)
    assert [p.where for p in collect(tmp_path, CollectOptions(("sm_90",), ("nvrtc",))).images] == ["a.cu", "b.cu"]


@pytest.mark.parametrize(
    ("name", "code"), [("nothing", "missing-file"), ("text.md", "unsupported"), ("", "nothing-left")]
)
def test_no_machine_code(tmp_path, name, code):
    (tmp_path / "text.md").write_text("words")
    with pytest.raises(UserError) as caught:
        collect(tmp_path / name, CollectOptions())
    assert caught.value.code == code
