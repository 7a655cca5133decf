import json
from pathlib import Path

import jsonschema
import pytest
from judged import RIGHT, judged, task_in

from lab.judging.faults import AdvicePoint, Examination, Fault, PredictedTime, Ruling
from lab.judging.task import load_task
from lab.judging.verdict import BRIEF_BYTES, SCHEMA, Judgement, verdict_schema

ROOT = Path(__file__).parents[2]


def test_the_committed_schema_is_the_models():
    committed = json.loads((ROOT / "docs" / "reference" / "verdict.schema.json").read_text())
    assert committed == verdict_schema(), "run: python -m lab schema --of verdict -o docs/reference/verdict.schema.json"
    assert committed["properties"]["schema"]["const"] == SCHEMA


@pytest.fixture
def validator():
    return jsonschema.Draft202012Validator(verdict_schema())


@pytest.mark.parametrize("source", [RIGHT, RIGHT.replace("a[i] +", "a[i] -"), "__global__ void add("])
def test_verdicts_follow_the_schema(tmp_path, validator, source):
    verdict = judged(tmp_path, source)
    for full in (False, True):
        validator.validate(json.loads(verdict.as_json(full=full)))


def long_verdict(folder):
    words = "a very long reason " * 60
    faults = tuple(
        Fault(Ruling.WRONG, f"check {i}", words, "c", (i,), "0", "1", {"n": i}, i, "k.cu:3") for i in range(20)
    )
    advice = tuple(AdvicePoint("bank conflict", "k.cu:3", words, words, 1.2) for _ in range(20))
    examination = Examination(not_shown=(words,) * 9, advice=advice, time=PredictedTime(10, 8, 16, "H200", "DRAM"))
    task = load_task(task_in(folder))
    return Judgement(task, "abc", 3, faults, examination, baseline=PredictedTime(20, 20, 20))


def test_a_brief_verdict_fits_into_a_models_context(tmp_path, validator):
    verdict = long_verdict(tmp_path)
    brief = verdict.as_json()
    assert len(brief.encode()) <= BRIEF_BYTES
    validator.validate(json.loads(brief))
    assert json.loads(brief)["omitted"] > 20
    assert len(json.loads(verdict.as_json(full=True))["evidence"]) == 20


def test_speedups_have_a_range(tmp_path):
    time = long_verdict(tmp_path).as_dict()["time"]
    assert (time["speedup"], time["speedup_range"]) == (2.0, [1.25, 2.5])


def test_gaps_are_counted_in_the_reason_of_a_correct_candidate(tmp_path):
    verdict = judged(tmp_path, RIGHT, hidden="")
    assert (verdict.ruling, verdict.exit_code) == (Ruling.CORRECT, 0)
    assert len(verdict.as_dict()["not_shown"]) == 1
