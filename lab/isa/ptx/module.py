"""The PTX reader: text to the instruction model. It is hand-written because generated parsers are far slower.

It reads the output of nvcc 11 to 13, NVRTC, clang and Triton, and hand-written PTX in inline assembly. It checks the
structure (statements, scopes, labels) but not the semantics: it also reads code that ptxas rejects for its types.

Names declared in a nested scope ``{ }`` may repeat, so the reader gives each of them a unique name: ``p`` of the
function's first nested scope becomes ``p$1``, and ``%r<3>`` becomes ``%r$1$<3>``; labels likewise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lab.base.collecting import uncollected
from lab.isa.model import Function, Module, Variable
from lab.isa.ptx.body import BodyReader
from lab.isa.ptx.ptx_text import IDENTIFIER, Cursor, OperandReader, PtxText
from lab.isa.ptx.variables import SPACES, read_declaration, read_parameters, read_words

_DIRECTIVE = re.compile(r"\s*+\.([A-Za-z_]\w*+)", re.ASCII)
_VERSION = re.compile(r"\s*+(\d{1,4}\.\d{1,4})", re.ASCII)
_TARGET = re.compile(r"\s*+(\w++)(?>(?:\s*+,\s*+\w++)*)", re.ASCII)
_NAME = re.compile(rf"\s*+({IDENTIFIER})", re.ASCII)
_SEMICOLON = re.compile(r"\s*+;", re.ASCII)
_SECTION = re.compile(r"\s*+[\w.$]++\s*+\{[^{}]*+\}", re.ASCII)
_PRAGMA = re.compile(r'\s*+"[^"]*+"(?>(?:\s*+,\s*+"[^"]*+")*)\s*+;?+', re.ASCII)
_NUMBERS = re.compile(r"\s*+(?>(\w++(?>(?:\s*+,\s*+\w++)*))?)", re.ASCII)
_PARENTHESES = re.compile(r"\s*+\((?>(?:[^();]|\([^();]*+\))*)\)", re.ASCII)
_ALIAS = re.compile(rf"\s*+{IDENTIFIER}\s*+,\s*+{IDENTIFIER}\s*+;", re.ASCII)
_FILE = re.compile(r'\s*+(\d{1,9})\s*+"([^"]*+)"(?:\s*+"[^"]*+")?(?>(?:\s*+,\s*+\d++)*)', re.ASCII)
_FILES = re.compile(r'^[ \t]*+\.file[ \t]++(\d{1,9})[ \t]++"([^"\n]*+)"', re.ASCII | re.MULTILINE)
_OPEN = re.compile(r"\s*+\{", re.ASCII)

_THREE_DIMENSIONS = {"maxntid", "reqntid", "reqnctapercluster"}


def read_ptx(text: str, file: str = "<ptx>", watch: Callable[[Callable[[], int]], None] | None = None) -> Module:
    """Read a PTX module.

    Functions that are only declared (``.extern .func``) are omitted.

    Args:
        text: The listing.
        file: Its name, for messages.
        watch: Receives a function that returns the current line. Any thread may call it.

    Raises:
        ReaderError: The text is not PTX or is cut off, or a statement cannot be read.
    """
    with uncollected():
        reader = _ModuleReader(PtxText(text, file))
        if watch is not None:
            watch(reader.line)
        return reader.read()


class _ModuleReader:
    """A single pass over a module."""

    def __init__(self, source: PtxText) -> None:
        self._cursor = Cursor(source)
        self._operands = OperandReader()
        self._version, self._target = "", ""
        self._variables: list[Variable] = []
        self._functions: list[Function] = []
        # Line tables follow the code that refers to them.
        self._files = {int(match[1]): match[2] for match in _FILES.finditer(source.text)}

    def line(self) -> int:
        return self._cursor.source.line(self._cursor.position)

    def read(self) -> Module:
        cursor = self._cursor
        while cursor.skip_blanks():
            start = cursor.position
            linkage = read_words(cursor)
            before = cursor.position
            word = cursor.need(_DIRECTIVE, "a directive")[1]
            if not self._version and word != "version":
                cursor.position = start
                cursor.fail("this is not PTX: it must begin with .version")
            if word in {"func", "entry"}:
                self._read_function(entry=word == "entry")
            elif word in SPACES:
                cursor.position = before
                self._variables += read_declaration(cursor, linkage)
            else:
                self._read_directive(word, before)
        if not self._version:
            cursor.fail("this is not PTX: it must begin with .version")
        return Module(
            isa="ptx",
            version=self._version,
            target=self._target,
            functions=tuple(self._functions),
            variables=tuple(self._variables),
            files=self._files,
        )

    def _read_directive(self, word: str, start: int) -> None:
        cursor = self._cursor
        if word == "version":
            self._version = cursor.need(_VERSION, "a PTX version such as 8.5")[1]
        elif word == "target":
            self._target = cursor.need(_TARGET, "a target such as sm_90")[1]
        elif word == "address_size":
            cursor.need(_NUMBERS, "an address size")
        elif word == "file":
            match = cursor.need(_FILE, "a file number and a name")
            self._files[int(match[1])] = match[2]
        elif word == "section":
            cursor.need(_SECTION, "a section in braces")
        elif word == "pragma":
            cursor.need(_PRAGMA, "a string")
        elif word == "alias":
            cursor.need(_ALIAS, "two names and ';'")
        else:
            cursor.position = start
            cursor.fail("unknown directive")

    def _read_function(self, *, entry: bool) -> None:
        cursor = self._cursor
        results = None if entry else read_parameters(cursor, entry=False)
        name = cursor.need(_NAME, "the function's name")[1]
        parameters = read_parameters(cursor, entry=entry)
        directives = self._read_function_directives()
        if cursor.take(_SEMICOLON):
            return
        cursor.need(_OPEN, "'{' or ';' after the function's head")
        function = BodyReader(cursor, self._operands, self._files, {*_names(parameters), *_names(results)}).read()
        self._functions.append(
            replace(
                function,
                name=name,
                entry=entry,
                parameters=parameters or (),
                results=results or (),
                directives=directives,
            )
        )

    def _read_function_directives(self) -> dict[str, tuple[int, ...]]:
        """Read directives such as `.maxntid 256, 1, 1`; missing dimensions are 1."""
        cursor = self._cursor
        directives: dict[str, tuple[int, ...]] = {}
        while match := cursor.take(_DIRECTIVE):
            word = match[1]
            if word == "pragma":
                cursor.need(_PRAGMA, "a string")
            elif word == "attribute":
                cursor.need(_PARENTHESES, "an attribute in parentheses")
            else:
                listed = cursor.need(_NUMBERS, "numbers")[1]
                numbers = tuple(cursor.integer(number) for number in listed.split(",")) if listed else ()
                filled = numbers + (1,) * (3 - len(numbers)) if word in _THREE_DIMENSIONS else numbers
                directives[word] = filled
        return directives


def _names(parameters: tuple[Variable, ...] | None) -> set[str]:
    return {parameter.name for parameter in parameters or ()}
