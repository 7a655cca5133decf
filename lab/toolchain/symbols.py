"""Resolve a kernel's C++ name to its symbol in the machine code.

C++ mangles names, and a template has machine code only for the arguments it is instantiated with. A request therefore
lists its kernels as expressions: `add`, `ns::add<float, 128>`. NVRTC takes such expressions itself. For nvcc, one
variable for each expression is appended to the source. Its initialiser makes nvcc instantiate the template and
resolve the overload, and names the symbol in the PTX, from which the variables are then removed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import CompileError, did_you_mean
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.toolchain.base import CompileRequest

NAME_MAP = "__nv_name_map"
"""The file name in NVRTC's messages about kernel expressions; `with_references` uses the same name."""

_LONGEST = 1000
_EXPRESSION = re.compile(r"[\w\s:<>,()*&+\-/%!|^~.'=?]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]", re.ASCII)
_VARIABLE = "lab_symbol_of_kernel_"
_ENTRY = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.entry\s+[\w$]+\s*(?:\([^()]*\))?[^{};]*;[ \t]*\n", re.MULTILINE
)
_INITIALISED = re.compile(
    rf"^[ \t]*(?:\.(?:visible|weak)\s+)*\.global\s[^\n;]*\b{_VARIABLE}(\d+)\s*=\s*(?:generic\()?([\w$]+)\)?;[ \t]*\n",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak)\s+)*\.const\s+(?:\.align\s+\d+\s+)?\.[busf](\d+)\s+([\w$]+)((?:\[\d+\])*)\s*[;=]",
    re.MULTILINE,
)
_GLOBL = re.compile(rf"^[ \t]*//[ \t]*\.globl[ \t]+\w*{_VARIABLE}\w*[ \t]*\n", re.MULTILINE)
_ERROR = re.compile(r"^(\S+?)[(:]\d+\)?:\s*(?:catastrophic |fatal )?error\b[^:]*:\s*(.*)$", re.MULTILINE)


def check_expressions(request: CompileRequest, command: str) -> None:
    """Reject expressions that are more than a name with template arguments.

    Raises:
        CompileError: The first such expression.
    """
    for expression in request.kernels:
        brackets = expression.replace("->", "")
        if (
            len(expression) > _LONGEST
            or "\n" in expression
            or not _EXPRESSION.fullmatch(expression)
            or not _are_balanced(brackets)
        ):
            message = f"not a kernel's name: {expression[:80]!r}; write a name, or a template with its arguments"
            raise CompileError(f"{message}, such as ns::add<float, 128>", "", command)


def from_global_scope(expression: str) -> str:
    """Return an expression whose name is looked up among the file's own names first.

    Without that, `using namespace std;` makes kernels ambiguous that are called `copy`, `fill` or `reduce`.
    """
    return f"::{expression}" if _NAME.match(expression) else expression


def with_references(request: CompileRequest) -> str:
    """Return a request's source with variables appended that refer to its kernels."""
    if not request.kernels:
        return request.source
    lines = [
        f"__device__ const void *{_VARIABLE}{number} = (const void *)({from_global_scope(expression)});"
        for number, expression in enumerate(request.kernels)
    ]
    return "\n".join([request.source, f'#line 1 "{NAME_MAP}"', *lines, ""])


def take_symbols(ptx: str, kernels: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Remove the variables of `with_references` from PTX.

    Args:
        ptx: The compiler's PTX.
        kernels: The request's expressions.

    Returns:
        The PTX without the variables and the declarations of kernels that they needed, and the symbol of each kernel.
    """
    if not kernels:
        return ptx, {}
    symbols = {kernels[int(match[1])]: match[2] for match in _INITIALISED.finditer(ptx)}
    return _GLOBL.sub("", _INITIALISED.sub("", _ENTRY.sub("", ptx))), symbols


def unresolved(request: CompileRequest, log: str, command: str) -> CompileError | None:
    """Explain a log whose only errors are about the kernels' expressions.

    Returns:
        The error, which names the kernels that the source has; None where the source itself is wrong.
    """
    errors = _ERROR.findall(log)
    if not request.kernels or not errors or any(place != NAME_MAP for place, _ in errors):
        return None
    kernels = read_kernels(request.source)
    for expression in request.kernels:
        if explanation := _why(expression, kernels):
            return CompileError(f"{request.name}: {explanation}", log, command)
    message = f"{request.name}: {', '.join(request.kernels)} cannot be resolved: {errors[0][1]}"
    return CompileError(f"{message}; {_listed(kernels)}", log, command)


def missing(request: CompileRequest, symbols: Mapping[str, str], log: str, command: str) -> CompileError | None:
    """Return an error if a compiler gave no symbol for a kernel, else None."""
    lost = [expression for expression in request.kernels if expression not in symbols]
    if not lost:
        return None
    message = f"{request.name}: the compiler made no kernel {lost[0]!r}; {_listed(read_kernels(request.source))}"
    return CompileError(message, log, command)


def _why(expression: str, kernels: Sequence[SourceKernel]) -> str | None:
    """Describe what is wrong with an expression, as far as the source shows."""
    base = _base(expression)
    names = list(dict.fromkeys(kernel.qualified_name for kernel in kernels))
    matching = [kernel for kernel in kernels if kernel.qualified_name == base]
    if not matching:
        near = did_you_mean(base, names) or did_you_mean(base.rpartition("::")[2], names)
        by_last_name = [name for name in names if name.rpartition("::")[2] == base.rpartition("::")[2]]
        suggestion = f"; did you mean {by_last_name[0]!r}?" if by_last_name else f"; {near}" if near else ""
        return f"there is no kernel {base!r}; {_listed(kernels)}{suggestion}"
    if "<" not in expression and all(kernel.template for kernel in matching):
        return f"the kernel {base!r} is a template; give it arguments: {matching[0].title}"
    if len(matching) > 1 and len({kernel.signature for kernel in matching}) > 1:
        overloads = ", ".join(f"{kernel.title}{kernel.signature}" for kernel in matching)
        return f"the kernel {base!r} is ambiguous: {overloads}; give them different names"
    return None


def plain_name(symbol: str) -> str:
    """Return the C++ name that a symbol was mangled from, without template arguments: `ns::add` of `_ZN2ns3addEPf`.

    Any other symbol is returned as it is. Only the parts of the Itanium C++ ABI that names need are supported.
    """
    match = re.match(r"_Z(N?)", symbol)
    if match is None:
        return symbol
    names: list[str] = []
    position = match.end()
    while length := re.compile(r"L?(\d+)").match(symbol, position):  # L: internal linkage
        position = length.end() + int(length[1])
        names.append(symbol[length.end() : position])
        if not match[1]:
            break
    return "::".join(name for name in names if not name.startswith(("_GLOBAL__N", "_INTERNAL_"))) or symbol


@dataclass(frozen=True, slots=True)
class ConstantVariable:
    """A variable in constant memory.

    Attributes:
        symbol: Its symbol in the machine code.
        bytes: Its size.
    """

    symbol: str
    bytes: int


def constant_variables(ptx: str) -> dict[str, ConstantVariable]:
    """Return the variables of a module in constant memory, by their names in C++ without namespaces."""
    variables = {}
    for width, symbol, extents in _CONSTANT.findall(ptx):
        elements = math.prod(int(extent) for extent in re.findall(r"\d+", extents))
        name = plain_name(symbol).rpartition("::")[2]
        variables[name] = ConstantVariable(symbol, elements * int(width) // 8)
    return variables


def _base(expression: str) -> str:
    return re.sub(r"\s", "", expression.partition("<")[0]).lstrip("&").removeprefix("::")


def _listed(kernels: Sequence[SourceKernel]) -> str:
    titles = list(dict.fromkeys(kernel.title for kernel in kernels))
    if not titles:
        return "no kernel was found in the file"
    return f"the file has {', '.join(titles[:20])}{', …' if len(titles) > 20 else ''}"  # noqa: PLR2004 - one line


def _are_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
