from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import StoreError
from lab.store.store_schema import SCHEMA, check_schema


@pytest.mark.parametrize("schema", [None, "27", 0, SCHEMA - 1, SCHEMA + 1])
def test_another_schema_names_both(schema: object) -> None:
    said = rf"^a/x was written by another version of lab: schema {schema!r}, this reads {SCHEMA}; do this$"
    with pytest.raises(StoreError, match=said):
        check_schema(schema, Path("a/x"), "; do this")


def test_its_own_schema_is_read() -> None:
    check_schema(SCHEMA, Path("a/x"))
