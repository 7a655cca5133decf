"""Compiles one Triton function. It is run as a program, and may run in an environment that has Triton but no `lab`.

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
    """Answer a question; an error of any kind is an answer, too."""
    asked = json.loads(question.read_text(encoding="utf-8"))
    try:
        found = compiled(asked)
    except BaseException as error:  # noqa: BLE001 - the user's file may raise anything, and exit
        # Triton's errors begin with a place and end with the reason; the lines between show the source
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = line_of(error, Path(asked.get("file", "")))
        text = " ".join(dict.fromkeys([*lines[:1], *lines[-1:]] if not line else lines[-1:]))
        found = {"error": f"{type(error).__name__}: {text}".strip(": "), "log": traceback.format_exc(), "line": line}
    answer.write_text(json.dumps(found), encoding="utf-8")


def line_of(error: BaseException, file: Path) -> int:
    """Return the line of the user's file that one of Triton's errors is about; 0 where it is about none.

    Triton counts lines from the function's `def`. An error within a function that is called is the cause of another
    one at the call, and says more.
    """
    found = 0
    whole: BaseException | None = error
    while whole is not None:
        source, line = getattr(whole, "src", None), getattr(getattr(whole, "node", None), "lineno", None)
        if isinstance(source, str) and isinstance(line, int) and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
            start = text.find(source.strip())
            found = text.count("\n", 0, start) + line if start >= 0 else found
        whole = whole.__cause__
    return found


def compiled(asked: dict[str, Any]) -> dict[str, Any]:
    """Compile the function of a question with Triton; return its PTX and what launches must know."""
    import triton  # noqa: PLC0415 - an error of the import is an answer
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    module = imported(Path(asked["file"]), asked["function"])
    functions = {name: one for name, one in vars(module).items() if isinstance(_inner(one), JITFunction)}
    if asked["function"] not in functions:
        known = ", ".join(functions) or "none"
        return {"error": f"there is no Triton function {asked['function']!r}; the file has {known}", "log": ""}
    function = _inner(functions[asked["function"]])
    given, constants = dict(asked["signature"]), dict(asked["constants"])
    names = list(function.arg_names)
    if wrong := _differences(names, [one.name for one in function.params if one.is_constexpr], given, constants):
        return {"error": wrong, "log": ""}
    general = {one.name for one in function.params if getattr(one, "do_not_specialize", False)}
    unaligned = {one.name for one in function.params if getattr(one, "do_not_specialize_on_alignment", False)}
    absent = [place for place, name in enumerate(given) if name in asked["ones"] and name not in general]
    constants |= {name: 1 for place, name in enumerate(given) if place in absent}
    source = ASTSource(
        function,
        signature={name: "constexpr" if name in constants else given[name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]]
            for name in asked["divisible"]
            if name not in general | unaligned
        },
    )
    options = {key: asked[key] for key in ("num_warps", "num_stages", "num_ctas")}
    _rename_before_assembling()
    made = triton.compile(source, target=GPUTarget("cuda", asked["capability"], 32), options=options)
    return {
        "ptx": without_machine(made.asm["ptx"]),
        "cubin": base64.b64encode(made.asm["cubin"]).decode(),
        "name": made.metadata.name,
        "absent": absent,
        "shared": made.metadata.shared,
        "scratch": getattr(made.metadata, "global_scratch_size", 0),
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
    """Import a file; where that fails, run its statements one by one and pass over those that fail.

    A file that holds the program around its functions imports torch and asks for a device, which need not be here.

    Args:
        file: A Python file.
        function: The name that the module must have; without it, the file's own error is raised.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python file")
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
    futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    for statement in tree.body:
        part = ast.Module([*futures, statement] if statement not in futures else [statement], [])
        try:
            exec(compile(part, str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102 - as an import does
        except Exception as error:  # noqa: BLE001 - the user's file may raise anything
            sys.stdout.write(f"{file.name}({statement.lineno}): passed over: {type(error).__name__}: {error}\n")


def _inner(function: Any) -> Any:  # noqa: ANN401 - anything of the user's module
    """Return what `@triton.autotune` and `@triton.heuristics` wrap."""
    while hasattr(function, "fn") and hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


def _differences(names: list[str], constexprs: list[str], given: dict[str, str], constants: dict[str, Any]) -> str:
    """Say how the arguments differ from the function's; empty where they do not."""
    passed = [name for name in names if name not in constexprs]
    if sorted(constants) != sorted(constexprs):
        return f"the function has the constexpr arguments {constexprs}, and the experiment gives {list(constants)}"
    if list(given) != passed:
        return f"the function takes {passed}, and the experiment passes {list(given)}"
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
