"""The last finished run of a directory, kept in ``previous/`` by a new run.

It is a directory of its own, with its report: `lab report` and `lab compare` read it like any other. Tuning runs are
kept in the same way.

A run of another experiment is kept in any case, and the new run says so. Asking for another directory would be safer
still, but nothing tells another experiment from one that was edited: `lab.run` and `lab.tune_kernel` give a kernel's
experiment the same name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.base.errors import StoreError
from lab.base.folder import Folder
from lab.store.database import Store
from lab.store.journal import Journal
from lab.store.tuning import TuningStore

FOLDER: Final = "previous"
"""Name of the subdirectory of the last finished run."""

_STAYS: Final = frozenset({FOLDER, "repeat", "input"})  # input: what a mapping of Python's became, for the new run
_JOURNALS: Final = ("run.", "tuning.")
"""Prefixes of the database and lock files, which belong to the new run."""


def keep(store: Store, *, unfinished: bool = False) -> Path | None:
    """Move a directory's finished run to its folder `FOLDER`, replacing the one there.

    An unfinished run, one without records and one that this version cannot read are left alone: they are no last
    finished run.

    Args:
        store: The directory, about to be cleared.
        unfinished: Move an unfinished run, too.

    Returns:
        The folder; None where nothing was moved.
    """
    state = store.state()
    if not state or not (unfinished or state["finished"]):
        return None
    try:
        run, records = store.run(), store.records()
    except StoreError:
        return None
    if not records:
        return None
    target = _emptied(store)
    with Store(target, create=True) as target_store:
        target_store.write_run(run)
        for position, record in enumerate(records):
            target_store.write(record, position)
        target_store.note("state", state)
    _move_files(store, target)
    return target


def keep_tuning(store: TuningStore) -> None:
    """Copy a finished tuning run to the folder `FOLDER` and move its files there; see `keep`."""
    state = store.state()
    if not state or not state["finished"]:
        return
    try:
        facts = store.known_facts()
    except StoreError:
        return
    if facts is None:
        return
    target = _emptied(store)
    store.copy_into(target)
    _move_files(store, target)


def _emptied(store: Journal) -> Path:
    try:
        Folder(store.folder).remove(FOLDER)
        return (Folder(store.folder) / FOLDER).make()
    except OSError as error:
        raise StoreError(f"{store.folder / FOLDER} cannot be replaced: {error.strerror}") from error


def _move_files(store: Journal, target: Path) -> None:
    for path in store.folder.iterdir():
        if path.name not in _STAYS and not path.name.startswith(_JOURNALS):
            path.rename(target / path.name)


def kept(store: Journal) -> Path | None:
    """Return the folder of a directory's last finished run; None if there is none."""
    target = Folder(store.folder) / FOLDER
    return target.path if target.size(store.form.name) is not None else None
