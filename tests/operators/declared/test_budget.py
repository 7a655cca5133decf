"""Limits of an evaluation at chosen elements."""

import numpy as np
import pytest

from lab.base import parser
from lab.operators.declared import budget
from lab.operators.declared.budget import EvaluationBudget, UnrestrictedError, WorkBudgetError
from lab.operators.indexed import PAGE, PagedArray, WholeArray


def paged(size):
    return PagedArray(np.dtype(np.float32), size, lambda number: np.full(PAGE, number, np.float32))


def test_elements_and_products_add_up(monkeypatch):
    monkeypatch.setattr(budget, "_MOST_COMPUTED", 10)
    monkeypatch.setattr(budget, "_MOST_PRODUCTS", 10)
    used = EvaluationBudget()
    used.compute(10)
    used.multiply(10)
    with pytest.raises(WorkBudgetError):
        used.compute(1)
    with pytest.raises(WorkBudgetError):
        used.multiply(1)


def test_pages_that_are_kept_count_once(monkeypatch):
    monkeypatch.setattr(budget, "_MOST_PAGES", 3)
    small, large = paged(3 * PAGE), paged(1 << 40)
    used, column = EvaluationBudget(), np.arange(3) * PAGE
    for _ in range(10):
        used.read(small, column)
    with pytest.raises(WorkBudgetError):
        used.read(large, column)
    again = EvaluationBudget()
    again.read(large, np.arange(PAGE))
    again.read(large, column[:2])
    with pytest.raises(WorkBudgetError):
        again.read(large, column[:1])


def test_arrays_that_are_there_cost_nothing(monkeypatch):
    monkeypatch.setattr(budget, "_MOST_PAGES", 1)
    EvaluationBudget().read(WholeArray(np.zeros(3 * PAGE)), np.arange(3) * PAGE)


def test_parts_are_evaluated_whole_where_they_are_small():
    used = EvaluationBudget()
    used.whole(parser.parse("sin(x)"), 1 << 22, lambda _: (1 << 22,))
    with pytest.raises(UnrestrictedError):
        used.whole(parser.parse("sin(x)"), (1 << 22) + 1, lambda _: (1 << 22,))
    with pytest.raises(UnrestrictedError):
        used.whole(parser.parse("2 * convolve(x, y)"), 1 << 17, lambda _: (1 << 16,))
