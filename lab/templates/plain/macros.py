"""Parameters of a plain CUDA source as macros.

Options such as `-D pad=1` would reach the compiler's own headers, too, and break those that use the word. Macros are
therefore defined by lines of the source, which are taken back before an include of the compiler's headers and given
again behind it. (`#pragma push_macro` would be shorter, but NVRTC does not know it.) `#line` keeps the numbers of the
user's lines, and the name of the file, in messages and in line tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.kernels import read_kernels
from lab.isa.cuda.names import KEYWORDS, declared_line, parameter_line, template_line, used_names
from lab.isa.cuda.tokens import TokenKind, tokens
from lab.toolchain import locate
from lab.toolchain.nvrtc.headers import roots

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INCLUDE = re.compile(r'#\s*include\s*(?:(<)|"([^"\n]+)")')
_UNROLL = re.compile(r"#\s*pragma\s+(?:GCC\s+)?unroll\b")
_QUOTED = re.compile(r"""(?:u8|[uUL])?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|R".*")""", re.DOTALL)
_LONGEST_VALUE = 1000


def with_macros(text: str, macros: Mapping[str, Scalar], file: Path | str, own: Collection[str] = ()) -> str:
    """Return a source with macros defined, keeping the original line numbers.

    A parameter whose name is that of a kernel's or its template's parameter is not defined: its value reaches the
    kernel as an argument, or in the kernel's name.

    Args:
        text: CUDA C++.
        macros: Values by name. A boolean becomes 1 or 0, a number is written as it is, and text stands as it is.
        file: The source's file, for messages.
        own: Names of the user's files that it includes, which see the macros.

    Raises:
        UserError: A name or a value cannot be a macro's, or the source defines or declares the name itself.
    """
    chosen = chosen_macros(text, macros, file)
    if not chosen:
        return text
    defined = "".join(f"#define {name} {value}\n" for name, value in chosen.items())
    return f"{defined}#line 1\n{shielded(_unrolled(text, chosen), chosen, own=own)}"


def shielded(
    text: str,
    macros: Mapping[str, str],
    is_cuda_header: Callable[[str], bool] | None = None,
    *,
    own: Collection[str] = (),
) -> str:
    """Return a source whose CUDA header includes are shielded from the macros.

    Args:
        text: CUDA C++.
        macros: Macros and what they stand for.
        is_cuda_header: Whether a name in quotes is one of CUDA's headers. Names in angle brackets always are.
        own: Names of the user's files, which see the macros.
    """
    is_cuda_header = is_cuda_header or _is_cuda_header
    undefined = "".join(f"#undef {name}\n" for name in macros)
    defined = "".join(f"#undef {name}\n#define {name} {value}\n" for name, value in macros.items())
    pieces, position = [], 0
    for token in tokens(text):
        match = _INCLUDE.match(token.text) if token.kind is TokenKind.DIRECTIVE else None
        if match is None or match[2] in own or not (match[1] or is_cuda_header(match[2])):
            continue
        last = token.line + text.count("\n", token.start, token.end)
        pieces += [text[position : token.start], f"\n{undefined}#line {token.line}\n", text[token.start : token.end]]
        pieces.append(f"\n{defined}#line {last + 1}")
        position = token.end
    return "".join([*pieces, text[position:]])


def _unrolled(text: str, macros: Mapping[str, str]) -> str:
    """Expand macros in `#pragma unroll NAME`, since nvcc's preprocessor (gcc) does not."""
    pieces, position = [], 0
    for token in tokens(text):
        if token.kind is TokenKind.DIRECTIVE and _UNROLL.match(token.text):
            line = text[token.start : token.end]
            pieces += [text[position : token.start], _NAME.sub(lambda match: macros.get(match[0], match[0]), line)]
            position = token.end
    return "".join([*pieces, text[position:]])


def unused(text: str, kernel: str, names: Mapping[str, object]) -> list[str]:
    """Return the names mentioned neither in a source nor in its kernel's expression, which have no effect."""
    mentioned = used_names(text) | set(re.findall(r"\w+", kernel))
    return [name for name in names if name not in mentioned]


def chosen_macros(text: str, macros: Mapping[str, Scalar], file: Path | str) -> dict[str, str]:
    """Check macros and return the text of those to define."""
    kernels = read_kernels(text)
    own = {parameter.name for kernel in kernels for parameter in kernel.parameters}
    own |= {parameter.name for kernel in kernels for parameter in kernel.template or ()}
    chosen = {}
    for name, value in macros.items():
        _check_name(name, file)
        value_text = macro_value(name, value, file)
        if name not in own:
            _check_free(text, name, file)
            chosen[name] = value_text
    return chosen


def _check_name(name: str, file: Path | str) -> None:
    if not _NAME.fullmatch(name) or name in KEYWORDS:
        raise UserError(
            f"this cannot be a macro of {Path(file).name}",
            code="unsupported",
            key=f"parameters.{name}",
            found=name,
            accepted="letters, digits and underscores, no digit first, no word of C++",
        )


def macro_value(name: str, value: Scalar, file: Path | str) -> str:
    """Return the text of a macro's value.

    Raises:
        UserError: It is infinite or no number, or would change the lines around it.
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    text = str(value)
    if isinstance(value, float) or not _is_one_line(text):
        raise UserError(
            f"this cannot be a macro's value in {Path(file).name}",
            code="unsupported",
            key=f"parameters.{name}",
            found=text[:80],
            accepted="a finite number, true, false, or one line of C++ without comments",
        )
    return text


def _is_one_line(text: str) -> bool:
    """Return whether a text is one line without comments or unterminated strings."""
    if len(text) > _LONGEST_VALUE or "\n" in text or "\r" in text or text.rstrip().endswith("\\"):
        return False
    position = 0
    for piece in tokens(text):
        if text[position : piece.start].strip() or piece.kind is TokenKind.DIRECTIVE:
            return False
        if piece.kind in (TokenKind.STRING, TokenKind.CHAR) and not _QUOTED.fullmatch(piece.text):
            return False
        position = piece.end
    return not text[position:].strip()


def _check_free(text: str, name: str, file: Path | str) -> None:
    """Check that the source does not define or declare a name itself."""
    for macro in definitions(text):
        if macro.name == name and not macro.guarded:
            raise UserError(
                f"the file defines {name} itself, which would replace the parameter's value",
                code="conflict",
                at=Location(file, macro.line),
                key=f"parameters.{name}",
                found=f"#define {name} {macro.value}".rstrip(),
                accepted=f"a default that a parameter replaces: #ifndef {name}, #define {name} {macro.value}, #endif",
            )
    line = declared_line(text, name)
    if line is not None:
        raise UserError(
            f"the file declares {name} itself, and the parameter of this name would replace the word there",
            code="conflict",
            at=Location(file, line),
            key=f"parameters.{name}",
            found=_line(text, line),
            accepted="a parameter of another name, or a file without this declaration",
        )
    line = template_line(text, name) or parameter_line(text, name)
    if line is not None:
        raise UserError(
            f"{name} is a parameter of a function here, and the experiment's parameter would replace the word",
            code="conflict",
            at=Location(file, line),
            key=f"parameters.{name}",
            found=_line(text, line),
            accepted="a parameter of another name; only kernels and their templates may share names with parameters",
        )


def _line(text: str, line: int) -> str:
    return text.split("\n")[line - 1].strip()[:120]


def _is_cuda_header(name: str) -> bool:
    folder = locate.headers()
    return folder is not None and any((root / name).is_file() for root in roots(folder))
