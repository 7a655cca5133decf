"""Operators by name.

`gemm`, `contraction`, `softmax`, `copy` and `transpose` are built in. An operator of the user's own is a Python file
named explicitly, ``./my_op.py:MyOp``; importing it runs its code, and that is the documented trust boundary.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from lab.base.errors import Location, UserError, did_you_mean
from lab.operators.base import Operator
from lab.operators.contraction import Contraction
from lab.operators.gemm import Gemm
from lab.operators.moves import Move
from lab.operators.softmax import Softmax

BUILT_IN: dict[str, Callable[[], Operator]] = {
    "gemm": Gemm,
    "contraction": Contraction,
    "softmax": Softmax,
    "copy": lambda: Move("copy", transposes=False),
    "transpose": lambda: Move("transpose", transposes=True),
}


def operator(reference: str, base: Path | None = None, *, at: Location | None = None) -> Operator:
    """The operator that an experiment names.

    Args:
        reference: A built-in name, or ``path/to/file.py:Class``.
        base: Folder that a relative path starts from; the current one by default.
        at: Where the reference stands, for errors.

    Raises:
        UserError: there is no such operator, file or class.
    """
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


def _from_file(reference: str, base: Path, at: Location | None) -> Operator:
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
    name = f"lab_user_operator_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None  # noqa: S101 - a .py path always has a loader
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # the user's code may raise anything
            del sys.modules[name]
            raise UserError(
                f"the operator file cannot be imported: {type(error).__name__}: {error}",
                at=at,
                found=reference,
            ) from error
    if not hasattr(module, class_name):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise UserError("no such class in the operator file", at=at, key="operator", found=class_name, accepted=classes)
    made: Operator = getattr(module, class_name)()
    lacking = [name for name in vars(Operator) if not name.startswith("_") and not hasattr(made, name)]
    if lacking:
        raise UserError(
            f"the operator lacks {', '.join(lacking)}",
            at=at,
            key="operator",
            found=reference,
            accepted="everything that the class Operator in lab/operators/base.py names",
        )
    return made
