"""Operators by name.

`gemm`, `contraction`, `softmax`, `masked_softmax`, `softmax_backward`, `layer_norm`, `rms_norm`, `copy` and
`transpose` are built in. An operator of the user's own is a Python file named explicitly, ``./my_op.py:MyOp``;
importing it runs its code, and that is the documented trust boundary. Worker processes call `operator` for such a file;
the main process asks through `lab.operators.foreign`. The operator of a plain kernel's file, which declares it as text,
is named by that text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.base.errors import Location, UserError, did_you_mean
from lab.measured.timing import Merit
from lab.operators.base import Operator, Problem
from lab.operators.checked import Checked, OperatorFault, guarded
from lab.operators.contraction import Contraction
from lab.operators.declared.declaration import PREFIX, Declaration
from lab.operators.declared.operator import declared
from lab.operators.gemm import Gemm
from lab.operators.masked_softmax import MaskedSoftmax
from lab.operators.moves import CopyProblem, Move, TransposeProblem
from lab.operators.norms import LayerNorm, RmsNorm
from lab.operators.softmax import Softmax
from lab.operators.softmax_backward import SoftmaxBackward
from lab.operators.userfile import imported

BUILT_IN: dict[str, Callable[[], Operator[Any]]] = {
    "gemm": Gemm,
    "contraction": Contraction,
    "softmax": Softmax,
    "masked_softmax": MaskedSoftmax,
    "softmax_backward": SoftmaxBackward,
    "layer_norm": LayerNorm,
    "rms_norm": RmsNorm,
    "copy": lambda: Move("copy", CopyProblem),
    "transpose": lambda: Move("transpose", TransposeProblem),
}


def operator(reference: str, base: Path | None = None, *, at: Location | None = None) -> Operator[Any]:
    """Return the operator named by an experiment; a user's file is imported in this process.

    Args:
        reference: A built-in name, ``path/to/file.py:Class``, or the reference of a declaration.
        base: Folder that a relative path starts from; the current one by default.
        at: Location of the reference, for errors.

    Raises:
        UserError: There is no such operator, file or class, or the class is not an operator.
    """
    if reference.startswith(PREFIX):
        return declared(reference)
    if is_file(reference):
        return _from_file(reference, base or Path.cwd(), at)
    if reference not in BUILT_IN:
        raise UserError(
            "unknown operator",
            code="unknown-name",
            at=at,
            key="operator",
            found=reference,
            accepted=[*BUILT_IN, "./file.py:Class"],
            suggestion=did_you_mean(reference, BUILT_IN),
        )
    return BUILT_IN[reference]()


def is_file(reference: str) -> bool:
    """Return whether a reference names a Python file."""
    return not reference.startswith(PREFIX) and (":" in reference or reference.endswith(".py"))


def suspect(reference: str) -> str:
    """Return a clause for crash messages that names the user's Python code the worker ran.

    Args:
        reference: The worker's operator.

    Returns:
        ``; ./my_op.py:MyOp ran there and may have ended it``, or an empty text if no user code runs.
    """
    source = users_python(reference)
    return f"; {source} ran there and may have ended it" if source else ""


def users_python(reference: str) -> str:
    """Return the user's Python function the operator calls, such as ``./ref.py:sums``; empty without one."""
    if reference.startswith(PREFIX):
        return Declaration.restored(reference).function or ""
    return reference if is_file(reference) else ""


def _from_file(reference: str, base: Path, at: Location | None) -> Operator[Any]:
    path_text, _, class_name = reference.rpartition(":")
    path = (base / path_text).resolve()
    if not path_text.endswith(".py") or not path.is_file() or not class_name.isidentifier():
        raise UserError(
            "no such operator file",
            code="missing-file",
            at=at,
            key="operator",
            found=reference,
            accepted="path/to/file.py:Class, relative to the experiment file",
        )
    module = imported(path, reference, at)
    operator_class = getattr(module, class_name, None)
    if not isinstance(operator_class, type):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UserError(
            "no such class in the operator file",
            code="unknown-name",
            at=at,
            key="operator",
            found=class_name,
            accepted=classes,
        )
    if not issubclass(operator_class, Operator):
        accepted = "a subclass of lab.operators.base.Operator"
        raise UserError(
            "the class is not an operator", code="wrong-type", at=at, key="operator", found=reference, accepted=accepted
        )
    lacking = [
        name for name in _required() if not hasattr(operator_class, name) or name in operator_class.__abstractmethods__
    ]
    if lacking:
        raise UserError(
            f"the operator lacks {', '.join(lacking)}",
            code="user-code",
            at=at,
            key="operator",
            found=reference,
            accepted=f"a class with {', '.join(_required())}; see lab/operators/base.py",
        )
    try:
        instance = guarded(path, f"{class_name}()", operator_class)
    except OperatorFault as error:
        raise UserError(str(error), code="user-code", at=at, key="operator", found=reference) from error
    if wrong := _wrong_attribute(instance):
        raise UserError(f"{path}: {class_name} {wrong}", code="user-code", at=at, key="operator", found=reference)
    return Checked(instance, path)


def _wrong_attribute(instance: Operator[Any]) -> str:
    """Describe an operator's first invalid attribute; empty if all are valid."""
    if not isinstance(instance.name, str) or not instance.name:
        return f"has the name {instance.name!r}; expected a non-empty string"
    if not isinstance(instance.merit, Merit):
        return (
            f"has the merit {instance.merit!r}; accepted are {', '.join(map(str, Merit.__members__.values()))} of Merit"
        )
    if not isinstance(instance.problem_type, type) or not issubclass(instance.problem_type, Problem):
        return f"has the problem_type {instance.problem_type!r}; expected a subclass of lab.operators.base.Problem"
    return ""


def _required() -> list[str]:
    """List the attributes and methods an operator must define."""
    return [*Operator.__annotations__, *(name for name in vars(Operator) if name in Operator.__abstractmethods__)]
