"""Factors of products: numbers, whose imaginary parts are fields of their own where elements are complex."""

from __future__ import annotations

from typing import Any, Protocol

from lab.base.elements import PARTS
from lab.base.errors import UserError


class _Scaled(Protocol):
    @property
    def dtype(self) -> str: ...

    @property
    def alpha_imag(self) -> float | None: ...

    @property
    def beta_imag(self) -> float | None: ...


def imaginary_default(known: dict[str, Any]) -> float | None:
    """Return the default of an imaginary part: problems of real elements have none, and keep their identity.

    Args:
        known: The problem's fields so far.
    """
    return 0.0 if known["dtype"] in PARTS else None


def check_imaginary(problem: _Scaled) -> None:
    """Refuse imaginary parts of factors of real elements.

    Raises:
        UserError: It names the field.
    """
    for name, value in (("alpha_imag", problem.alpha_imag), ("beta_imag", problem.beta_imag)):
        if (problem.dtype in PARTS) != (value is not None):
            accepted = "a number" if problem.dtype in PARTS else f"no value with dtype {problem.dtype}"
            raise UserError("wrong value", key=f"problem.{name}", found=value, accepted=accepted)
