import pytest

from lab.emulator.allowance import PER_STEP, Allowance, Budget, Outgrown, work_to_make


def test_each_question_is_asked_once_when_its_work_is_done():
    answered = []

    def ask(name, answer):
        def reply():
            answered.append(name)
            return answer

        return reply

    allowance = Allowance([(10 * PER_STEP, ask("first", False)), (30 * PER_STEP, ask("second", True))])
    allowance.spend(10, 0)
    assert answered == []
    allowance.spend(1, PER_STEP)
    assert answered == ["first"]
    with pytest.raises(Outgrown):
        allowance.spend(20, 0)
    assert answered == ["first", "second"]
    allowance.spend(1000, 0)
    assert answered == ["first", "second"]


def test_much_work_asks_all_questions_at_once():
    allowance = Allowance([(1, lambda: False), (2, lambda: False)])
    allowance.spend(100, 100)
    allowance.spend(100, 100)


def test_a_budget_pays_for_a_piece_of_work_that_is_larger_and_then_for_nothing():
    budget = Budget([(10 * PER_STEP, lambda: True)])
    budget.spend(1000, 0)
    with pytest.raises(Outgrown):
        budget.spend(1, 0)


def test_machine_code_of_more_instructions_takes_longer_to_make():
    none, some, more = (work_to_make(count) for count in (0, 100, 200))
    assert 0 < none < some
    assert more - some == some - none


def test_a_question_is_asked_behind_its_work_and_not_at_it():
    allowance = Allowance([(10 * PER_STEP, lambda: True)])
    allowance.spend(10, 0)
    allowance.spend(0, 0)
    with pytest.raises(Outgrown):
        allowance.spend(1, 0)
