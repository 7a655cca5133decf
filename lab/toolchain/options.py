"""The compiler options that an experiment may set: their names, their values, and the compilers that take them.

Compilers have options that read, write and run files: nvcc's `-ccbin`, NVRTC's `--time=FILE`. So there is a list of
accepted options, not of rejected ones. Accepted options change machine code or messages, and nothing else.
An experiment's options are checked when it is read, and each compiler checks those of a request again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.base.errors import UserError, did_you_mean

NVRTC, NVCC, PTX = "nvrtc", "nvcc", "ptx"
COMPILERS = (NVRTC, NVCC)
"""Compilers by name; `pycuda-nvcc` is `nvcc`. The assembler `ptx` takes few of their options."""

MOST_OPTIONS = 64
MOST_LENGTH = 256
"""Limits on the number of an experiment's options and on the length of each."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values that an option takes.

    Attributes:
        pattern: Regular expression that a value matches as a whole.
        accepted: The same in words.
    """

    pattern: str
    accepted: str


@dataclass(frozen=True, slots=True)
class CompilerOption:
    """One option.

    Attributes:
        names: Its spellings; the first is passed to the compilers if name and value are two entries.
        values: The values that it takes; None for a flag.
        compilers: Compilers that know it.
        glued: Spellings whose value may follow without `=`: `-DNAME=VALUE`.
    """

    names: tuple[str, ...]
    values: Values | None = None
    compilers: tuple[str, ...] = COMPILERS
    glued: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The option as a user may write it: `--maxrregcount=a number from 1 to 255`."""
        if self.values is None:
            return self.names[0]
        return f"{self.names[0]}=({self.values.accepted})"


def _either(*words: str) -> Values:
    return Values("|".join(map(re.escape, words)), " or ".join(words) if len(words) < 3 else ", ".join(words))  # noqa: PLR2004


def _both(name: str) -> tuple[str, str]:
    """Return both spellings of a long name; the compilers accept one dash or two."""
    return f"--{name}", f"-{name}"


_SWITCH = _either("true", "false")
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_NUMBERS = Values(r"\d{1,5}(,\d{1,5}){0,31}", "numbers of messages, separated by commas")
_REGISTERS = Values(r"[1-9]\d?|1\d\d|2[0-4]\d|25[0-5]", "a number from 1 to 255")
# no quotes, $, ;, & or commas: nvcc splits values at commas and runs its tools through a shell
_MACRO = Values(
    rf"{_IDENTIFIER}(=[A-Za-z0-9_.+\-*/%() :]{{0,150}})?",
    "NAME or NAME=VALUE, a value of letters, digits, spaces and _ . + - * / % ( ) :, at most 150 characters",
)
_CACHED = _either("ca", "cg", "cs", "lu", "cv")
_STORED = _either("wb", "cg", "cs", "wt")

OPTIONS = (
    CompilerOption(("--use_fast_math", "-use_fast_math")),
    *(CompilerOption(_both(name), _SWITCH) for name in ("ftz", "prec-div", "prec-sqrt", "fmad")),
    CompilerOption(_both("maxrregcount"), _REGISTERS, (*COMPILERS, PTX)),
    CompilerOption(_both("std"), _either("c++11", "c++14", "c++17", "c++20")),
    CompilerOption(("--define-macro", "-D"), _MACRO, glued=("-D",)),
    CompilerOption(("--undefine-macro", "-U"), Values(_IDENTIFIER, "a macro's name"), glued=("-U",)),
    CompilerOption(_both("extra-device-vectorization")),
    CompilerOption(_both("restrict")),
    CompilerOption(("--generate-line-info", "-lineinfo")),
    CompilerOption(("--device-debug", "-G")),
    CompilerOption(_both("dopt"), _either("on", "off")),
    CompilerOption(("--disable-warnings", "-w")),
    CompilerOption(("--display-error-number", "-err-no")),
    CompilerOption(("--no-display-error-number", "-no-err-no")),
    *(CompilerOption(_both(f"diag-{severity}"), _NUMBERS) for severity in ("suppress", "warn", "error")),
    CompilerOption(("--optimization-info", "-opt-info"), _either("inline")),
    CompilerOption(("--Ofast-compile", "-Ofc"), _either("0", "min", "mid", "max")),
    CompilerOption(("--jump-table-density",), Values(r"\d\d?|10[01]", "a number from 0 to 101")),
    CompilerOption(("--builtin-move-forward", "-builtin-move-forward"), _SWITCH, (NVRTC,)),
    CompilerOption(("--builtin-initializer-list", "-builtin-initializer-list"), _SWITCH, (NVRTC,)),
    CompilerOption(("--device-int128", "-device-int128"), None, (NVRTC,)),
    CompilerOption(("--device-as-default-execution-space", "-default-device"), None, (NVRTC,)),
    CompilerOption(("--expt-relaxed-constexpr", "-expt-relaxed-constexpr"), None, (NVCC,)),
    CompilerOption(("--extended-lambda", "-extended-lambda"), None, (NVCC,)),
    CompilerOption(("-O0", "-O1", "-O2", "-O3"), None, (NVCC,)),
)
"""Options of the compilers."""

PTXAS = (
    CompilerOption(("--verbose", "-v")),
    CompilerOption(("-O0", "-O1", "-O2", "-O3")),
    CompilerOption(("--opt-level",), _either("0", "1", "2", "3")),
    CompilerOption(("--def-load-cache", "-dlcm"), _CACHED),
    CompilerOption(("--def-store-cache", "-dscm"), _STORED),
    CompilerOption(("--force-load-cache", "-flcm"), _CACHED),
    CompilerOption(("--force-store-cache", "-fscm"), _STORED),
    CompilerOption(("--allow-expensive-optimizations",), _SWITCH),
    CompilerOption(("--fmad", "-fmad"), _SWITCH),
    CompilerOption(("--maxrregcount", "-maxrregcount"), _REGISTERS),
    CompilerOption(("--disable-optimizer-constants",)),
    CompilerOption(("--warn-on-spills", "-warn-spills")),
    CompilerOption(("--warn-on-local-memory-usage", "-warn-lmem-usage")),
    CompilerOption(("--warn-on-double-precision-use", "-warn-double-usage")),
    CompilerOption(("--warning-as-error", "-Werror")),
    CompilerOption(("--disable-warnings", "-w")),
    CompilerOption(("--suppress-stack-size-warning", "-suppress-stack-size-warning")),
)
"""Options of ptxas, passed one each with `--ptxas-options=` or `-Xptxas`."""

TO_PTXAS = ("--ptxas-options", "-Xptxas")

_INSTEAD = {
    ("--gpu-architecture", "-arch", "--gpu-code", "-code", "--generate-code", "-gencode"): "use the key archs",
    ("--include-path", "-I", "-isystem", "--system-include", "--pre-include", "-include"): (
        "leave it out: #include finds files in or below the template's folder, and CUDA's headers"
    ),
    ("--relocatable-device-code", "-rdc", "-dc", "--device-c", "-dlto", "--dlink-time-opt"): (
        "leave it out: a variant is one program, which is not linked"
    ),
    ("--output-file", "-o", "-ptx", "-cubin", "--keep", "-keep"): "leave it out: the run directory keeps PTX and SASS",
}
"""Advice on options that a user may expect but that are not accepted."""


def accepted(options: Sequence[str], compiler: str = "") -> tuple[str, ...]:
    """Return the options as passed to compilers, each in one string: `--maxrregcount=32`.

    Args:
        options: As the user wrote them. Name and value may be two entries: `-maxrregcount`, `32`.
        compiler: `nvrtc`, `nvcc`, `pycuda-nvcc` or `ptx`; if empty, the options of all of them are accepted.

    Raises:
        UserError: An option is not accepted; `found` is the option, and the key `options[i]` its index.
    """
    return tuple(text for text, _ in _checked(options, compiler.removeprefix("pycuda-")))


def _checked(options: Sequence[str], compiler: str) -> Iterator[tuple[str, int]]:
    """Yield each option with its index."""
    if len(options) > MOST_OPTIONS:
        raise UserError(
            "there are too many compiler options",
            code="out-of-range",
            key="options",
            found=len(options),
            accepted=f"at most {MOST_OPTIONS}",
        )
    index = 0
    while index < len(options):
        first, last = options[index], index
        option, name, value = _split(first, index, compiler)
        takes = option is None or option.values is not None
        if takes and value is None and index + 1 < len(options):  # name and value are two entries
            last, value = index + 1, options[index + 1]
        key = f"options[{last}]"
        if option is None:
            yield f"{TO_PTXAS[0]}={_for_ptxas(value, key, first)}", index
        elif option.values is None:
            if value is not None:
                raise UserError(
                    "this compiler option takes no value", code="conflict", key=key, found=first, accepted=name
                )
            yield first, index
        else:
            if len(first) > MOST_LENGTH or value is None or not re.fullmatch(option.values.pattern, value, re.ASCII):
                written = first if last == index else f"{first} {value}"
                raise UserError(
                    f"wrong value for the compiler option {name}",
                    code="wrong-value",
                    key=key,
                    found=written,
                    accepted=option.values.accepted,
                )
            yield (first if last == index else f"{option.names[0]}={value}"), index
        index = last + 1


def _split(text: str, place: int, compiler: str) -> tuple[CompilerOption | None, str, str | None]:
    """Return an entry's option (None for ptxas's options), its name and its value.

    Raises:
        UserError: There is no such option, or this compiler does not have it.
    """
    name, equals, value = text.partition("=")
    explicit_value = value if equals else None
    if name in TO_PTXAS:
        return None, name, explicit_value
    for option in OPTIONS:
        if name in option.names:
            return _known(option, name, place, compiler), name, explicit_value
    for option in OPTIONS:
        for spelled in option.glued:
            if text.startswith(spelled) and not text.startswith("--"):
                return _known(option, spelled, place, compiler), spelled, text.removeprefix(spelled)
    known_names = [
        spelling for option in OPTIONS for spelling in option.names if not compiler or compiler in option.compilers
    ]
    instead = next(
        (hint for names, hint in _INSTEAD.items() if name in names or (text.startswith("-I") and "-I" in names)), None
    )
    raise UserError(
        "this compiler option is not accepted",
        code="refused",
        key=f"options[{place}]",
        found=text,
        accepted=[option.shown for option in OPTIONS if not compiler or compiler in option.compilers]
        + [f"{TO_PTXAS[0]}=OPTION"],
        suggestion=instead or did_you_mean(name, [*known_names, *TO_PTXAS]),
    )


def _known(option: CompilerOption, name: str, place: int, compiler: str) -> CompilerOption:
    if compiler and compiler not in option.compilers:
        raise UserError(
            f"{compiler} has no such option",
            code="unknown-name",
            key=f"options[{place}]",
            found=name,
            accepted=f"{name} for {' and '.join(option.compilers)} only",
            suggestion=f"leave it out: {compiler} optimises anyway" if name.startswith("-O") else None,
        )
    return option


def _for_ptxas(text: str | None, key: str, first: str) -> str:
    """Return a checked option of ptxas.

    Raises:
        UserError: It is not accepted.
    """
    name, equals, value = (text or "").partition("=")
    for option in PTXAS:
        if name in option.names:
            takes = option.values
            if takes is None and not equals:
                return name
            if takes is not None and re.fullmatch(takes.pattern, value, re.ASCII):
                return f"{name}={value}"
            raise UserError(
                f"wrong value for ptxas's option {name}",
                code="wrong-value",
                key=key,
                found=text,
                accepted=takes.accepted if takes else f"{name} without a value",
            )
    raise UserError(
        "this option of ptxas is not accepted",
        code="refused",
        key=key,
        found=first if text is None else text,
        accepted=[option.shown for option in PTXAS],
        suggestion=did_you_mean(name, [spelling for option in PTXAS for spelling in option.names]) if name else None,
    )
