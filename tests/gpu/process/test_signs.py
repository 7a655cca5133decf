from __future__ import annotations

from typing import Any

from lab.gpu.process.messages import Progress
from lab.gpu.process.signs import EVERY_S, SignsOfLife


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def signs() -> tuple[SignsOfLife, list[Any], Clock]:
    messages: list[Any] = []
    clock = Clock()
    return SignsOfLife(messages.append, clock), messages, clock


def test_every_activity_is_announced():
    reporter, messages, _ = signs()
    reporter.begin("inputs", on_host=True)
    reporter.begin("launch")
    reporter.begin("launch")
    assert messages == [
        Progress("inputs", on_host=True),
        Progress("launch", on_host=False),
        Progress("launch", on_host=False),
    ]
    assert reporter.activity == "launch"


def test_the_last_activity_is_repeated_after_a_while():
    reporter, messages, clock = signs()
    reporter.begin("measurement")
    clock.now += EVERY_S / 2
    reporter.alive()
    assert len(messages) == 1
    clock.now += EVERY_S
    reporter.alive()
    reporter.alive()
    assert messages == [Progress("measurement", on_host=False)] * 2


def test_every_launch_of_a_survey_is_announced_but_few_samples():
    reporter, messages, clock = signs()
    for kernel in "ab":
        reporter.begin_with("launch", kernel)
    for kernel in "abab":
        reporter.begin_with("measurement", kernel)
    assert [(message.activity, message.subject) for message in messages] == [
        ("launch", "a"),
        ("launch", "b"),
        ("measurement", "a"),
    ]
    assert reporter.subject == "b"  # the kernel to blame if the next one fails
    clock.now += 2 * EVERY_S
    reporter.begin_with("measurement", "c")
    assert messages[-1] == Progress("measurement", on_host=False, subject="c")
