import pytest
from judged import RIGHT, request_in, task_in

from lab.judging.case import case_of
from lab.judging.faults import Ruling, decide
from lab.judging.trials import constant_outputs, try_hidden_problems, try_inputs

BODY = "if (i < n) c[i] = a[i] + b[i];"


def case_for(folder, source=RIGHT, seed=3, **changes):
    return case_of(request_in(task_in(folder, **changes), "kernel.cu", source, seed))


def variant(statement):
    return RIGHT.replace(BODY, statement)


def only(faults):
    assert len({(fault.check, fault.ruling) for fault in faults}) == 1, faults
    return faults[0]


def test_a_correct_kernel_depends_on_all_inputs(tmp_path):
    outcome = try_inputs(case_for(tmp_path))
    assert outcome.faults == ()
    assert dict(outcome.dependences[0].on) == {"a": 1.0, "b": 1.0}
    assert (outcome.dependences[0].moved, outcome.deterministic) == (1.0, True)
    assert constant_outputs(outcome) == ()


def test_hidden_problems_begin_with_the_least_sizes_and_follow_the_seed(tmp_path):
    first, again = (try_hidden_problems(case_for(tmp_path)) for _ in range(2))
    assert first == again
    assert first.faults == ()
    assert first.sizes[:2] == ({"n": 1}, {"n": 400})
    assert try_hidden_problems(case_for(tmp_path, seed=4)).sizes != first.sizes


def test_a_size_that_is_computed_alone_is_not_enough(tmp_path):
    fault = only(try_hidden_problems(case_for(tmp_path, variant("if (n >= 300 && i < n) c[i] = a[i] + b[i];"))).faults)
    assert (fault.ruling, fault.check, fault.problem) == (Ruling.WRONG, "hidden problem", {"n": 1})


def test_without_hidden_sizes_the_gap_is_said(tmp_path):
    outcome = try_hidden_problems(case_for(tmp_path, hidden=""))
    assert (len(outcome.sizes), len(outcome.not_shown)) == (3, 1)


LOOSE = {"tolerance": "{c: {relative: 0, absolute: 0.5}}", "reference": "{c: 0.01 * a + 0.01 * b}"}


def test_zeros_do_not_pass_where_the_reference_is_nearly_zero(tmp_path):
    """The tolerance accepts them, but the reference changes with the inputs, and they do not."""
    changes = {
        "arguments": '{c: "out float32[1]", a: "float32[n]", b: "float32[n]", n: int32}',
        "reference": "{c: mean(a)}",
        "tolerance": "{c: {relative: 0, absolute: 0.25}}",
        "policy": "{precision: any}",
        "hidden": "",
    }
    faults = try_inputs(case_for(tmp_path, variant("if (i < 1) c[i] = 0;"), **changes)).faults
    assert decide(faults) is Ruling.CHEATING
    assert "input dependence" in {fault.check for fault in faults}


def test_a_tolerance_that_accepts_constants_is_said(tmp_path):
    outcome = try_inputs(case_for(tmp_path, variant("if (i < n) c[i] = 0;"), **LOOSE))
    assert constant_outputs(outcome) == ("c",)


def test_an_input_within_the_tolerance_need_not_be_read(tmp_path):
    changes = {"reference": "{c: a + 0.01 * b}", "policy": "{precision: any}"}
    source = variant("if (i < n) c[i] = a[i];")
    outcome = try_inputs(case_for(tmp_path, source, tolerance="{c: {relative: 0, absolute: 50}}", **changes))
    assert outcome.faults == ()
    assert outcome.dependences[0].on == {}
    wide = try_inputs(case_for(tmp_path, source, tolerance="{c: {relative: 0, absolute: 0.04}}", **changes))
    assert decide(wide.faults) is not Ruling.CORRECT


def test_values_beyond_the_constants_of_comparisons_are_tried(tmp_path):
    source = variant("if (i < n) c[i] = a[i] > 1000.0f ? 0.0f : a[i] + b[i];")
    fault = only(try_inputs(case_for(tmp_path, source)).faults)
    assert (fault.ruling, fault.check) == (Ruling.WRONG, "extreme values")


def test_results_of_an_earlier_launch_are_cheating(tmp_path):
    source = "__device__ float kept[1 << 20]; __device__ int full;\n" + variant(
        "bool first = !full; __syncthreads(); if (first && i < n) kept[i] = a[i] + b[i]; if (i < n) c[i] = kept[i];"
        "if (i == 0) full = 1;"
    )
    faults = try_inputs(case_for(tmp_path, source, block="512", grid="1", hidden="")).faults
    assert Ruling.CHEATING in {fault.ruling for fault in faults}
    assert [fault.check for fault in faults if fault.ruling is Ruling.CHEATING] == ["second launch"]


def test_allowed_aliases_are_tried(tmp_path):
    aliases = {"policy": "{aliases: [[c, a]]}"}
    assert try_inputs(case_for(tmp_path, **aliases)).faults == ()
    source = variant("if (i < n) { c[i] = 0; c[i] = a[i] + b[i]; }").replace("float *c", "volatile float *c")
    fault = only(try_inputs(case_for(tmp_path, source, **aliases)).faults)
    # A finding of the emulator comes before the comparison of results; both reject the candidate.
    assert fault.check == "aliasing"
    assert fault.ruling in {Ruling.WRONG, Ruling.UNSAFE}, fault.reason


@pytest.mark.parametrize(
    "statement",
    [
        "if (i < n) c[i] = __half2float(__float2half(a[i])) + b[i];",
        "if (i < n) c[i] = __uint_as_float(__float_as_uint(a[i]) & 0xffff0000u) + b[i];",
    ],
)
def test_reduced_precision_does_not_pass_a_wide_tolerance(tmp_path, statement):
    source = "#include <cuda_fp16.h>\n" + variant(statement)
    wide = {"tolerance": "1e-1"}
    fault = only(try_inputs(case_for(tmp_path, source, **wide)).faults)
    assert (fault.ruling, fault.check) == (Ruling.CHEATING, "precision")
    assert try_inputs(case_for(tmp_path, source, policy="{precision: any}", **wide)).faults == ()
    assert try_inputs(case_for(tmp_path, **wide)).faults == ()


ATOMIC = """__global__ void add(float *total, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
"""


def test_the_order_of_atomic_sums_shows(tmp_path):
    from judged import SUM  # noqa: PLC0415

    source = "/* lab\ngrid: ceil_div(n, 128)\nblock: 128\n*/\n" + ATOMIC
    file = task_in(tmp_path, SUM, emulate="{n: 700}")
    outcome = try_inputs(case_of(request_in(file, "kernel.cu", source, 3)))
    assert (outcome.faults, outcome.deterministic) == ((), False)
    file = task_in(tmp_path, SUM, emulate="{n: 700}", policy="{deterministic: true}")
    fault = only(try_inputs(case_of(request_in(file, "kernel.cu", source, 4))).faults)
    assert (fault.ruling, fault.check) == (Ruling.WRONG, "determinism")
