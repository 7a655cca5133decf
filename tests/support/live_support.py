"""A run that an account is kept of, as its stages would tell it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from lab.cli.live.run_account import RunAccount
from lab.cli.progress import RunProgress
from lab.recorded.run_records import VariantRecord
from lab.stages.build import BuildFailure


class Clock:
    """Stands where the test puts it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begin(
    account: RunAccount | RunProgress, variants: int, problems: Sequence[Any] = (), question: str = "Does it?"
) -> None:
    experiment = SimpleNamespace(name="mine", question=question, problems=problems)
    account.planned(cast("Any", experiment), cast("Any", SimpleNamespace(combinations=30)), variants, "NVIDIA H200")


def build(account: RunAccount | RunProgress, record: VariantRecord) -> None:
    named = SimpleNamespace(variant=record.variant, label=record.label)
    account.built(cast("Any", named), BuildFailure("nobody looks at it"))


def written(console: Console) -> str:
    """Return the text printed on a console over a `StringIO`."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
