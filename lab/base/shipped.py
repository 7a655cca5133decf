"""The files that come with lab: experiments, templates and libraries.

They lie beside `lab/` in a clone, and in `lab/shipped/` of an installed package.
"""

from __future__ import annotations

from pathlib import Path

from lab.base.errors import UserError, did_you_mean

_PACKAGE = Path(__file__).parents[1]


def in_clone() -> bool:
    """Return whether lab runs from a clone of its repository, where `pip install -e .` works."""
    return (_PACKAGE.parent / "pyproject.toml").is_file()


def folder(name: str) -> Path:
    """Return a folder that comes with lab: `experiments`, `kernel_src` or `libraries`; it may be absent."""
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def experiment(named: Path) -> Path:
    """Return the file that a command names: a path as it is, or the shipped experiment of that name.

    Raises:
        UserError: No shipped experiment has the name, or several have it.
    """
    if named.suffix or named.is_file():
        return named
    root, name = folder("experiments"), named.as_posix()
    paths = sorted(root.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    files = {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}
    same = [name] if name in files else [full for full, path in files.items() if path.stem == name]
    if len(same) == 1:
        return files[same[0]]
    if same:
        raise UserError("several shipped experiments have this name", code="duplicate", found=name, accepted=same)
    if named.exists():
        return named
    near = did_you_mean(name, files) or did_you_mean(name, (path.stem for path in paths))
    accepted = f"a file, or a shipped experiment: {', '.join(files)}"
    raise UserError("unknown experiment", code="unknown-name", found=name, accepted=accepted, suggestion=near)
