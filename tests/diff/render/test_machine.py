from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

from diff_support import comparison

from lab.diff.gates import check_gates, read_gate
from lab.diff.render.machine import as_json, junit, sarif

RESULT = comparison()
FAILURES = check_gates(RESULT, [read_gate("class>renamed"), read_gate("missing")])


def test_json():
    value = json.loads(json.dumps(as_json(RESULT, FAILURES)))
    assert value["counts"] == {"identical": 1, "changed": 1}
    assert value["failed_gates"][0] == {
        "gate": "class>renamed", "kernel": "scale", "arch": "sm_90", "message": "is changed",
    }  # fmt: skip
    assert value["changes"][0]["cls"] == "changed"


def test_sarif():
    run = json.loads(sarif(RESULT, FAILURES))["runs"][0]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {"gate", "changed", "missing"}
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "kernel.cu"}, "region": {"startLine": 7}}


def test_junit():
    suite = ET.fromstring(junit(RESULT, FAILURES))  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    failed = {case.get("name") for case in suite if case.find("failure") is not None}
    assert failed == {"scale", "missing"}


def test_control_characters_do_not_break_junit():
    odd = replace(RESULT, changes=(replace(RESULT.changes[0], name="a\x01b"),))
    assert ET.fromstring(junit(odd))[0].get("name") == "a?b"  # noqa: S314 - our own
