"""Compile one Triton function, as a program that may run in an environment with Triton but without `lab`.

It gets the path of a JSON file that says what to compile, and the path of the JSON file to write. It imports the user's
file, which runs it.
"""

from __future__ import annotations

import ast
import base64
import functools
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any


def _sibling(name: str) -> Any:  # noqa: ANN401 - a module
    """Return a module beside this one, which need not be in a package that this Python has."""
    spec = importlib.util.spec_from_file_location(f"_lab_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a Python file
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


absent = _sibling("absent")
_helpers = functools.cache(lambda: _sibling("helpers"))

_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"\n]*)"([^\n]*)$', re.MULTILINE)


def main(question: Path, answer: Path) -> None:
    """Compile what the question file asks for and write the answer file; any error is an answer, too."""
    request = json.loads(question.read_text(encoding="utf-8"))
    try:
        result = compiled(request)
    except BaseException as error:  # noqa: BLE001 - the user's file may raise anything, and exit
        # Triton's errors begin with a place and end with the reason; the lines between show the source
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = line_of(error, Path(request.get("file", "")))
        text = " ".join(dict.fromkeys([*lines[:1], *lines[-1:]] if not line else lines[-1:]))
        text += _lacking(request, line)
        result = {"error": f"{type(error).__name__}: {text}".strip(": "), "log": traceback.format_exc(), "line": line}
    answer.write_text(json.dumps(result), encoding="utf-8")


def _lacking(asked: dict[str, Any], line: int) -> str:
    """Say which names in a line of the user's file stand for something that this Python lacks."""
    file = Path(asked.get("file", ""))
    modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == str(file)]
    if not line or not modules:
        return ""
    words = re.findall(r"[A-Za-z_]\w*", file.read_text(encoding="utf-8", errors="replace").splitlines()[line - 1])
    found = {word: value for word in words if isinstance(value := vars(modules[0]).get(word), absent.Absent)}
    return "".join(f"; {one} stands for {value}, which this Python lacks" for one, value in found.items())


def line_of(error: BaseException, file: Path) -> int:
    """Return the line of the user's file that a Triton error refers to; 0 if there is none.

    Triton counts lines from the function's `def`. An error within a function that is called is the cause of another
    one at the call, and says more.
    """
    line_number = 0
    current: BaseException | None = error
    while current is not None:
        source, line = getattr(current, "src", None), getattr(getattr(current, "node", None), "lineno", None)
        if isinstance(source, str) and isinstance(line, int) and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
            start = text.find(source.strip())
            line_number = text.count("\n", 0, start) + line if start >= 0 else line_number
        current = current.__cause__
    return line_number


def compiled(request: dict[str, Any]) -> dict[str, Any]:
    """Compile a question's function with Triton; return its PTX, cubin and launch parameters."""
    import triton  # noqa: PLC0415 - an error of the import is an answer
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    driver.set_active(_Target(GPUTarget("cuda", request["capability"], 32)))
    module = imported(request)
    functions = {name: member for name, member in vars(module).items() if isinstance(_inner(member), JITFunction)}
    if request["function"] not in functions:
        available = ", ".join(functions) or "none"
        return {"error": f"there is no Triton function {request['function']!r}; the file has {available}", "log": ""}
    function = _inner(functions[request["function"]])
    signature, constants = dict(request["signature"]), {name: _value(value) for name, value in request["constants"]}
    tuples, names = dict(request["tuples"]), list(function.arg_names)
    constants |= {
        param.name: _plain(param.default)
        for param in function.params
        if param.is_constexpr and param.name not in constants and param.has_default
    }
    passed = _passed(list(signature), tuples)
    constexprs = [param.name for param in function.params if param.is_constexpr]
    if wrong := _differences([param for param in names if param not in constants], constexprs, passed, constants):
        return {"error": wrong, "log": ""}
    general = {param.name for param in function.params if getattr(param, "do_not_specialize", False)}
    unaligned = {param.name for param in function.params if getattr(param, "do_not_specialize_on_alignment", False)}
    general |= {member for name in general for member in tuples.get(name, ())}
    unaligned |= {member for name in unaligned for member in tuples.get(name, ())}
    absent_places = [place for place, name in enumerate(signature) if name in request["ones"] and name not in general]
    ones = {name for place, name in enumerate(signature) if place in absent_places}
    keys = {name: (names.index(name),) for name in names}
    keys |= {member: (names.index(name), at) for name, members in tuples.items() for at, member in enumerate(members)}
    kinds = signature | dict.fromkeys(ones, "constexpr") | dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        function,
        signature={name: _kind(name, kinds, tuples) for name in names},
        constexprs={keys[name]: value for name, value in [*constants.items(), *((name, 1) for name in ones)]},
        attrs={
            keys[name]: [["tt.divisibility", 16]] for name in request["divisible"] if name not in general | unaligned
        },
    )
    options = {key: request[key] for key in ("num_warps", "num_stages", "num_ctas")}
    _rename_before_assembling()
    kernel = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=options)
    return {
        "ptx": without_machine(kernel.asm["ptx"]),
        "cubin": base64.b64encode(kernel.asm["cubin"]).decode(),
        "name": kernel.metadata.name,
        "absent": absent_places,
        "shared": kernel.metadata.shared,
        "scratch": getattr(kernel.metadata, "global_scratch_size", 0),
    }


class _Target:
    """Triton's driver as far as files ask for it: it knows the target, and has no device."""

    def __init__(self, target: Any) -> None:  # noqa: ANN401 - Triton's type
        self._target = target

    def get_current_target(self) -> Any:  # noqa: ANN401 - likewise
        """Return what is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the first device's number."""
        return 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - anything that a driver has
        if name.startswith("__"):
            raise AttributeError(name)
        return absent.Absent(f"triton.runtime.driver.active.{name}", {})


def without_machine(ptx: str) -> str:
    """Rename the files of PTX's `.file` table to names that are the same on every machine."""

    def renamed(match: re.Match[str]) -> str:
        path = Path(match[2])
        if path.parts[-4:] == ("lab", "toolchain", "triton", "helpers.py"):
            return f'{match[1]}"/lab/triton/helpers.py"{match[3]}'
        _, in_packages, below = match[2].rpartition("/site-packages/")
        return f'{match[1]}"/{below if in_packages else path.name}"{match[3]}'

    return _FILE.sub(renamed, ptx)


def _rename_before_assembling() -> None:
    """Give Triton's ptxas the renamed PTX, since a cubin's line table cannot be changed afterwards."""
    run = subprocess.run

    def renaming(command: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - subprocess's own types
        words = [str(word) for word in command] if isinstance(command, list) else [""]
        if Path(words[0]).name.startswith("ptxas"):
            for file in map(Path, words[1:]):
                if file.suffix == ".ptx" and file.is_file():
                    file.write_text(without_machine(file.read_text(encoding="utf-8")), encoding="utf-8")
        return run(command, *arguments, **options)

    subprocess.run = renaming  # type: ignore[assignment]


def imported(asked: dict[str, Any]) -> Any:  # noqa: ANN401 - a module of the user's
    """Import a file; if that fails, run its statements one by one and skip those that fail.

    A file that is a whole program imports torch and uses a device, which may be missing here.

    Raises:
        Exception: The file's first failure, where the function that is asked for does not come to be.
    """
    file, known = Path(asked["file"]), absent.facts(asked["capability"])
    beside = _Beside(asked["root"], known)
    below = [parent for parent in reversed(file.parents) if parent.is_relative_to(asked["root"])]
    sys.path[:0] = map(str, below)
    sys.meta_path.insert(0, beside)
    name = ".".join(file.relative_to(asked["root"]).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise ImportError(f"{file.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton looks up the globals of a function there
    statements = absent.Statements(module, str(file), known, _helpers)
    statements.run(file.read_bytes())
    beside.notes += statements.notes
    sys.stdout.write("".join(f"{note}\n" for note in beside.notes))
    if not hasattr(module, asked["function"]) and statements.first is not None:
        raise statements.first
    return module


class _Beside(importlib.machinery.SourceFileLoader):
    """Finds and loads the user's modules that were sent with the file, and mends their failures as the file's."""

    def __init__(self, root: str, known: dict[str, Any]) -> None:
        super().__init__("", "")
        self.notes: list[str] = []
        self._root, self._facts = Path(root), known

    def find_spec(self, name: str, path: Any = None, target: object = None) -> Any:  # noqa: ANN401 - as Python's
        """Return how to load a module of the user's; None for any other."""
        del target
        folders = [Path(one) for one in (sys.path if path is None else list(path))]
        for folder in folders:
            if not folder.is_relative_to(self._root):
                continue
            last = name.rpartition(".")[2]
            for file, is_package in ((folder / last / "__init__.py", True), (folder / f"{last}.py", False)):
                if file.is_file():
                    inside = [str(folder / last)] if is_package else None
                    return importlib.util.spec_from_file_location(
                        name, file, loader=self, submodule_search_locations=inside
                    )
        return None

    def create_module(self, spec: object) -> None:
        """Leave it to Python."""

    def exec_module(self, module: Any) -> None:  # noqa: ANN401 - a module
        """Run its statements."""
        file = Path(module.__spec__.origin)
        statements = absent.Statements(module, str(file), self._facts, _helpers)
        statements.run(file.read_bytes())
        self.notes += statements.notes

    def get_source(self, fullname: str) -> str | None:
        """Leave it to the file."""
        del fullname
        return None


def _inner(function: Any) -> Any:  # noqa: ANN401 - anything of the user's module
    """Return the function that `@triton.autotune` and `@triton.heuristics` wrap."""
    while not isinstance(function, absent.Absent) and hasattr(getattr(function, "fn", None), "arg_names"):
        function = function.fn
    return function


def _passed(leaves: list[str], tuples: dict[str, list[str]]) -> list[str]:
    """Return the arguments of a launch: the first member of a tuple stands for the whole."""
    whole = {member: name for name, members in tuples.items() for member in members}
    return list(dict.fromkeys(whole.get(name, name) for name in leaves))


def _kind(name: str, kinds: dict[str, str], tuples: dict[str, list[str]]) -> Any:  # noqa: ANN401 - Triton's nested types
    return tuple(kinds[member] for member in tuples[name]) if name in tuples else kinds[name]


def _plain(default: Any) -> Any:  # noqa: ANN401 - any default
    """Return a default without the wrapping of `tl.constexpr`."""
    return getattr(default, "value", default) if type(default).__name__ == "constexpr" else default


def _value(value: Any) -> Any:  # noqa: ANN401 - any constant
    """Return what a constant's text stands for: `tl.float32` for a type, `(2, 4)` for a tuple."""
    if not isinstance(value, str):
        return value
    if match := re.fullmatch(r"(?:tl|triton\.language)\.(\w+)", value):
        import triton.language  # noqa: PLC0415 - as above

        return getattr(triton.language, match[1])
    if value.startswith("("):
        try:
            found = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return value
        return found if isinstance(found, tuple) else value
    return value


def _differences(names: list[str], constexprs: list[str], signature: list[str], constants: dict[str, Any]) -> str:
    """Describe how the arguments differ from the function's; empty if they do not."""
    if lacking := [name for name in constexprs if name not in constants]:
        return f"the function has the constexpr arguments {constexprs}, and the experiment gives no {lacking}"
    passed = [name for name in names if name not in constexprs]
    if signature != passed:
        return f"the function takes {passed}, and the experiment passes {signature}"
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
