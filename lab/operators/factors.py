"""The scaling factors α and β; imaginary parts are separate fields, for complex elements only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from lab.base.elements import PARTS
from lab.base.errors import UserError

_NEUTRAL: Final[Mapping[str, tuple[float, float, float]]] = MappingProxyType(
    {
        "alpha": (1.0, 0.75, 2.0),
        "beta": (0.0, -0.5, -1.0),
        "alpha_imag": (0.0, 0.25, 0.0),
        "beta_imag": (0.0, 0.125, 0.0),
    }
)
"""Each factor's neutral value, a non-neutral value and a non-neutral integer."""


class _Scaled(Protocol):
    @property
    def dtype(self) -> str: ...

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def alpha_imag(self) -> float | None: ...

    @property
    def beta_imag(self) -> float | None: ...


def imaginary_default(fields: dict[str, Any]) -> float | None:
    """Return the default imaginary part: 0 for complex elements, None for real ones, which keep their identity.

    Args:
        fields: The problem's fields so far.
    """
    return 0.0 if fields["dtype"] in PARTS else None


def check_imaginary(problem: _Scaled) -> None:
    """Reject imaginary parts of factors where elements are real.

    Raises:
        UserError: It names the field.
    """
    for name, value in (("alpha_imag", problem.alpha_imag), ("beta_imag", problem.beta_imag)):
        if (problem.dtype in PARTS) != (value is not None):
            accepted = "a number" if problem.dtype in PARTS else f"no value with dtype {problem.dtype}"
            raise UserError("wrong value", code="wrong-value", key=f"problem.{name}", found=value, accepted=accepted)


def other_factors(problem: _Scaled, *, integers: bool = False) -> dict[str, float]:
    """Return a non-neutral value for each neutral factor: α = 1 and β = 0 hide that a kernel ignores them.

    Args:
        problem: The problem.
        integers: Return integers.
    """
    values = {name: getattr(problem, name) for name in _NEUTRAL}
    return {
        name: _NEUTRAL[name][2 if integers else 1]
        for name, value in values.items()
        if value is not None and value == _NEUTRAL[name][0]
    }
