"""The macros that a CUDA source defines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lab.isa.cuda.tokens import TokenKind, condition_word, live_tokens

_DEFINE = re.compile(r"#\s*define\s+([^\W\d]\w*)(\([^)]*\)?)?[ \t]*(.*)$")
_GUARD = re.compile(r"#\s*(?:ifndef\s+(\w+)|if\s+!\s*defined\s*\(?\s*(\w+))")


@dataclass(frozen=True, slots=True)
class Definition:
    """A macro that a source defines.

    Attributes:
        name: The macro.
        value: Its replacement text; may be empty.
        line: Line of the `#define`, from 1.
        guarded: It is a default inside `#ifndef NAME`, which a macro from outside overrides.
        function_like: It takes arguments.
        parameters: Their names.
    """

    name: str
    value: str
    line: int
    guarded: bool
    function_like: bool
    parameters: tuple[str, ...] = ()


@lru_cache(maxsize=64)  # of the files that one source includes
def definitions(text: str) -> tuple[Definition, ...]:
    """Return the macros that a source defines, in order."""
    macros = []
    guards: list[str] = []
    for token in live_tokens(text):
        if token.kind is not TokenKind.DIRECTIVE:
            continue
        line = uncommented(token.text)
        word = condition_word(line)
        if word.startswith("if"):
            guard = _GUARD.match(line)
            guards.append((guard[1] or guard[2]) if guard else "")
        elif word == "endif" and guards:
            guards.pop()
        elif match := _DEFINE.match(line):
            guarded, parameters = match[1] in guards, tuple(re.findall(r"\w+", match[2] or ""))
            macros.append(Definition(match[1], match[3].strip(), token.line, guarded, match[2] is not None, parameters))
    return tuple(macros)


def uncommented(directive: str) -> str:
    """Return a preprocessor line without comments."""
    return re.sub(r"//[^\n]*|/\*.*?(?:\*/|\Z)", " ", directive, flags=re.DOTALL)
