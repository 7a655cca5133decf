"""Values of a mapping, as a file holds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mistakes import coded

from lab.api.given import anchored, is_code, plain, without_file, yaml_of
from lab.base.errors import CollectedError, Location, UserError, together
from lab.base.yamlfile import parse


def test_code_is_told_from_paths():
    assert is_code("__global__ void f();")
    assert is_code("a\nb")
    assert not is_code("kernels/vector_add.cu")


def test_what_numpy_holds_becomes_plain():
    given = {"a": np.int32(3), "b": (1, np.float64(0.5)), "c": np.array([1, 2]), "d": range(2), "e": Path("x")}
    assert plain(given, "k") == {"a": 3, "b": [1, 0.5], "c": [1, 2], "d": [0, 1], "e": "x"}
    assert type(plain(np.bool_(1), "k")) is bool
    with pytest.raises(UserError, check=coded("wrong-type", key="parameters.a[0]")) as caught:
        plain({"a": [object()]}, "parameters")
    assert caught.value.key == "parameters.a[0]"


def test_a_file_reads_back_as_what_it_was_made_of():
    data = {
        "question": 'Why: "this"? # ü\n\ttab',
        "problem": {"n": 10, "x": 1e-5, "big": 1e300, "flag": True, "none": None},
        "tolerance": {"c": {"absolute": float("inf"), "relative": -0.5}},
        "parameters": {"t": [1, 2.0, "float"], "no": ["no", "1e3"]},
    }
    read = parse(yaml_of(data), "x.yaml").data
    assert read == data
    assert list(read["parameters"]) == ["t", "no"]
    assert read["parameters"]["no"] == ["no", "1e3"]


def test_paths_of_arguments_start_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert anchored("a", "float32[n] in/a.npy") == f"float32[n] '{tmp_path}/in/a.npy'"
    assert anchored("a", "float32[n] 'my a.npy'") == f"float32[n] '{tmp_path}/my a.npy'"
    assert anchored("a", "float32[n] normal") == "float32[n] normal"
    assert anchored("a", "no type") == "no type"


def test_a_mistake_in_a_mapping_has_a_key_and_no_line(tmp_path):
    file = tmp_path / "k.yaml"
    file.write_text(yaml_of({"source": "k.cu", "grid": 1}))
    named = without_file(UserError("bad", code="wrong-value", at=Location(file, 2), key="grid[0]"), file)
    assert (named.at, named.key) == (None, "grid[0]")
    assert without_file(UserError("bad", code="wrong-value", at=Location(file, 2)), file).key == "grid"
    other = UserError("bad", code="wrong-value", at=Location(tmp_path / "k.cu", 2))
    assert without_file(other, file) is other
    both = without_file(together([UserError("a", code="wrong-value", at=Location(file, 1), key="x"), other]), file)
    assert isinstance(both, CollectedError)
    assert [error.at for error in both.errors] == [None, other.at]
