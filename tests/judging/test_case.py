import pytest
from judged import RIGHT, request_in, task_in

from lab.judging.case import RejectedError, case_of
from lab.judging.faults import Ruling


def request_for(folder, text, **changes):
    return request_in(task_in(folder, **changes), "kernel.cu", text, 3)


def test_a_case_holds_the_compiled_candidate(tmp_path):
    case = case_of(request_for(tmp_path, RIGHT))
    assert case.emulated == {"n": 300}
    assert case.launches.steps[0].grid == (3, 1, 1)
    assert case.module.kernels[0].name == case.programs[0].kernel.name
    assert case.excused == frozenset()


def test_auto_is_a_fixed_architecture(tmp_path):
    assert case_of(request_for(tmp_path, RIGHT, arch="auto")).experiment.archs == ("sm_90",)


@pytest.mark.parametrize(
    ("source", "check", "ruling"),
    [
        ("__global__ void add(float *c) { c[0] = d; }", "compile", Ruling.WRONG),
        ('#include "/etc/hostname"\n' + RIGHT, "compile", Ruling.WRONG),
        ('#embed "/etc/hostname"\n' + RIGHT, "compile", Ruling.WRONG),
        ("__global__ void add(float *c, const float *a, int n) { c[0] = a[0]; }", "declaration", Ruling.WRONG),
        ("int main() { return 0; }", "declaration", Ruling.WRONG),
        ("/* lab\nblock: 4096\n*/\n" + RIGHT, "declaration", Ruling.WRONG),
        ("/* lab\ngird: 3\n*/\n" + RIGHT, "declaration", Ruling.WRONG),
        (RIGHT.replace("int i", 'if (n == 3) printf("x"); int i'), "printing", Ruling.UNSAFE),
    ],
)
def test_a_candidate_that_cannot_be_executed_has_a_fault(tmp_path, source, check, ruling):
    with pytest.raises(RejectedError) as caught:
        case_of(request_for(tmp_path, source))
    fault = caught.value.fault
    assert (fault.check, fault.ruling) == (check, ruling), fault.reason


def test_a_task_may_allow_printing(tmp_path):
    source = RIGHT.replace("int i", 'if (n == 3) printf("x"); int i')
    assert case_of(request_for(tmp_path, source, policy="{printing: true}"))
