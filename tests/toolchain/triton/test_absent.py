from __future__ import annotations

import types

import pytest

from lab.toolchain.triton import absent
from lab.toolchain.triton.absent import Absent, AbsentError, Statements


def ran(text, **names):
    module = types.ModuleType("program")
    vars(module).update(names)
    statements = Statements(module, "/somewhere/program.py", absent.facts(90))
    statements.run(text.encode())
    return module, statements


def test_a_decorator_of_an_absent_package_passes_the_function_by():
    module, statements = ran("from gems import libentry\n@libentry()\n@libentry\ndef f(x):\n    return x + 1\n")
    assert module.f(1) == 2
    assert [note.split(": ")[:2] for note in statements.notes] == [["program.py(1)", "stand-ins for gems.libentry"]]


def test_a_class_a_with_and_an_annotation_of_an_absent_package():
    text = """import torch
import torch.nn.functional as F
from typing import Optional

class Module(torch.nn.Module):
    def size(self, x: torch.Tensor | None, y: Optional[torch.Tensor] = None) -> "torch.Tensor":
        return 3

with torch.no_grad():
    done = Module().size(1)
"""
    module, statements = ran(text)
    assert module.done == 3
    assert repr(module.F) == "torch.nn.functional"
    assert len(statements.notes) == 2


@pytest.mark.parametrize(
    "text",
    ["x + 1", "1 - x", "bool(x)", "[*x]", "x == 3", "x < 3", "len(x)", "3 in x", "int(x)", "-x", "range(x)", "f(**x)"],
)
def test_the_value_of_an_absent_package_is_not_known(text):
    with pytest.raises((AbsentError, TypeError)):
        eval(text, {"x": Absent("torch.cuda.count(…)", {}), "f": dict})  # noqa: S307 - the operations stand above


def test_a_value_that_is_asked_for_names_the_package():
    with pytest.raises(AbsentError, match=r"torch\.count is not known: this Python lacks torch"):
        bool(Absent("torch", {}).count)


def test_what_is_known_of_torch():
    text = "import torch\nHIP = torch.version.hip is not None\nNEW = torch.cuda.get_device_capability() >= (9, 0)\n"
    module, _ = ran(text)
    assert (module.HIP, module.NEW) == (False, True)


def test_a_condition_that_is_not_known_holds_unless_it_asks_for_other_makers():
    text = """from utils import compare_version, is_hip
if is_hip():
    kind = "hip"
elif compare_version("triton", "3.0"):
    kind = "new"
else:
    kind = "old"
"""
    module, statements = ran(text)
    assert module.kind == "new"
    assert [note.split(": ")[1] for note in statements.notes[1:]] == [
        "the condition is taken as false",
        "the condition is taken as true",
    ]


def test_a_file_that_copes_with_a_missing_package_does():
    text = """try:
    import no_such_package
    HAS = True
except ImportError:
    HAS = False
try:
    from no_such_package.new import fast
except ImportError:
    from no_such_package.old import fast
"""
    module, _ = ran(text)
    assert module.HAS is False
    assert repr(module.fast) == "no_such_package.new.fast"


def test_decorators_outside_of_jit_are_left_out_where_they_fail():
    text = """def configs():
    raise RuntimeError("no device")

@tune(configs())
@jit
def f(x):
    return x
"""
    module, statements = ran(text, tune=lambda _: None, jit=lambda f: ("jitted", f))
    assert module.f[0] == "jitted"
    assert [note.split(": ", 1)[1] for note in statements.notes] == ["decorated by jit alone: RuntimeError: no device"]


def test_what_is_there_of_an_import_is_taken():
    module, _ = ran("from math import pi, no_such_name\nimport json, no_such_package\n")
    assert module.pi > 3
    assert module.json.loads("3") == 3
    assert repr(module.no_such_name) == "math.no_such_name"


def test_a_program_that_exits_has_what_it_had():
    module, statements = ran("import sys\na = 1\nsys.exit(3)\nb = 2\n")
    assert (module.a, hasattr(module, "b")) == (1, False)
    assert isinstance(statements.first, SystemExit)
