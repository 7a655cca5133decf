"""Files shipped with lab: experiments, templates and libraries.

They are beside `lab/` in a clone, and in `lab/shipped/` of an installed package.
"""

from __future__ import annotations

from pathlib import Path

from lab.base.errors import UserError, did_you_mean

_PACKAGE = Path(__file__).parents[1]


def in_clone() -> bool:
    """Return whether lab runs from a clone of its repository, where `pip install -e .` works."""
    return (_PACKAGE.parent / "pyproject.toml").is_file()


def folder(name: str) -> Path:
    """Return a folder shipped with lab: `experiments`, `kernel_src` or `libraries`; it may be absent."""
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def experiment(requested: Path) -> Path:
    """Return the experiment file for a path or for the name of a shipped experiment.

    Raises:
        UserError: No shipped experiment has the name, or several have it.
    """
    if requested.suffix or requested.is_file():
        return requested
    root, name = folder("experiments"), requested.as_posix()
    paths = sorted(root.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    files = {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}
    matches = [name] if name in files else [full for full, path in files.items() if path.stem == name]
    if len(matches) == 1:
        return files[matches[0]]
    if matches:
        raise UserError("several shipped experiments have this name", code="duplicate", found=name, accepted=matches)
    if requested.exists():
        return requested
    near = did_you_mean(name, files) or did_you_mean(name, (path.stem for path in paths))
    accepted = f"a file, or a shipped experiment: {', '.join(files)}"
    raise UserError("unknown experiment", code="unknown-name", found=name, accepted=accepted, suggestion=near)
