import json
from pathlib import Path

import jsonschema

from lab.base import yamlfile
from lab.judging.schema import task_schema

ROOT = Path(__file__).parents[2]


def test_the_committed_schema_is_the_models():
    committed = json.loads((ROOT / "docs" / "reference" / "task.schema.json").read_text())
    assert committed == task_schema(), "run: python -m lab schema --of task -o docs/reference/task.schema.json"


def test_an_editor_accepts_a_task_and_refuses_a_wrong_key():
    from judged import ADD  # noqa: PLC0415

    validator = jsonschema.Draft202012Validator(task_schema())
    data = yamlfile.parse(ADD, "add.yaml").data
    assert validator.is_valid(data)
    assert not validator.is_valid({**data, "gird": 3})
