"""The body of a PTX function: statements, nested scopes, labels, branch targets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from lab.isa.classes import classify
from lab.isa.model import Function, Instruction, InstructionClass, SourceLocation, Variable
from lab.isa.ptx.ptx_text import IDENTIFIER, Cursor, OperandReader
from lab.isa.ptx.variables import SPACES, read_declaration, read_words

_STATEMENT = re.compile(
    rf"""[\s;]*+(?:
        ([{{}}])                                                          # 1: a scope begins or ends
      | ({IDENTIFIER})\s*+:(?!:)                                          # 2: label
      | \.([A-Za-z_]\w*+)                                                 # 3: directive
      | (?>(?:@\s*+(!?)\s*+({IDENTIFIER})\s++)?)                             # 4, 5: guard
        ([a-z]\w*+(?>(?:\s*+\.[\w:]++)*))\s*+([^;]*+);                       # 6, 7: opcode, operands
    )""",
    re.ASCII | re.VERBOSE,
)
_BRACE, _LABEL, _DIRECTIVE, _INSTRUCTION = 1, 2, 3, 7

_LOC = re.compile(
    r"\s*+(\d{1,9})\s++(\d{1,9})(?>(?:\s++(\d++))?)"
    rf"(?>(?:\s*+,\s*+function_name\s++{IDENTIFIER}(?>(?:\s*+\+\s*+\d++)?)"
    r"\s*+,\s*+inlined_at\s++(\d{1,9})\s++(\d{1,9})\s++(\d++))?)",
    re.ASCII,
)
_MOST_CALLERS = 100  # limit for cyclic call chains
_PRAGMA = re.compile(r'\s*+"[^"]*+"(?>(?:\s*+,\s*+"[^"]*+")*)\s*+;', re.ASCII)
_NAME_LIST = re.compile(rf"\s*+({IDENTIFIER}(?>(?:\s*+,\s*+{IDENTIFIER})*))\s*+;", re.ASCII)
_PROTOTYPE = re.compile(r"[^;{}]*+;", re.ASCII)
_WORD = re.compile(rf"(?<![\w$%.]){IDENTIFIER}", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)\Z", re.ASCII)


@dataclass
class _Scope:
    """Names declared between a pair of braces."""

    number: int
    parent: _Scope | None
    names: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def rename(self, match: re.Match[str]) -> str:
        """Return the unique name of a register or variable in this scope."""
        name = match[0]
        numbered = _NUMBERED.match(name)
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if numbered and numbered[1] in scope.prefixes:
                prefix, count = scope.prefixes[numbered[1]]
                if len(numbered[2]) < 10 and int(numbered[2]) < count:  # noqa: PLR2004 -- a register number's length
                    return prefix + numbered[2]
            scope = scope.parent
        return name

    def label(self, name: str) -> str | None:
        """Return the unique name of a label in this scope, or None."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


class BodyReader:
    """Parses one function body, after its opening brace."""

    def __init__(self, cursor: Cursor, operands: OperandReader, files: dict[int, str], parameters: set[str]) -> None:
        """Create the reader.

        Args:
            cursor: A cursor after the opening brace.
            operands: The operand reader shared by all functions of a module.
            files: The module's `.file` table.
            parameters: Names declared in the function's signature.
        """
        self._cursor, self._operands, self._files = cursor, operands, files
        self._scope = _Scope(0, None)
        self._scopes = 0
        self._used = set(parameters)
        self._instructions: list[Instruction] = []
        self._branches: list[tuple[int, _Scope, int]] = []  # index, scope, position
        self._labels: dict[str, int] = {}
        self._variables: list[Variable] = []
        self._tables: dict[str, tuple[_Scope, tuple[str, ...], bool, int]] = {}
        self._source: SourceLocation | None = None
        self._sources: dict[tuple[str, str], SourceLocation | None] = {}
        self._callers: tuple[SourceLocation, ...] = ()
        self._frames: dict[tuple[str, ...], tuple[SourceLocation, ...]] = {}  # file, line, column of calls
        self._label: str | None = None  # the label directly before the cursor

    def read(self) -> Function:
        """Read up to the closing brace.

        Returns:
            The function, without its signature.

        Raises:
            ReaderError: A statement cannot be read, or a branch has no known target.
        """
        cursor, text = self._cursor, self._cursor.text
        match_at = _STATEMENT.match
        while True:
            match = match_at(text, cursor.position)
            if match is None:
                cursor.fail("this statement cannot be read")
            kind = match.lastindex
            if kind == _INSTRUCTION:
                self._read_instruction(match)
                cursor.position = match.end()
                self._label = None
            elif kind == _LABEL:
                self._define_label(match)
                cursor.position = match.end()
            elif kind == _DIRECTIVE:
                cursor.position = match.start(_DIRECTIVE) - 1
                self._read_directive(match[_DIRECTIVE])
            else:
                cursor.position = match.end()
                if not self._read_brace(match[_BRACE]):
                    return self._finish()

    def _read_brace(self, brace: str) -> bool:
        """Enter or leave a scope; return False at the end of the function."""
        self._label = None
        if brace == "{":
            self._scopes += 1
            self._scope = _Scope(self._scopes, self._scope)
            return True
        parent = self._scope.parent
        self._scope = parent or self._scope
        return parent is not None

    def _read_instruction(self, match: re.Match[str]) -> None:
        negation, guard, opcode, text = match.group(4, 5, 6, 7)
        operands = self._operands.split(text)
        if operands is None:
            name = " ".join(opcode.split())[:40]
            raise self._cursor.source.error(match.start(6), f"the operands of {name} cannot be read")
        if not opcode.isidentifier() and (" " in opcode or "\n" in opcode or "\t" in opcode):
            opcode = "".join(opcode.split())
        scope = self._scope
        if scope.parent is not None:
            operands = tuple([_WORD.sub(scope.rename, operand) for operand in operands])
            guard = guard and _WORD.sub(scope.rename, guard)
        instructions = self._instructions
        cls = classify("ptx", opcode)
        index = len(instructions)
        if cls is InstructionClass.BRANCH:
            self._branches.append((index, scope, match.start(6)))
        instructions.append(
            Instruction(
                index=index,
                line=self._cursor.source.line(match.start(6)),
                opcode=opcode,
                operands=operands,
                predicate=guard,
                negated=negation == "!",
                cls=cls,
                source=self._source,
                callers=self._callers,
            )
        )

    def _define_label(self, match: re.Match[str]) -> None:
        name, scope = match[_LABEL], self._scope
        if name in scope.labels:
            raise self._cursor.source.error(match.start(_LABEL), f"label {name} is defined twice")
        unique = scope.labels[name] = self._unique(name, scope)
        self._labels[unique] = len(self._instructions)
        self._label = name

    def _unique(self, name: str, scope: _Scope, end: str = "") -> str:
        """Return a name that is unique among the function's registers, variables and labels."""
        unique = f"{name}${scope.number}{end}" if scope.parent is not None else name
        while unique in self._used:
            unique = f"{unique}$"
        self._used.add(unique)
        return unique

    def _read_directive(self, word: str) -> None:
        cursor = self._cursor
        start = cursor.position
        linkage = read_words(cursor)
        if linkage or word in SPACES:
            for variable in read_declaration(cursor, linkage):
                self._declare(variable)
            return
        cursor.position = start + 1 + len(word)
        if word == "loc":
            self._read_location()
        elif word == "pragma":
            cursor.need(_PRAGMA, "a string and ';'")
        elif word in {"branchtargets", "calltargets"} and self._label is not None:
            names = cursor.need(_NAME_LIST, "a list of names and ';'")[1]
            listed = tuple(name.strip() for name in names.split(","))
            unique = self._take_label()
            self._tables[unique] = (self._scope, listed, word == "branchtargets", start)
        elif word == "callprototype" and self._label is not None:
            cursor.need(_PROTOTYPE, "a prototype and ';'")
            self._take_label()
        else:
            cursor.position = start
            cursor.fail("unknown directive")

    def _take_label(self) -> str:
        """Return the label directly before, which names a table, and remove it from the code's labels."""
        unique = self._scope.labels[self._label or ""]
        del self._labels[unique]
        self._label = None
        return unique

    def _read_location(self) -> None:
        match = self._cursor.need(_LOC, "file, line and column")
        self._source = self._location(match[1], match[2])
        self._callers = ()
        if match[4]:  # the call may have been inlined itself, as its own `.loc` said before
            call = self._location(match[4], match[5])
            further = self._frames.get(match.group(4, 5, 6), ())
            self._callers = (call, *further) if call else further
        if len(self._callers) < _MOST_CALLERS:
            self._frames[match[1], match[2], match[3] or "0"] = self._callers

    def _location(self, file: str, line: str) -> SourceLocation | None:
        key = (file, line)
        if key not in self._sources:
            # Compilers give line 0 to code that belongs to no line.
            name = self._files.get(int(file), f"file {int(file)}")
            self._sources[key] = SourceLocation(name, int(line)) if int(line) else None
        return self._sources[key]

    def _declare(self, variable: Variable) -> None:
        scope = self._scope
        if scope.parent is None:
            self._used.add(variable.name)
        elif variable.parameterised:
            unique = self._unique(variable.name, scope, "$")
            scope.prefixes[variable.name] = (unique, variable.count or 0)
            variable = replace(variable, name=unique)
        else:
            unique = scope.names[variable.name] = self._unique(variable.name, scope)
            variable = replace(variable, name=unique)
        self._variables.append(variable)

    def _finish(self) -> Function:
        tables = {name: self._resolve_table(*entry) for name, entry in self._tables.items()}
        for index, scope, position in self._branches:
            self._instructions[index] = self._resolve(self._instructions[index], scope, tables, position)
        return Function(
            name="",
            entry=False,
            instructions=tuple(self._instructions),
            labels=self._labels,
            variables=tuple(self._variables),
            tables=tables,
        )

    def _resolve_table(self, scope: _Scope, names: tuple[str, ...], labels: bool, position: int) -> tuple[str, ...]:
        return tuple(self._label_name(scope, name, position) for name in names) if labels else names

    def _label_name(self, scope: _Scope, name: str, position: int) -> str:
        unique = scope.label(name)
        if unique is None or unique not in self._labels:
            raise self._cursor.source.error(position, f"there is no label {name} in this scope")
        return unique

    def _resolve(
        self, instruction: Instruction, scope: _Scope, tables: dict[str, tuple[str, ...]], position: int
    ) -> Instruction:
        """Return a branch with its targets, and with unique label names among its operands."""
        operation, operands = instruction.opcode.split(".", 1)[0], instruction.operands
        conditional = instruction.predicate is not None
        if operation == "call":
            renamed = tuple(scope.label(operand) or operand for operand in operands)
            return replace(instruction, operands=renamed)
        if operation not in {"bra", "brx"}:
            return replace(instruction, falls_through=conditional)
        if not operands:
            raise self._cursor.source.error(position, f"{instruction.opcode} has no target")
        if operation == "bra":
            name = self._label_name(scope, operands[-1], position)
            targets: tuple[int, ...] = (self._labels[name],)
        else:
            name = scope.label(operands[-1]) or operands[-1]
            if name not in tables:
                raise self._cursor.source.error(position, f"there is no table of branch targets {name}")
            targets = tuple(dict.fromkeys(self._labels[label] for label in tables[name] if label in self._labels))
        return replace(instruction, operands=(*operands[:-1], name), targets=targets, falls_through=conditional)
