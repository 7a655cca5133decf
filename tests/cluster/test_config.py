"""The user's configuration."""

from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.cluster.config import ClusterModel, configured


def test_without_a_file_everything_is_as_usual(tmp_path) -> None:
    assert configured(tmp_path / "config.yaml") == ClusterModel()


def test_a_relative_folder_of_keys_starts_at_the_file(tmp_path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("cluster: {address: 'tls://node', keys: keys, jobs: 3}\n")
    found = configured(file)
    assert (found.address, found.keys, found.jobs, found.insecure) == ("tls://node", str(tmp_path / "keys"), 3, False)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("cluster:\n  adress: local\n", 2, "address"),
        ("cluster:\n  jobs: 0\n", 2, "jobs"),
        ("clustr: {}\n", 1, "cluster"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, line, key, tmp_path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        configured(file)
    assert f"{file}:{line}" in str(caught.value)
    assert key in str(caught.value)
