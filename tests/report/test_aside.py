from __future__ import annotations

import operator
import os
from concurrent.futures import Future

import pytest

from lab.base.executor import ProcessExecutor
from lab.report.aside import HERE, Crew


class Counting:
    """An executor that counts what it was given and not asked for yet; carries calls out at once."""

    workers = 2

    def __init__(self):
        self.begun = 0

    def submit(self, function, *args, timeout_s):
        self.begun += 1
        promised = Future()
        try:
            promised.set_result(function(*args))
        except ZeroDivisionError as error:
            promised.set_exception(error)
        return promised


CALLS = [(operator.mul, number, 2) for number in range(40)]


@pytest.mark.parametrize("aside", [HERE, Crew(Counting())])
def test_results_come_in_the_order_of_the_calls(aside):
    assert list(aside.each(CALLS)) == aside.begin(CALLS)() == [2 * number for number in range(40)]
    assert list(aside.each(())) == aside.begin(())() == []


def test_few_results_are_ahead_of_what_was_taken():
    executor = Counting()
    results = Crew(executor).each(CALLS)
    for taken in range(1, 30):
        next(results)
        assert executor.begun <= taken + 2 * executor.workers


def test_nothing_is_begun_before_its_result_is_asked_for():
    done = []
    results = HERE.each([(done.append, 1), (done.append, 2)])
    assert done == []
    next(results)
    assert done == [1]


@pytest.mark.parametrize("aside", [HERE, Crew(Counting())])
def test_the_first_error_is_raised(aside):
    with pytest.raises(ZeroDivisionError):
        aside.begin([(operator.add, 1, 1), (operator.truediv, 1, 0)])()
    with pytest.raises(ZeroDivisionError):
        list(aside.each([(operator.truediv, 1, 0)]))


def test_a_crew_of_processes_works_elsewhere():
    with ProcessExecutor(1) as executor:
        assert Crew(executor).begin([(os.getpid,)])() != [os.getpid()]
