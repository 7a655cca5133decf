from __future__ import annotations

import subprocess

import pytest
from diff_support import LOOP, SCALE, image

from lab.base.errors import UserError
from lab.diff.collect import CollectOptions
from lab.diff.sides import SideRequest, collect_side, files_of, settings_of

REQUEST = SideRequest(CollectOptions(("sm_90",), ("nvrtc",)))


def test_the_sources_of_the_settings(tmp_path):
    (tmp_path / "scale.cu").write_text(SCALE)
    (tmp_path / "loop.cu").write_text(LOOP)
    (tmp_path / "other.cu").write_text("not CUDA")
    (tmp_path / "lab-diff.yaml").write_text(
        "kernels: [{source: scale.cu, options: [--maxrregcount=40]}, {source: loop.cu}, {source: gone.cu}]\n"
    )
    found = collect_side(str(tmp_path), REQUEST, tmp_path)
    assert [(part.where, part.options) for part in found.images] == [
        ("scale.cu", ("--maxrregcount=40",)), ("loop.cu", ()),
    ]  # fmt: skip


def test_none_of_the_sources(tmp_path):
    (tmp_path / "lab-diff.yaml").write_text("kernels: [{source: gone.cu}]\n")
    with pytest.raises(UserError) as caught:
        collect_side(str(tmp_path), REQUEST, tmp_path)
    assert caught.value.code == "nothing-left"


def test_a_build_with_artifacts(tmp_path):
    (tmp_path / "made").write_bytes(image(SCALE).cubin)
    request = SideRequest(CollectOptions(), build="mkdir out && cp made out/k.cubin", artifacts=("out/k.cubin",))
    assert [part.where for part in collect_side(str(tmp_path), request, tmp_path).images] == ["out/k.cubin"]
    with pytest.raises(UserError) as caught:
        collect_side(str(tmp_path), SideRequest(CollectOptions(), build="true", artifacts=("lost.so",)), tmp_path)
    assert (caught.value.code, caught.value.found) == ("missing-file", "lost.so")


def test_settings_and_revisions(tmp_path):
    assert settings_of(tmp_path) is None
    subprocess.run(["git", "-C", tmp_path, "init", "-q"], check=True)  # noqa: S607
    with files_of(str(tmp_path / "k.cu"), tmp_path) as path:
        assert path == tmp_path / "k.cu"
