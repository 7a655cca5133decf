"""Stand-ins for packages that a Triton function's file imports and this Python lacks.

A file of a collection imports torch, the collection's own helpers and decorators around a function that needs none of
them. A stand-in may be named, called and used as a decorator, which returns the function as it was. Its value is not
known, so whatever needs one (an addition, a comparison, a loop) fails and names the package.

The worker loads this file by its path: it runs where `lab` may not be installed, and imports nothing but Python's own.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

_NOT_KNOWN = (
    *("bool", "int", "float", "index", "len", "iter", "next", "contains", "lt", "le", "gt", "ge"),
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "lshift", "rshift", "and", "xor"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rlshift", "rrshift", "rand", "rxor"),
)
_REEXPORTED = {
    "triton": "triton",
    "tl": "triton.language",
    "libdevice": "triton.language.extra.libdevice",
    "tl_extra_shim": "triton.language.extra.libdevice",
    "math": "triton.language.math",
}
"""Names under which packages hand on Triton's own modules: `from vllm.triton_utils import tl`."""

_RETOLD = ("triton_helpers", "triton_lang_extension")
"""Modules of device functions that `helpers.py` has under the same names."""


_OTHER_MAKERS = re.compile(r"hip|amd|rocm|xpu|intel|npu|mps|musa|ascend", re.IGNORECASE)
"""In the names of conditions that do not hold on NVIDIA's GPUs."""


class AbsentError(Exception):
    """A file needs a value that only a package could give that this Python lacks."""


class Absent:
    """Anything of a package that this Python lacks.

    Attributes:
        _lab_name: What it stands for, as Python would write it: `torch.cuda.device`.
        _lab_facts: What is known of such packages, by name.
    """

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self._lab_name, self._lab_facts = name, facts

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - anything that a package has
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"{self._lab_name}.{name}")
        whole = f"{self._lab_name}.{name}"
        return self._lab_facts[whole] if whole in self._lab_facts else Absent(whole, self._lab_facts)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - likewise
        """Return the function that this decorates; of any other call, a value that is not known."""
        if len(arguments) == 1 and not options and _is_decorated(arguments[0]):
            return arguments[0]
        return Absent(f"{self._lab_name}(…)", self._lab_facts)

    def __getitem__(self, key: object) -> Absent:
        return Absent(f"{self._lab_name}[…]", self._lab_facts)

    def __or__(self, other: object) -> Absent:
        """Return a type of annotations: `torch.Tensor | None`."""
        return self

    __ror__ = __or__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        """Return no base, so that a class of the user's may be derived from this."""
        return ()

    def __eq__(self, other: object) -> bool:
        """Compare names, as annotations do; the result of a comparison with a value is not known."""
        if isinstance(other, bool | int | float | str | bytes | tuple | list):
            raise AbsentError(_unknown(self))
        return isinstance(other, Absent) and other._lab_name == self._lab_name

    def __hash__(self) -> int:
        return hash(self._lab_name)

    def __repr__(self) -> str:
        return self._lab_name


def _unknown(value: Absent) -> str:
    package = repr(value).partition(".")[0].partition("(")[0]
    return f"the value of {value!r} is not known: this Python lacks {package}"


def _refusing(operation: str) -> Callable[..., Any]:
    def refuse(self: Absent, *_: object) -> Any:  # noqa: ANN401 - never returns
        raise AbsentError(_unknown(self))

    refuse.__name__ = operation
    return refuse


for _operation in _NOT_KNOWN:
    setattr(Absent, f"__{_operation}__", _refusing(f"__{_operation}__"))


def _is_decorated(value: Any) -> bool:  # noqa: ANN401 - anything
    return not isinstance(value, Absent) and (
        isinstance(value, types.FunctionType | type | staticmethod | classmethod) or hasattr(value, "arg_names")
    )


def facts(capability: int) -> dict[str, Any]:
    """Return what is known of torch where code is compiled for NVIDIA's GPUs.

    Args:
        capability: Of the target, as 90.
    """
    return {
        "torch.version.hip": None,
        "torch.version.xpu": None,
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.get_device_capability": lambda *_: divmod(capability, 10),
        "torch.xpu.is_available": lambda: False,
        "torch.backends.mps.is_available": lambda: False,
    }


class Statements:
    """Runs the statements of a module one by one, as an import does, and mends those that fail.

    Attributes:
        notes: What was mended or passed over, a line each.
    """

    def __init__(
        self, module: types.ModuleType, file: str, known: Mapping[str, Any], helpers: Callable[[], Any] | None = None
    ) -> None:
        """Prepare.

        Args:
            module: Where the statements' names go.
            file: The file's path.
            known: Facts of packages: `facts`.
            helpers: Returns the module of device functions that stand for other packages' own.
        """
        self.notes: list[str] = []
        self.first: BaseException | None = None
        self._module, self._file, self._facts, self._helpers = module, file, known, helpers
        self._futures: list[ast.stmt] = []
        self._text: bytes = b""

    def run(self, text: bytes) -> None:
        """Run a file.

        Raises:
            SyntaxError: It is not Python.
        """
        tree = ast.parse(text, self._file)
        self._futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
        try:
            self._run_all(tree.body)
        except SystemExit as error:
            self.first = self.first or error
            self._note(None, error)

    def _run_all(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if statement not in self._futures:
                self._run(statement)

    def _run(self, statement: ast.stmt) -> None:
        try:
            if isinstance(statement, ast.If):
                self._run_all(statement.body if self._holds(statement) else statement.orelse)
                return
            self._execute(statement)
        except Exception as error:  # noqa: BLE001 - the user's file may raise anything
            self.first = self.first or error
            if not self._mended(statement, error):
                self._note(statement, error)

    def _holds(self, statement: ast.If) -> bool:
        """Return whether a condition holds; one that asks an absent package holds unless it names another maker."""
        test = compile(ast.Expression(statement.test), self._file, "eval", dont_inherit=True)
        try:
            return bool(eval(test, vars(self._module)))  # noqa: S307 - as an import does
        except AbsentError as error:
            holds = not _OTHER_MAKERS.search(ast.unparse(statement.test))
            self._note(statement, error, f"the condition is taken as {str(holds).lower()}")
            return holds

    def _execute(self, statement: ast.stmt) -> None:
        part = ast.Module([*self._futures, statement], [])
        exec(compile(part, self._file, "exec", dont_inherit=True), vars(self._module))  # noqa: S102 - as an import does

    def _mended(self, statement: ast.stmt, error: Exception) -> bool:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement, error)
        elif isinstance(statement, ast.Try) and isinstance(error, ImportError):
            self._run_all(statement.body)
        elif isinstance(statement, ast.FunctionDef) and (inner := _from_jit(statement)):
            bare = ast.FunctionDef(**{**dict(ast.iter_fields(statement)), "decorator_list": inner})
            try:
                self._execute(ast.copy_location(bare, statement))
            except Exception:  # noqa: BLE001 - as above
                return False
            self._note(statement, error, "decorated by jit alone")
        else:
            return False
        return True

    def _import(self, statement: ast.Import | ast.ImportFrom, error: Exception) -> None:
        """Import what can be had of a statement; stand-ins take the place of the rest."""
        lacking = []
        for one in statement.names:
            if isinstance(statement, ast.Import):
                bound, whole = one.asname or one.name.partition(".")[0], one.asname and one.name
                value = self._module_or_none(one.name, whole=bool(whole))
                name = whole or bound
            else:
                bound, name = one.asname or one.name, f"{'.' * statement.level}{statement.module or ''}.{one.name}"
                value = self._member_or_none(statement, one)
            if one.name == "*":
                continue
            if value is None:
                value = self._stand_in(one.name, name)
                lacking.append(name if isinstance(value, Absent) else f"{name} ({value.__name__})")
            setattr(self._module, bound, value)
        self._note(statement, error, f"stand-ins for {', '.join(lacking)}" if lacking else "passed over")

    @staticmethod
    def _module_or_none(name: str, *, whole: bool) -> Any:  # noqa: ANN401 - a module
        try:
            module = importlib.import_module(name)
        except Exception:  # noqa: BLE001 - the module may raise anything
            return None
        return module if whole else sys.modules[name.partition(".")[0]]

    def _member_or_none(self, statement: ast.ImportFrom, one: ast.alias) -> Any:  # noqa: ANN401 - anything
        single = ast.ImportFrom(statement.module, [one], statement.level)
        try:
            self._execute(ast.fix_missing_locations(ast.copy_location(single, statement)))
        except Exception:  # noqa: BLE001 - as above
            return None
        return vars(self._module).get(one.asname or one.name)

    def _stand_in(self, last: str, name: str) -> Any:  # noqa: ANN401 - a module or a stand-in
        if name in self._facts:
            return self._facts[name]
        if last in _REEXPORTED:
            return importlib.import_module(_REEXPORTED[last])
        if last.rpartition(".")[2] in _RETOLD and self._helpers is not None:
            return self._helpers()
        return Absent(name, self._facts)

    def _note(self, statement: ast.stmt | None, error: BaseException, what: str = "passed over") -> None:
        line = f"({statement.lineno})" if statement is not None else ""
        name = self._file.rpartition("/")[2]
        self.notes.append(f"{name}{line}: {what}: {type(error).__name__}: {error}")


def _from_jit(function: ast.FunctionDef) -> list[ast.expr]:
    """Return a function's decorators from jit on inwards; none where it has none outside of jit."""
    for place, one in enumerate(function.decorator_list):
        called = one.func if isinstance(one, ast.Call) else one
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit" and place:
            return function.decorator_list[place:]
    return []
