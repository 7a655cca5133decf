import pytest

from lab.judging.faults import Fault, Ruling, decide, ranked


def fault(word):
    return Fault(word, "small size", "because")


@pytest.mark.parametrize(
    ("words", "ruling"),
    [
        ([], Ruling.CORRECT),
        ([Ruling.NOT_JUDGED], Ruling.NOT_JUDGED),
        ([Ruling.NOT_JUDGED, Ruling.WRONG], Ruling.WRONG),
        ([Ruling.WRONG, Ruling.UNSAFE], Ruling.UNSAFE),
        ([Ruling.UNSAFE, Ruling.CHEATING, Ruling.WRONG], Ruling.CHEATING),
    ],
)
def test_the_worst_word_decides(words, ruling):
    faults = [fault(word) for word in words]
    assert decide(faults) is ruling
    assert not faults or ranked(faults)[0].ruling is ruling


def test_each_word_has_an_exit_code_apart_from_those_of_the_caller():
    codes = [word.exit_code for word in Ruling]
    assert codes == [0, 1, 4, 5, 6]
