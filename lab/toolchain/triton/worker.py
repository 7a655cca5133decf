"""Compile one Triton function, as a program that may run in an environment with Triton but without `lab`.

It gets the path of a JSON file that says what to compile, and the path of the JSON file to write. It imports the user's
file, which runs it.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

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
        result = {"error": f"{type(error).__name__}: {text}".strip(": "), "log": traceback.format_exc(), "line": line}
    answer.write_text(json.dumps(result), encoding="utf-8")


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
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    module = imported(Path(request["file"]), request["function"])
    functions = {name: member for name, member in vars(module).items() if isinstance(_inner(member), JITFunction)}
    if request["function"] not in functions:
        available = ", ".join(functions) or "none"
        return {"error": f"there is no Triton function {request['function']!r}; the file has {available}", "log": ""}
    function = _inner(functions[request["function"]])
    signature, constants = dict(request["signature"]), dict(request["constants"])
    names = list(function.arg_names)
    if wrong := _differences(
        names, [param.name for param in function.params if param.is_constexpr], signature, constants
    ):
        return {"error": wrong, "log": ""}
    general = {param.name for param in function.params if getattr(param, "do_not_specialize", False)}
    unaligned = {param.name for param in function.params if getattr(param, "do_not_specialize_on_alignment", False)}
    absent = [place for place, name in enumerate(signature) if name in request["ones"] and name not in general]
    constants |= {name: 1 for place, name in enumerate(signature) if place in absent}
    source = ASTSource(
        function,
        signature={name: "constexpr" if name in constants else signature[name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]]
            for name in request["divisible"]
            if name not in general | unaligned
        },
    )
    options = {key: request[key] for key in ("num_warps", "num_stages", "num_ctas")}
    _rename_before_assembling()
    kernel = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=options)
    return {
        "ptx": without_machine(kernel.asm["ptx"]),
        "cubin": base64.b64encode(kernel.asm["cubin"]).decode(),
        "name": kernel.metadata.name,
        "absent": absent,
        "shared": kernel.metadata.shared,
        "scratch": getattr(kernel.metadata, "global_scratch_size", 0),
    }


def without_machine(ptx: str) -> str:
    """Rename the files of PTX's `.file` table to names that are the same on every machine."""

    def renamed(match: re.Match[str]) -> str:
        path = Path(match[2])
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


def imported(file: Path, function: str) -> Any:  # noqa: ANN401 - a module of the user's
    """Import a file; if that fails, run its statements one by one and skip those that fail.

    A file that is a whole program imports torch and uses a device, which may be missing here.

    Args:
        file: A Python file.
        function: The name that the module must have; without it, the file's own error is raised.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # Triton looks up the globals of a function there
    try:
        spec.loader.exec_module(module)
    except Exception:
        _run_by_parts(module, file)
        if not hasattr(module, function):
            raise
    return module


def _run_by_parts(module: Any, file: Path) -> None:  # noqa: ANN401 - a module of the user's
    tree = ast.parse(file.read_bytes(), str(file))
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    for statement in tree.body:
        statement_module = ast.Module([*futures, statement] if statement not in futures else [statement], [])
        try:
            exec(compile(statement_module, str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102 - as an import does
        except Exception as error:  # noqa: BLE001 - the user's file may raise anything
            sys.stdout.write(f"{file.name}({statement.lineno}): skipped: {type(error).__name__}: {error}\n")


def _inner(function: Any) -> Any:  # noqa: ANN401 - anything of the user's module
    """Return the function that `@triton.autotune` and `@triton.heuristics` wrap."""
    while hasattr(function, "fn") and hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


def _differences(names: list[str], constexprs: list[str], signature: dict[str, str], constants: dict[str, Any]) -> str:
    """Describe how the arguments differ from the function's; empty if they do not."""
    passed = [name for name in names if name not in constexprs]
    if sorted(constants) != sorted(constexprs):
        return f"the function has the constexpr arguments {constexprs}, and the experiment gives {list(constants)}"
    if list(signature) != passed:
        return f"the function takes {passed}, and the experiment passes {list(signature)}"
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
