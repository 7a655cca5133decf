"""Operators by name.

`gemm`, `contraction`, `softmax`, `copy` and `transpose` are built in. An operator of the user's own is a Python file
named explicitly, ``./my_op.py:MyOp``; importing it runs its code, and that is the documented trust boundary. The
operator of a short experiment file, which declares it as text, is named by that text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.base.errors import Location, UserError, did_you_mean
from lab.operators.base import Operator
from lab.operators.contraction import Contraction
from lab.operators.declared.declaration import PREFIX
from lab.operators.declared.operator import declared
from lab.operators.gemm import Gemm
from lab.operators.moves import CopyProblem, Move, TransposeProblem
from lab.operators.softmax import Softmax
from lab.operators.userfile import imported

BUILT_IN: dict[str, Callable[[], Operator[Any]]] = {
    "gemm": Gemm,
    "contraction": Contraction,
    "softmax": Softmax,
    "copy": lambda: Move("copy", CopyProblem),
    "transpose": lambda: Move("transpose", TransposeProblem),
}


def operator(reference: str, base: Path | None = None, *, at: Location | None = None) -> Operator[Any]:
    """Return the operator that an experiment names.

    Args:
        reference: A built-in name, ``path/to/file.py:Class``, or the reference of a declaration.
        base: Folder that a relative path starts from; the current one by default.
        at: Where the reference stands, for errors.

    Raises:
        UserError: There is no such operator, file or class, or the class is not an operator.
    """
    if reference.startswith(PREFIX):
        return declared(reference)
    if ":" in reference or reference.endswith(".py"):
        return _from_file(reference, base or Path.cwd(), at)
    if reference not in BUILT_IN:
        raise UserError(
            "unknown operator",
            at=at,
            key="operator",
            found=reference,
            accepted=[*BUILT_IN, "./file.py:Class"],
            suggestion=did_you_mean(reference, BUILT_IN),
        )
    return BUILT_IN[reference]()


def _from_file(reference: str, base: Path, at: Location | None) -> Operator[Any]:
    path_text, _, class_name = reference.rpartition(":")
    path = (base / path_text).resolve()
    if not path_text.endswith(".py") or not path.is_file() or not class_name.isidentifier():
        raise UserError(
            "no such operator file",
            at=at,
            key="operator",
            found=reference,
            accepted="path/to/file.py:Class, relative to the experiment file",
        )
    module = imported(path, reference, at)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UserError("no such class in the operator file", at=at, key="operator", found=class_name, accepted=classes)
    if not issubclass(found, Operator):
        accepted = "a subclass of lab.operators.base.Operator"
        raise UserError("the class is not an operator", at=at, key="operator", found=reference, accepted=accepted)
    lacking = [name for name in _required() if not hasattr(found, name) or name in found.__abstractmethods__]
    if lacking:
        raise UserError(
            f"the operator lacks {', '.join(lacking)}",
            at=at,
            key="operator",
            found=reference,
            accepted=f"a class with {', '.join(_required())}; see lab/operators/base.py",
        )
    made: Operator[Any] = found()
    return made


def _required() -> list[str]:
    """Attributes and methods that an operator must define."""
    return [*Operator.__annotations__, *(name for name in vars(Operator) if name in Operator.__abstractmethods__)]
