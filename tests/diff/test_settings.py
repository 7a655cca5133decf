from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.diff.settings import read_settings


def test_the_whole_file(tmp_path):
    file = tmp_path / "lab-diff.yaml"
    entry = "kernels:\n  - source: a.cu\n    define: [N=4]\n    kernels: ['scale<float>']\n"
    file.write_text(f"{entry}archs: [sm_80]\nfail_on: ['spills>0']\n")
    settings = read_settings(file)
    assert settings.kernels[0].define == ["N=4"]
    assert (settings.archs, settings.toolchains, settings.fail_on) == (["sm_80"], ["auto"], ["spills>0"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("archs: [sm_80]\n", "missing-key"),
        ("kernels: [{source: a.cu}]\nartifacts: [b.so]\n", "conflict"),
        ("kernls: []\n", "unknown-key"),
    ],
)
def test_mistakes(tmp_path, text, code):
    file = tmp_path / "lab-diff.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_settings(file)
    assert caught.value.code == code
