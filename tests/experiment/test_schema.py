from __future__ import annotations

import json

import jsonschema
import pytest
from ruamel.yaml import YAML

from lab.experiment.schema import json_schema


def test_the_committed_schema_is_current(root):
    committed = json.loads((root / "experiments" / "experiment.schema.json").read_text())
    assert committed == json_schema(), "run: python -m lab schema -o experiments/experiment.schema.json"


def test_the_schema_takes_the_shipped_experiments_and_refuses_mistakes(root):
    checker = jsonschema.Draft202012Validator(json_schema())
    for file in (root / "experiments").glob("*.yaml"):
        document = YAML(typ="safe", pure=True).load(file)
        if "groups" in document:
            continue  # a tuning file
        checker.validate(document)
        for broken in ({**document, "extra": 1}, {**document, "kernels": []}, {**document, "archs": ["x"]}):
            with pytest.raises(jsonschema.ValidationError):
                checker.validate(broken)
