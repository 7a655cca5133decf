"""`lab cluster`, and what ``--cluster`` means."""

from __future__ import annotations

import pytest
from mistakes import coded
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli import cluster
from lab.cluster import config
from lab.cluster.config import ClusterModel


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch):
    monkeypatch.setattr(config, "configured", ClusterModel)


def test_keys_are_made_and_the_commands_that_follow_printed(tmp_path) -> None:
    pytest.importorskip("distributed")
    done = CliRunner().invoke(cluster.commands, ["keys", str(tmp_path / "k")])
    assert done.exit_code == 0
    assert "cluster-key.pem" in done.output
    assert "lab cluster worker tls://SCHEDULER:8786" in done.output


@pytest.mark.parametrize("given", [None, "local"])
def test_this_machine_needs_no_cluster(given) -> None:
    with cluster.surroundings(given, None, insecure=False, jobs=None) as found:
        assert found == (given or "", None)


def test_options_of_an_address_need_one(tmp_path) -> None:
    with (
        pytest.raises(UserError, check=coded("conflict", key="--cluster", found="local")),
        cluster.surroundings("local", tmp_path, insecure=False, jobs=None),
    ):
        pass


def test_the_configuration_says_which_cluster_is_meant(monkeypatch) -> None:
    monkeypatch.setattr(config, "configured", lambda: ClusterModel(address="tcp://node:1"))
    with (
        pytest.raises(UserError, check=coded("refused", key="--cluster", found="tcp://node:1")),
        cluster.surroundings(None, None, insecure=False, jobs=None),
    ):
        pass
