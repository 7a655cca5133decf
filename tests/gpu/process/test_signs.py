from __future__ import annotations

from lab.gpu.process.messages import Progress
from lab.gpu.process.signs import EVERY_S, SignsOfLife


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def signs() -> tuple[SignsOfLife, list[object], Clock]:
    said: list[object] = []
    clock = Clock()
    return SignsOfLife(said.append, clock), said, clock


def test_every_activity_is_announced():
    made, said, _ = signs()
    made.begin("inputs", on_host=True)
    made.begin("launch")
    made.begin("launch")
    assert said == [
        Progress("inputs", on_host=True),
        Progress("launch", on_host=False),
        Progress("launch", on_host=False),
    ]
    assert made.activity == "launch"


def test_the_last_activity_is_repeated_after_a_while():
    made, said, clock = signs()
    made.begin("measurement")
    clock.now += EVERY_S / 2
    made.alive()
    assert len(said) == 1
    clock.now += EVERY_S
    made.alive()
    made.alive()
    assert said == [Progress("measurement", on_host=False)] * 2


def test_every_launch_of_a_survey_is_announced_but_few_samples():
    made, said, clock = signs()
    for kernel in "ab":
        made.begin_with("launch", kernel)
    for kernel in "abab":
        made.begin_with("measurement", kernel)
    assert [(one.activity, one.subject) for one in said] == [("launch", "a"), ("launch", "b"), ("measurement", "a")]
    assert made.subject == "b"  # the kernel to blame if the next one fails
    clock.now += 2 * EVERY_S
    made.begin_with("measurement", "c")
    assert said[-1] == Progress("measurement", on_host=False, subject="c")
