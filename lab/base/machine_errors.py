"""Python errors caused by the machine, rather than by the user or lab."""

from __future__ import annotations

import errno
import resource

from lab.base.shipped import in_clone

_OWN = __name__.partition(".")[0]


def fault_of(error: BaseException) -> str:
    """Describe what the machine lacks; return an empty string for other errors."""
    match error:
        case MemoryError():
            return f"there is not enough memory{f': {error}' if str(error) else ''}"
        case ImportError(name=str(name)) if name.partition(".")[0] == _OWN:
            return ""
        case ImportError():
            repair = "`python -m pip install -e .` installs" if in_clone() else "`python -m pip check` names"
            return f"a Python package is missing or damaged: {error}; {repair} it"
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"too many open files: this process may open {soft}; `ulimit -n 1024` allows more"
        case OSError():
            prefix = f"{error.filename}: " if error.filename is not None else ""
            return f"{prefix}{error.strerror or error}"
    return ""
