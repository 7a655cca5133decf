from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.base.yamlfile import parse
from lab.templates.front_matter import FrontMatter
from lab.templates.plain.triton import TritonArgument, TritonTemplate, read_functions
from lab.toolchain.triton.source import restored

TEXT = """import triton
import triton.language as tl
from triton import jit

def plain(x):
    pass

@triton.jit
def first(out, x, n: tl.int32, BLOCK: tl.constexpr, MODE: "tl.constexpr" = "sum", SCALE: tl.constexpr = -1.5,
          NONE: tl.constexpr = None, OTHER: tl.constexpr = tl.float32):
    pass

try:
    @triton.autotune(configs=[], key=[])
    @jit(do_not_specialize=["n"])
    def second(x, *, WIDTH: tl.constexpr):
        pass
except ImportError:
    pass
"""


def test_functions_are_read_and_not_run():
    first, second = read_functions(f"{TEXT}raise SystemExit(3)\n", "k.py")
    assert (first.name, first.line, first.passed) == ("first", 9, ("out", "x", "n"))
    assert first.constexprs == {
        "BLOCK": TritonArgument("BLOCK", is_constexpr=True),
        "MODE": TritonArgument("MODE", is_constexpr=True, has_default=True, default="sum"),
        "SCALE": TritonArgument("SCALE", is_constexpr=True, has_default=True, default=-1.5),
        "NONE": TritonArgument("NONE", is_constexpr=True, has_default=True, is_none=True),
        "OTHER": TritonArgument("OTHER", is_constexpr=True, has_default=True),
    }
    assert (second.name, second.passed, list(second.constexprs)) == ("second", ("x",), ["WIDTH"])


@pytest.mark.parametrize(("text", "line"), [("x =", 1), ("\n\n)", 3), ("a\0b", None), ("(" * 10_000, 1)])
def test_what_is_not_python(text, line):
    with pytest.raises(UserError, match="the source is not Python") as caught:
        read_functions(text, "k.py")
    assert caught.value.at.line in (line, None)


def test_a_variant_is_a_request_to_triton():
    declares = FrontMatter(summary="s", operator="declared", entry="first", grid=[1], block=[1], arguments={})
    template = TritonTemplate(
        name="k.py",
        file=Path("k.py"),
        declares=declares,
        document=parse("source: k.py", "k.yaml"),
        roots=(),
        text=TEXT,
        function="first",
        constants=("BLOCK",),
        unset=("NONE",),
    )
    taken = [("out", "float32*"), ("n", "int32")]
    source = restored(template.request("sm_90", {"BLOCK": 64, "num_warps": 8}, taken, ["out"]))
    assert (source.text, source.file, source.function) == (TEXT, "k.py", "first")
    assert (source.signature, source.divisible) == ((("out", "*fp32"), ("n", "i32")), ("out",))
    assert source.constants == (("BLOCK", 64), ("NONE", None))
    assert (source.num_warps, source.num_stages, source.num_ctas) == (8, 3, 1)
    assert (template.kernels, template.kernels_named("first"), template.rendered({})) == ((), (), TEXT)
    with pytest.raises(
        UserError, check=coded("unknown-name", key="arguments.out", found="complex64*", line=1)
    ) as caught:
        template.request("sm_90", {"BLOCK": 64}, [("out", "complex64*")], [])
    assert (caught.value.key, caught.value.found) == ("arguments.out", "complex64*")
