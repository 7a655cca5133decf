"""Write GNU's statement expressions as lambdas, which NVRTC takes: `({ T a = x; a * a; })` is `([&]{ … }())`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SKIPPED = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL)
_OPENING = re.compile(r"\((?:[ \t]|\\?\n)*\{")
_CLOSING = re.compile(r"(?:[ \t]|\\?\n)*\)")
_STATEMENT = re.compile(r"(?:if|for|while|do|switch|return|break|continue|goto)\b|[{}]")
_JUMP = re.compile(r"\b(?:return|break|continue|goto)\b")
_COPY = re.compile(
    r"\b(?:__typeof__|__typeof|typeof)\s*\(\s*(?P<value>\w+)\s*\)\s*(?P<name>\w+)"
    r"(?=\s*=\s*(?:(?P=value)|\(\s*(?P=value)\s*\))\s*;)"
)
_BLANKS = re.compile(r"(?:[ \t]|\\?\n)*")


def with_lambdas(text: str) -> str:
    """Replace the statement expressions of a source; lines keep their numbers.

    One that jumps out of itself stays, as no lambda can.
    """
    if not _OPENING.search(text):
        return text
    plain = _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    edits = sorted(edit for match in _OPENING.finditer(plain) for edit in _edits(plain, match))
    pieces, position = list[str](), 0
    for start, end, replacement in edits:
        pieces += [text[position:start], replacement]
        position = end
    changed = "".join([*pieces, text[position:]])
    return _COPY.sub(lambda match: f"auto {match['name']}", changed) if edits else text


def _edits(plain: str, opening: re.Match[str]) -> Iterator[tuple[int, int, str]]:
    """Yield what to replace for one opening: start, end and text; nothing where a list of values is in the braces."""
    depth, ends, first = 0, list[int](), opening.end()
    for at in range(opening.end() - 1, len(plain)):
        depth += (plain[at] in "([{") - (plain[at] in ")]}")
        if depth == 0:
            break
        if depth == 1 and plain[at] == ";":
            ends.append(at)
    else:
        return
    closing = _CLOSING.match(plain, at + 1)
    if not ends or closing is None or _JUMP.search(plain, first, at):
        return
    yield opening.end() - 1, opening.end(), "[&]{"
    last = _BLANKS.match(plain, ends[-2] + 1 if len(ends) > 1 else first)
    start = last.end() if last else first
    is_value = not plain[ends[-1] + 1 : at].replace("\\", "").strip() and not _STATEMENT.match(plain, start)
    if is_value:
        yield start, start, "return "
    yield at, at + 1, "}()"
