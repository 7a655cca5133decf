"""Rules that follow from the GPU: constraints, and the setting that variants are compared with."""

from __future__ import annotations

import pytest
from mistakes import coded

from lab.api.executing import planned_variants
from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.machine import FACTS, depends, facts_of, on
from lab.experiment.space import expand
from lab.hardware.gpus import ARCHITECTURES

SOURCE = """import triton
import triton.language as tl

@triton.jit
def rows(out, n, STAGES: tl.constexpr):
    pass
"""
PLAIN = """source: k.cu
problem: {n: 1000}
arguments: {out: "out float32[n]"}
grid: ceil_div(n, 256)
block: 256
reference: {out: zeros(n)}
"""
TRITON = """source: rows.py:rows
problem: {n: 1000}
arguments: {out: "out float32[n]", n: int32}
grid: n
reference: {out: zeros(n)}
"""
TEMPLATE = """question: Why?
operator: gemm
problem: {m: 64, n: 32, k: 16}
kernels:
  - template: gemm/sgemm.cu.j2
    parameters: {stages: [2, 3, 4]}
    constraints: [stages == (4 if block_shared_bytes > 200000 else 2)]
"""
RULE = "4 if block_shared_bytes > 200000 else 2"
SWEPT = "parameters: {STAGES: [1, 2, 3, 4]}\n"
RULED = f"constraints: [STAGES == ({RULE})]\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "rows.py").write_text(SOURCE)
    (tmp_path / "k.cu").write_text("__global__ void k(float* out) { out[0] = STAGES; }")
    (tmp_path / "two.cu").write_text("__global__ void k(float* out) { out[0] = sm_blocks; }")

    def read(text):
        return from_text(text, tmp_path / "e.yaml")

    return read


def chosen(experiment, name="STAGES"):
    return [point.parameters[name] for point in expand(experiment).points]


def test_facts_are_the_architectures():
    assert facts_of("sm_90") == {
        "block_shared_bytes": 227 * 1024,
        "sm_shared_bytes": 228 * 1024,
        "sm_registers": 65536,
        "sm_threads": 2048,
        "sm_blocks": 32,
    }
    for arch in ARCHITECTURES:
        facts = facts_of(arch)
        assert facts.keys() == FACTS.keys()
        assert facts["block_shared_bytes"] <= facts["sm_shared_bytes"]
    with pytest.raises(UserError, check=coded("unknown-name", key="arch", found="sm_10")):
        facts_of("sm_10")


@pytest.mark.parametrize(("arch", "stages"), [("sm_80", 2), ("sm_86", 2), ("sm_90", 4), ("sm_90a", 4), ("sm_100", 4)])
@pytest.mark.parametrize("text", [PLAIN + SWEPT + RULED, TRITON + SWEPT + RULED], ids=["plain", "triton"])
def test_a_constraint_picks_the_value_for_the_gpu(read, text, arch, stages):
    assert chosen(on(read(text), [arch])) == [stages]


def test_templates_have_rules_too(read):
    experiment = read(TEMPLATE)
    assert depends(experiment)
    assert chosen(on(experiment, ["sm_90"]), "stages") == [4]
    assert chosen(on(experiment, ["sm_86"]), "stages") == [2]


def test_the_setting_that_others_are_compared_with_follows_a_rule(read):
    experiment = read(f"{TRITON}{SWEPT}baseline: {{STAGES: {RULE}}}\n")
    assert experiment.baseline == {}
    assert on(experiment, ["sm_90"]).baseline == {"STAGES": 4}
    settled = on(experiment, ["sm_80"])
    assert settled.baseline == {"STAGES": 2}
    assert not depends(settled)
    assert chosen(settled) == [1, 2, 3, 4]


def test_what_names_no_fact_is_left_as_it_is(read):
    experiment = read(f"{PLAIN}{SWEPT}constraints: [STAGES < 3]\nbaseline: {{STAGES: 2}}\n")
    assert not depends(experiment)
    assert on(experiment, ["no such"]) is experiment


def test_a_parameter_hides_a_fact_of_its_name(read):
    text = PLAIN.replace("k.cu", "two.cu")
    experiment = read(f"{text}parameters: {{sm_blocks: [1, 2]}}\nconstraints: [sm_blocks == 2]\n")
    assert not depends(experiment)
    assert chosen(experiment, "sm_blocks") == [2]


def test_architectures_that_differ_in_a_named_fact_are_refused(read):
    experiment = read(f"archs: [sm_80, sm_90]\n{TRITON}{SWEPT}{RULED}")
    with pytest.raises(
        UserError, check=coded("conflict", key="archs", found="166912 on sm_80, 232448 on sm_90", line=1)
    ) as raised:
        on(experiment, ["sm_80", "sm_90"])
    assert (raised.value.key, raised.value.at.line) == ("archs", 1)
    assert raised.value.found == "166912 on sm_80, 232448 on sm_90"
    assert chosen(on(experiment, ["sm_90", "sm_100"])) == [4]


def test_a_rule_must_give_a_value_that_some_variant_has(read):
    experiment = read(f"{PLAIN}{SWEPT}baseline: {{STAGES: 5 if sm_blocks > 16 else 2}}\n")
    with pytest.raises(UserError, check=coded("nothing-left", key="baseline.STAGES", found=5, line=8)) as raised:
        on(experiment, ["sm_90"])
    assert (raised.value.key, raised.value.found, raised.value.accepted) == ("baseline.STAGES", 5, (1, 2, 3, 4))


def test_mistakes_in_a_rule_are_found_when_the_file_is_read(read):
    with pytest.raises(
        UserError, check=coded("unknown-name", key="baseline.STAGES", found="4 if sm_blocks > smem else 2", line=8)
    ):
        read(f"{PLAIN}{SWEPT}baseline: {{STAGES: 4 if sm_blocks > smem else 2}}\n")
    with pytest.raises(UserError, check=coded("nothing-left", key="baseline.STAGES", found="four if", line=8)):
        read(f"{PLAIN}{SWEPT}baseline: {{STAGES: four if}}\n")
    with pytest.raises(
        UserError, check=coded("unknown-name", key="constraints[0]", found="sm_shared > 0", line=8)
    ) as raised:
        read(f"{PLAIN}{SWEPT}constraints: [sm_shared > 0]\n")
    assert "sm_shared_bytes" in str(raised.value)


def test_what_executes_on_the_cpu_settles_rules_for_its_architecture(read):
    planned = planned_variants(read(PLAIN + SWEPT + RULED))
    assert [one.point.parameters["STAGES"] for one in planned] == [4]
