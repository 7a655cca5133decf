from __future__ import annotations

import json

import pytest
from diff_support import SCALE, image, side

from lab.base.errors import UserError
from lab.diff.side import is_side, merged, read_json, to_json


def test_a_side_survives_json(tmp_path):
    whole = side(image(SCALE, where="a.cu"), name="main")
    file = tmp_path / "side.json"
    file.write_text(to_json(whole))
    assert is_side(file)
    assert read_json(file) == whole


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{", "syntax"),
        ("[]", "version"),
        (json.dumps({"format": "lab diff side", "schema": 99}), "version"),
        (json.dumps({"format": "lab diff side", "schema": 1, "images": [{}]}), "syntax"),
        (to_json(side(image(SCALE))).replace('"cubin": "', '"cubin": "eJ'), "syntax"),
    ],
)
def test_other_json(tmp_path, content, code):
    file = tmp_path / "side.json"
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        read_json(file)
    assert caught.value.code == code


def test_merged_sides_keep_their_places():
    both = merged("all", [side(image(SCALE), name="a.cu"), side(image(SCALE, where="b.cu"), name="x")])
    assert [part.where for part in both.images] == ["a.cu", "b.cu"]
