"""A Triton function with everything that determines its machine code, as the text of a request.

A request's source is the Python file above one comment line that holds the rest. So lines keep their numbers, and the
source travels, and is cached, like any other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lab.base.errors import CompileError
from lab.base.expressions import Scalar
from lab.toolchain.base import CompileRequest

_MARK = "# lab: "

TYPES = {
    "bool": "i1",
    **{f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
}
"""Triton's names of NumPy's types, bfloat16 and FP8. Complex types are not supported."""


@dataclass(frozen=True, slots=True)
class TritonSource:
    """One Triton function and how to compile it.

    Attributes:
        text: The Python file.
        file: Its name without a folder: `softmax.py`.
        function: The function's name.
        signature: Name and Triton type of every argument that is passed at launch, in order: `("x", "*fp32")`.
            Members of tuples stand in their place.
        constants: Name and value of every argument that is a `tl.constexpr`.
        divisible: Arguments that are multiples of 16, such as aligned pointers, which Triton exploits.
        ones: Integers that are 1 in every launch, which Triton treats as constants.
        tuples: Name of every argument that is a tuple, with the names of its members.
        path: Where the file lies below the folder that its imports start from; empty for its name alone.
        included: Path and text of the user's modules that it imports.
        num_warps: Warps per block.
        num_stages: Stages of software pipelines.
        num_ctas: Blocks per cluster.
    """

    text: str
    file: str
    function: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Scalar | None], ...] = ()
    divisible: tuple[str, ...] = ()
    ones: tuple[str, ...] = ()
    tuples: tuple[tuple[str, tuple[str, ...]], ...] = ()
    path: str = ""
    included: tuple[tuple[str, str], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1

    def request(self, arch: str) -> CompileRequest:
        """Return the request that compiles it for an architecture."""
        facts = {
            "function": self.function,
            "signature": self.signature,
            "constants": self.constants,
            "divisible": self.divisible,
            **({"ones": self.ones} if self.ones else {}),
            **({"tuples": self.tuples} if self.tuples else {}),
            **({"path": self.path} if self.path not in ("", self.file) else {}),
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas,
        }
        text = f"{self.text}\n{_MARK}{json.dumps(facts)}"
        return CompileRequest(text, self.file, arch, included=self.included)


def restored(request: CompileRequest) -> TritonSource:
    """Return the source from which a request was made.

    Raises:
        CompileError: The request was not made from a Triton function.
    """
    text, _, tail = request.source.rpartition("\n")
    try:
        facts = json.loads(tail.removeprefix(_MARK))
        return TritonSource(
            text=text,
            file=request.name,
            function=facts["function"],
            signature=tuple((name, kind) for name, kind in facts["signature"]),
            constants=tuple((name, value) for name, value in facts["constants"]),
            divisible=tuple(facts["divisible"]),
            ones=tuple(facts.get("ones", ())),
            tuples=tuple((name, tuple(members)) for name, members in facts.get("tuples", ())),
            path=facts.get("path", ""),
            included=request.included,
            num_warps=facts["num_warps"],
            num_stages=facts["num_stages"],
            num_ctas=facts["num_ctas"],
        )
    except (ValueError, KeyError, TypeError):
        raise CompileError(f"{request.name} is not a Triton function's source", "", "") from None


def triton_type(dtype: str, *, is_array: bool) -> str | None:
    """Return Triton's name of an argument's type, `*fp32` for an array of float32; None if there is none."""
    name = TYPES.get(dtype)
    return None if name is None else f"*{name}" if is_array else name
