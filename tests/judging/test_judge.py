import json

import pytest
from judged import ADD, RIGHT, SUM, InProcess, judged, task_in
from mistakes import coded

import lab
from lab.base.errors import UserError
from lab.base.executor import WorkerLostError
from lab.judging.faults import Ruling
from lab.judging.judge import JudgeOptions, judge_file, judge_text
from lab.judging.task import load_task


def test_the_same_seed_gives_the_same_verdict(tmp_path):
    wrong = RIGHT.replace("i < n", "i < n && n != 17")
    assert judged(tmp_path, wrong, seed=8).as_json(full=True) == judged(tmp_path, wrong, seed=8).as_json(full=True)


def test_a_seed_is_drawn_and_named(tmp_path):
    options = JudgeOptions(executor=InProcess())
    seeds = {judge_text(load_task(task_in(tmp_path)), "int main() {}", "k.cu", options).seed for _ in range(3)}
    assert len(seeds) == 3


def test_a_command_and_the_api_say_the_same(tmp_path, capfd):
    from lab.cli.main import app  # noqa: PLC0415

    file, source = task_in(tmp_path), tmp_path / "kernel.cu"
    source.write_text(RIGHT.replace("a[i] +", "a[i] *"))
    code = app(["judge", str(file), str(source), "--seed", "4"], standalone_mode=False)
    printed = json.loads(capfd.readouterr().out)
    assert (code, printed["verdict"], printed["seed"]) == (1, "wrong", 4)
    assert lab.judge(file, source, seed=4).as_json() == json.dumps(printed, ensure_ascii=False, separators=(", ", ": "))
    assert lab.judge(file, source.read_text(), seed=4).ruling is Ruling.WRONG


def test_several_kernels_with_scratch_are_taken(tmp_path):
    source = """/* lab
scratch: {partial: "float32[ceil_div(n, 256)]"}
launches:
  - {kernel: sums, grid: "ceil_div(n, 256)", block: 32, arguments: [partial, x, n]}
  - {kernel: total, grid: 1, block: 1, arguments: [total, partial, n]}
*/
__global__ void sums(float *partial, const float *x, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < min(n, blockIdx.x * 256 + 256); i += 32) sum += x[i];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
__global__ void total(float *total, const float *partial, int n) {
    float sum = *total;
    for (int i = 0; i < (n + 255) / 256; ++i) sum += partial[i];
    *total = sum;
}
"""
    verdict = judged(tmp_path, source, SUM)
    assert verdict.ruling is Ruling.CORRECT, verdict.reason
    assert verdict.trials.deterministic


def test_ptx_is_taken(tmp_path):
    from compiling import ptx_of  # noqa: PLC0415 - the compiler takes a moment to load

    assert judged(tmp_path, ptx_of(RIGHT), name="kernel.ptx").ruling is Ruling.CORRECT


class Failing(InProcess):
    """An executor whose second function fails."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def submit(self, function, *args, timeout_s):
        self.calls += 1
        if self.calls > 1:
            function, args = self._fail, ()
        return super().submit(function, *args, timeout_s=timeout_s)

    def _fail(self):
        raise self.error


@pytest.mark.parametrize(
    "error", [TimeoutError("stopped after 1 s"), MemoryError(), WorkerLostError("killed", killed=True), ValueError("x")]
)
def test_whatever_happens_to_a_worker_accepts_nothing(tmp_path, error):
    verdict = judge_text(load_task(task_in(tmp_path)), RIGHT, "k.cu", JudgeOptions(3, Failing(error)))
    assert (verdict.ruling, verdict.exit_code) == (Ruling.NOT_JUDGED, 6)


def test_mistakes_of_the_task_are_not_the_candidates(tmp_path):
    with pytest.raises(UserError, check=coded("syntax", key="reference.c")):
        judged(tmp_path, RIGHT, reference="{c: a + z}")
    with pytest.raises(UserError, check=coded("missing-file")):
        judge_file(task_in(tmp_path), tmp_path / "absent.cu")


def test_a_candidate_that_is_too_large_is_wrong(tmp_path):
    (tmp_path / "kernel.cu").write_text(RIGHT + "// " + "x" * 500)
    verdict = judge_file(task_in(tmp_path, limits="{source_bytes: 300}"), tmp_path / "kernel.cu")
    assert (verdict.ruling, verdict.faults[0].check) == (Ruling.WRONG, "declaration")


def test_a_given_time_is_the_baseline(tmp_path):
    time = judged(tmp_path, RIGHT, ADD, baseline="{ms: 0.5}").as_dict()["time"]
    assert time["baseline_us"] == 500
    assert time["speedup"] > 1
