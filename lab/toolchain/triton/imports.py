"""The user's modules that a Triton function's file imports: read here, and sent with the file to the compiler."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.files import is_below, read_regular
from lab.toolchain.includes import MOST_BYTES, MOST_FILES

_MOST_PARENTS = 8


@dataclass(frozen=True, slots=True)
class GatheredModules:
    """A file among the modules that it imports.

    Attributes:
        path: The file below the folder that its imports start from: `pkg/kernels/softmax.py`.
        texts: Path and text of every other module, likewise.
    """

    path: str
    texts: Mapping[str, str]


def gather_modules(text: str, file: Path, folders: Sequence[Path]) -> GatheredModules:
    """Read the modules that a Python file imports and that lie beside it, in its package, or in other folders.

    A package's `__init__.py` is read only where something is imported from it. Imports that lead elsewhere are left to
    the Python that compiles.

    Args:
        text: The file's text.
        file: The file.
        folders: Where absolute imports may start, where the file lies below, beside its package and its own folder.

    Raises:
        UserError: There are too many, or one cannot be read.
    """
    package = _package_root(file, text)
    above = [folder for folder in folders if is_below(package, [folder])]
    root = min((package, *above), key=lambda one: len(one.resolve().parts))
    inside = file.parent.resolve().relative_to(root.resolve())
    own = root / inside / file.name
    gathering = _Gathering(root, [root, *(root / parent for parent in reversed(inside.parents)), own.parent])
    gathering.read(own, text)
    path = own.relative_to(root).as_posix() if gathering.texts else file.name
    return GatheredModules(path, gathering.texts)


def _package_root(file: Path, text: str) -> Path:
    """Return the folder that a file's absolute imports start from: above its package, or its own."""
    root, levels = file.parent, max((one.level for one in _imports(text) if isinstance(one, ast.ImportFrom)), default=0)
    for _ in range(_MOST_PARENTS):
        if not (root / "__init__.py").is_file() and levels <= 0:
            break
        root, levels = root.parent, levels - 1
    return root


def _imports(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the import itself will say so
    yield from (one for one in ast.walk(tree) if isinstance(one, ast.Import | ast.ImportFrom))


@dataclass
class _Gathering:
    """Follows imports.

    Attributes:
        root: Where paths start; nothing outside of it is read, links followed.
        starts: Where absolute imports start.
        texts: What was read, by path.
    """

    root: Path
    starts: Sequence[Path]
    texts: dict[str, str] = field(default_factory=dict)

    def read(self, own: Path, text: str) -> None:
        """Follow the imports of a file and of those that it names."""
        pending, done = [(own, text)], {own}
        while pending:
            file, content = pending.pop()
            for found in dict.fromkeys(self._named(file, content)):
                if found in done:
                    continue
                done.add(found)
                raw = read_regular(found, MOST_BYTES, "the imported module")
                read = raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
                self.texts[found.relative_to(self.root).as_posix()] = read
                pending.append((found, read))
                if len(self.texts) > MOST_FILES or sum(map(len, self.texts.values())) > MOST_BYTES:
                    accepted = f"at most {MOST_FILES} modules of {MOST_BYTES} bytes together"
                    raise UserError(
                        "the source imports too much of its own tree",
                        code="out-of-range",
                        at=Location(found),
                        accepted=accepted,
                    )

    def _named(self, file: Path, text: str) -> Iterator[Path]:
        """Yield the files that a file's imports name."""
        for one in _imports(text):
            if isinstance(one, ast.Import):
                for alias in one.names:
                    yield from self._module(alias.name, self.starts)
                continue
            starts = [file.parents[one.level - 1]] if 0 < one.level <= len(file.parents) else self.starts
            for alias in one.names:
                inner = ".".join(filter(None, [one.module, alias.name]))
                if found := list(self._module(inner, starts)):
                    yield from found
                elif one.module or one.level:
                    yield from self._module(one.module or "", starts)

    def _module(self, name: str, starts: Sequence[Path]) -> Iterator[Path]:
        """Yield the file of a module, the first that is there."""
        for start in starts:
            base = start.joinpath(*name.split(".")) if name else start
            for file in ([base.with_name(f"{base.name}.py")] if name else []) + [base / "__init__.py"]:
                if file.is_relative_to(self.root) and file.is_file() and is_below(file, [self.root]):
                    yield file
                    return
