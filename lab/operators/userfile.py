"""Python files named explicitly by a user; importing one runs its code (the documented trust boundary)."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from lab.base.errors import Location, UserError
from lab.operators.checked import OperatorFault, guarded


def imported(path: Path, reference: str, at: Location | None, key: str = "operator") -> ModuleType:
    """Import a file once; its name in `sys.modules` is derived from its path.

    Args:
        path: The file.
        reference: The user's name for it, for errors.
        at: Location of that name, for errors.
        key: Its key, for errors; also the kind of file.

    Raises:
        UserError: The file raises an error.
    """
    name = f"lab_user_{key}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - a .py path always has a loader
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        guarded(path, "importing it", spec.loader.exec_module, module)
    except (OperatorFault, UserError) as error:
        del sys.modules[name]
        raise UserError(
            f"the {key} file cannot be imported: {error}", code="unreadable", at=at, key=key, found=reference
        ) from error
    except BaseException:
        del sys.modules[name]
        raise
    return module
