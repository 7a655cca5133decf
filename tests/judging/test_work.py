import pytest
from judged import RIGHT, SUM, request_in, task_in
from mistakes import coded

from lab.base.errors import UserError
from lab.judging.faults import Ruling
from lab.judging.work import baseline_time, examine, prepare, try_candidate


def request_for(folder, text=RIGHT, **changes):
    return request_in(task_in(folder, **changes), "kernel.cu", text, 3)


def test_a_correct_kernel_has_resources_a_time_and_coverage(tmp_path):
    request = request_for(tmp_path)
    assert prepare(request) is None
    examination = examine(request)
    assert examination.faults == ()
    assert examination.resources["registers"] > 0
    assert examination.time.least_us <= examination.time.likely_us <= examination.time.most_us
    assert examination.time.gpu == "H200"
    assert examination.coverage["compared"] > 0


def test_advice_has_the_line_of_the_source(tmp_path):
    source = RIGHT.replace("a[i]", "a[(long long)i * 16 % n]")
    points = examine(request_for(tmp_path, source, reference="{c: take(a, 16 * arange(n) % n) + b}")).advice
    assert any(point.line.startswith("candidate.cu:3") for point in points)


@pytest.mark.parametrize(
    ("old", "new", "ruling", "check"),
    [
        ("a[i] + b[i]", "a[i] - b[i]", Ruling.WRONG, "small size"),
        ("i < n", "i <= n", Ruling.UNSAFE, "small size"),
        ("i < n", "i < n - 1", Ruling.WRONG, "small size"),
        ("c[i] =", "((float *)a)[i] = 1, c[i] =", Ruling.UNSAFE, "small size"),
        ("i < n", "i < n && n < 5000", Ruling.WRONG, "at the problem's own size"),
    ],
)
def test_faults_of_the_pipeline_decide(tmp_path, old, new, ruling, check):
    faults = examine(request_for(tmp_path, RIGHT.replace(old, new))).faults
    assert (faults[0].ruling, faults[0].check) == (ruling, check)
    assert faults[0].seed == 3


def sum_request(folder, condition, problem):
    source = f"""__global__ void total(float *total, const float *x, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(total, {condition} ? 0.0f : x[i]);
    }}"""
    file = task_in(folder, SUM, problem=problem, emulate="{n: 700}", grid='"ceil_div(n, 128)"', block="128")
    return request_in(file, "kernel.cu", source, 3)


def test_sums_are_compared_at_larger_sizes(tmp_path):
    """Values of atomic sums are not compared for sampled blocks, so a branch that only large sizes take is open."""
    faults = examine(sum_request(tmp_path, "n > 5000", "{n: 20_000}")).faults
    assert [(fault.ruling, fault.check) for fault in faults] == [(Ruling.WRONG, "large sizes")]
    assert examine(sum_request(tmp_path, "false", "{n: 20_000}")).faults == ()


def test_a_size_that_nothing_reaches_is_not_judged(tmp_path):
    faults = examine(sum_request(tmp_path, "n > 1900000000", "{n: 2_000_000_000}")).faults
    assert [(fault.ruling, fault.check) for fault in faults] == [(Ruling.NOT_JUDGED, "large sizes")]


def test_a_rejected_candidate_is_a_value(tmp_path):
    assert prepare(request_for(tmp_path, "int main() {}")).ruling is Ruling.WRONG


def test_a_task_that_cannot_tell_constants_is_not_judged(tmp_path):
    request = request_for(
        tmp_path,
        RIGHT.replace("a[i] + b[i]", "0"),
        tolerance="{c: {relative: 0, absolute: 1e6}}",
        policy="{precision: any}",
    )
    faults = try_candidate(request).faults
    assert [(fault.ruling, fault.check) for fault in faults] == [(Ruling.NOT_JUDGED, "input dependence")]


def test_the_baseline_has_a_time(tmp_path):
    (tmp_path / "base.cu").write_text(RIGHT)
    file = task_in(tmp_path, baseline="{source: base.cu}")
    assert baseline_time(request_in(file, "k.cu", RIGHT, 3)).likely_us > 0
    assert baseline_time(request_for(tmp_path, baseline="{ms: 0.5}")) is None


@pytest.mark.parametrize(("text", "code"), [(None, "missing-file"), ("__global__ void add(int n) {}", "mismatch")])
def test_a_baseline_that_does_not_fit_is_a_mistake_of_the_task(tmp_path, text, code):
    if text:
        (tmp_path / "base.cu").write_text(text)
    with pytest.raises(UserError, check=coded(code, key="baseline.source")):
        baseline_time(request_for(tmp_path, baseline="{source: base.cu}"))
