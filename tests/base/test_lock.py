from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lab.base.errors import StoreError
from lab.base.lock import HOLDER_NAME, LOCK_NAME, Lock

HOLDS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from lab.base.lock import Lock

Lock(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_second_holder_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    held = Lock(tmp_path / "new" / "folder")
    with pytest.raises(StoreError, match=rf"in use by process {os.getpid()} on .* since 20\d\d-.*--output"):
        Lock(tmp_path / "new" / "folder")
    held.release()
    assert not (tmp_path / "new" / "folder" / HOLDER_NAME).exists()
    Lock(tmp_path / "new" / "folder").release()


def test_a_holder_without_a_name_still_holds(tmp_path: Path) -> None:
    held = Lock(tmp_path)
    (tmp_path / HOLDER_NAME).unlink()
    with pytest.raises(StoreError, match="in use by another process"):
        Lock(tmp_path)
    held.release()
    held.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS_AND_DIES, str(tmp_path)]
    killed = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / HOLDER_NAME).exists()
    held = Lock(tmp_path)
    assert f"process {os.getpid()} " in (tmp_path / HOLDER_NAME).read_text()
    held.release()


def test_a_folder_that_cannot_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Lock(tmp_path / "file" / "folder")
    (tmp_path / "taken" / LOCK_NAME).mkdir(parents=True)
    with pytest.raises(StoreError, match="expected a regular file, found a folder"):
        Lock(tmp_path / "taken")


def test_another_thread_may_release_it(tmp_path: Path) -> None:
    held = Lock(tmp_path)
    other = threading.Thread(target=held.release)
    other.start()
    other.join()
    Lock(tmp_path).release()
