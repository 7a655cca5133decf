from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lab.tuning.file.tuning_schema import GroupModel, HalvingModel, LibraryModel, SizesModel, TimingModel, TuningFile

GROUP = {"name": "g", "template": "t.cu.j2", "BenchmarkFinalParameters": [{"exact": [1, 2, 3]}]}
FILE: dict[str, Any] = {"question": "Which?", "groups": [GROUP]}


def test_a_file_of_one_group_has_defaults_for_the_rest() -> None:
    read = TuningFile.model_validate(FILE)
    assert (read.arch, read.toolchain, read.gpu, read.baselines, read.seed) == ("native", "auto", None, [], 0)
    assert (read.halving, read.library) == (None, None)
    assert (read.problem.IndexAssignmentsA, read.problem.IndexAssignmentsB) == ([0, 2], [2, 1])
    assert (read.timing.samples, read.timing.cache, read.timing.verify) == (5, "auto", True)
    assert read.timing.pause_ms == 0
    (group,) = read.groups
    assert (group.ForkParameters, group.single_tuned, group.JoinParameters) == ({}, None, None)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"question": ""}, "question"),
        ({"groups": []}, "groups"),
        ({"arch": "sm90"}, "arch"),
        ({"baselines": ["torch"]}, "baselines"),
        ({"seed": -1}, "seed"),
        ({"seed": "0"}, "seed"),
        ({"problem": {"Precision": "X"}}, "problem"),
        ({"timing": {"samples": 0}}, "timing"),
        ({"timing": {"cache": "hot"}}, "timing"),
        ({"timing": {"pause_ms": -1}}, "timing"),
        ({"timing": {"pause_ms": 20_000}}, "timing"),
        ({"halving": {"coarse": 0}}, "halving"),
        ({"halving": {"keep": -0.1}}, "halving"),
        ({"library": {"name": "1st"}}, "library"),
        ({"library": {"held_out": 1.5}}, "library"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_value_that_is_not_accepted_is_named_by_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TuningFile.model_validate({**FILE, **change})
    assert {error["loc"][0] for error in raised.value.errors()} == {key}


def test_a_group_needs_sizes_for_step_7() -> None:
    with pytest.raises(ValidationError, match="BenchmarkFinalParameters"):
        GroupModel.model_validate({**GROUP, "BenchmarkFinalParameters": []})


def test_sizes_have_three_dimensions() -> None:
    assert SizesModel.model_validate({"range": [[16, 16, 64], 8, [1]]}).range == [[16, 16, 64], 8, [1]]
    for form in ("exact", "range"):
        with pytest.raises(ValidationError, match=form):
            SizesModel.model_validate({form: [1, 2]})


@pytest.mark.parametrize("model", [TuningFile, GroupModel, HalvingModel, TimingModel, LibraryModel, SizesModel])
def test_every_key_is_explained_in_plain_words(model: type[Any]) -> None:
    for name, field in model.model_fields.items():
        if name == "groups":
            continue
        assert field.description, name
        assert field.description[0].isupper() or field.description[0] == "[", (name, field.description)
        assert not field.description.endswith("."), (name, field.description)
