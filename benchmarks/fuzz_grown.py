"""Inputs for `fuzz.py` that are grown from a grammar, since mutations of a few texts rarely get past the parser.

Expressions reach for everything that an object of Python's has: attributes, dunder names, calls with huge arguments, on
every kind of value that a template can see. Options put a file name behind every option of the compilers.
"""

from __future__ import annotations

import random
from pathlib import Path

from lab.base.errors import Location
from lab.base.expressions import Scalar, evaluate
from lab.base.functions import FUNCTIONS
from lab.templates import front_matter
from lab.templates.instance import Instance
from lab.templates.values import EinsumFacts, MappingFacts
from lab.toolchain.options import COMPILERS, OPTIONS, PTXAS, TO_PTXAS, accepted

NAMES: dict[str, object] = {
    "number": 4,
    "huge": 2**62,
    "share": 0.5,
    "flag": True,
    "word": "nn",
    "listing": (1, 2, "three"),
    "span": range(1, 9),
    "mapping": MappingFacts("cyclic(width=4, items=4, threads=32)"),
    "einsum": EinsumFacts("mk,kn->mn"),
    # what is no value of the language has none
    "module": random,
    "function": evaluate,
    "path": Path("/etc/passwd"),
    "kind": type,
    "nothing": None,
}
DUNDERS = (
    "__class__", "__mro__", "__subclasses__", "__init__", "__globals__", "__builtins__", "__dict__", "__code__",
    "__reduce__", "__getattribute__", "__call__", "__self__", "__func__", "__module__", "__slots__", "gi_frame",
    "f_back", "f_globals", "tb_frame", "cr_frame", "mro", "format", "format_map", "join", "encode", "open", "read",
    "system", "popen", "write_text", "unlink", "kind", "facts", "methods", "made", "text", "own", "value", "fact",
)  # fmt: skip
FACTS = tuple(dict.fromkeys(name for one in (MappingFacts, EinsumFacts) for name in (*one.facts, *one.methods)))
ATOMS = (
    *("0", "1", "-1", "3", "1.5", "2**63", "9**99", "10**18", "1e308", "true", "false", "none", "True", "''", "'A'"),
    *("'mk'", "'{0.__class__}'", "'%s' * 99999", "'a' * 10**9", "[1, 2]", "[]", "range(10**12)", "{'a': 1}", "_"),
    "self",
)
JOINTS = (
    "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "==", "in", "not in", "and", "or", "is", "~",
)  # fmt: skip
FILES = (
    "/etc/passwd", "CANARY", "../CANARY", "/var/CANARY", "./x.cu", "~/.bashrc", "file:///etc/passwd", "CANARY,CANARY",
)  # fmt: skip
FOREIGN_OPTIONS = (
    "-ccbin", "-Xcompiler", "-o", "--output-file", "-optf", "--options-file", "-I", "-isystem", "-include", "-L",
    "-l", "--pre-include", "--time", "--create-pch", "--use-pch", "--pch-dir", "--pch", "-keep-dir", "-keep",
    "-Xlinker", "-Xnvlink", "-Xcudafe", "-Xnvvm", "-odir", "-MF", "-MD", "--run", "-run-args", "-dlink", "--fatbin",
    "-ptx", "@", "--fdevice-time-trace", "-fdevice-time-trace", "--log-file", "--split-compile",
    "--input-drive-prefix", "-lib", "-t",
)  # fmt: skip
MOST_DEPTH = 5


def expression(rng: random.Random, depth: int = 0) -> str:  # noqa: PLR0911 - one for each shape
    """Grow an expression."""
    shape = rng.randrange(10) if depth < MOST_DEPTH else 0
    if shape <= 1:
        return rng.choice((*NAMES, *ATOMS))
    inner = expression(rng, depth + 1)
    if shape <= 3:  # noqa: PLR2004 - shapes are numbered as they stand here
        return f"{inner}.{rng.choice(DUNDERS if rng.random() < 0.5 else FACTS)}"  # noqa: PLR2004 - evenly
    if shape <= 5:  # noqa: PLR2004
        given = [expression(rng, depth + 2) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        given = [rng.choice(("", "", "vector=", "also=", "row=", "*", "**")) + one for one in given]
        called = rng.choice(tuple(FUNCTIONS)) if rng.random() < 0.4 else inner  # noqa: PLR2004
        return f"{called}({', '.join(given)})"
    if shape == 6:  # noqa: PLR2004
        return f"{inner}[{rng.choice((expression(rng, depth + 1), '0', '-1', ':', '::-1', '0:10**9', 'huge'))}]"
    if shape == 7:  # noqa: PLR2004
        return f"({inner} if {expression(rng, depth + 1)} else {expression(rng, depth + 1)})"
    if shape == 8:  # noqa: PLR2004
        return f"[{inner}, {expression(rng, depth + 1)}]"
    return f"({inner} {rng.choice(JOINTS)} {expression(rng, depth + 1)})"


def read_expression(content: bytes, folder: Path) -> object:
    """Evaluate an expression with every kind of value in reach; what comes out is a plain one."""
    value = evaluate(content.decode(), NAMES, at=Location(folder), key="constraints")
    if type(value) not in {bool, int, float, str}:
        raise AssertionError(f"an expression yields {type(value)}")
    return value


PROBLEM: dict[str, Scalar] = {"m": 64, "n": 64, "k": 64, "dtype": "float32", "layout": "nn"}
TEMPLATE = """{{#---
summary: s
operator: gemm
entry: k
parameters:
  number: {{type: int, default: 4, help: h}}
  mapping: {{type: mapping, default: "cyclic(width=4, items=4, threads=32)", help: h}}
grid: [1]
block: [32]
arguments: {{m: int32}}
---#}}
{body}
"""
BODIES = (
    "{{{{ {0} }}}}",
    "{{% if {0} %}}x{{% endif %}}",
    "{{% set x = {0} %}}{{{{ x }}}}",
    "{{% for x in {0} %}}{{{{ x }}}}{{% endfor %}}",
    "{{{{ {0} | join }}}}",
    "{{% include {0} %}}",
    "{{% macro f(x) %}}{{{{ {0} }}}}{{% endmacro %}}{{{{ f({0}) }}}}",
)


def template(rng: random.Random) -> str:
    """Grow a template whose body asks for an expression."""
    return TEMPLATE.format(body=rng.choice(BODIES).format(expression(rng)))


def read_template(content: bytes, folder: Path) -> object:
    """Render a template."""
    (folder / "fuzz.cu.j2").write_bytes(content)
    made = front_matter.load("fuzz.cu.j2", (folder,))
    return Instance(made, made.completed({}), PROBLEM).source


def options(rng: random.Random) -> str:
    """An option, mostly with a file name; entries are separated by newlines."""
    known = [name for one in (*OPTIONS, *PTXAS) for name in one.names]
    name = rng.choice((*known, *FOREIGN_OPTIONS))
    file = rng.choice(FILES)
    joined = ("{0}={1}", "{0}\n{1}", "{0}{1}", "{0} {1}", "{0}\n\n{1}", "{0}=1,{1}", "{0}\n-o\n{1}", "{1}\n{0}", "{0}")
    text = rng.choice(joined).format(name, file)
    if rng.random() < 0.3:  # noqa: PLR2004 - about a third
        text = f"{rng.choice(TO_PTXAS)}{rng.choice(('=', chr(10), ','))}{text}"
    return text


def read_options(content: bytes, folder: Path) -> object:
    """Check options; of those that pass, none gives a compiler a file name, but as a macro, which is a text."""
    del folder
    given = content.decode().split("\n")
    accepted_options = [accepted(given, compiler) for compiler in COMPILERS]
    for option in {option for one in accepted_options for option in one}:
        if not option.startswith(("-D", "-U", "--define-macro=", "--undefine-macro=")) and any(
            file in option for file in FILES
        ):
            raise AssertionError(f"a compiler gets {option!r}")
    return accepted_options
