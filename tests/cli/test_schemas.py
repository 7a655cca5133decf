import pytest

from lab.cli.schemas import schema_of


@pytest.mark.parametrize(("kind", "key"), [("experiment", "then"), ("task", "properties"), ("verdict", "properties")])
def test_each_kind_has_a_schema(kind, key):
    schema = schema_of(kind)
    assert schema["$schema"].endswith("2020-12/schema")
    assert key in schema
