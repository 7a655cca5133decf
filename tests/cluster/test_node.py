"""Resources a host offers to a scheduler."""

from __future__ import annotations

import pytest
from fake_device import FakeDevice

from lab.cluster import node, remote
from lab.cluster.security import Way
from lab.gpu.process.cards import Card

CARD = Card("GPU-0", "", "GPU-0", FakeDevice().describe(), "GPU 0")


def test_a_host_has_one_worker_for_its_cores_and_one_for_each_card(monkeypatch, tmp_path) -> None:
    distributed = pytest.importorskip("distributed")
    nannies = []
    monkeypatch.setattr(distributed, "Nanny", lambda address, **options: nannies.append((address, options)))
    cards = tuple(Card(f"GPU-{n}", "", f"GPU-{n}", FakeDevice().describe(), f"GPU {n}") for n in (0, 1))
    node._nannies(Way("tcp://s:1", None), node.Offer(6, cards), str(tmp_path))
    assert [options["resources"] for _, options in nannies] == [
        {"CPU": 6},
        {"GPU": 1, "GPU-0": 1},
        {"GPU": 1, "GPU-1": 1},
    ]
    assert [options["nthreads"] for _, options in nannies] == [6, 1, 1]
    assert nannies[0][1]["env"] == {remote.JOBS: "6"}
    assert [options["env"]["CUDA_VISIBLE_DEVICES"] for _, options in nannies[1:]] == ["GPU-0", "GPU-1"]
    assert not any(options["dashboard"] for _, options in nannies)


def test_timings_have_a_core_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr("lab.base.workers.cores", lambda: 8)
    assert node.usual_jobs([]) == 8
    assert node.usual_jobs([CARD] * 2) == 6
    assert node.usual_jobs([CARD] * 9) == 1


def test_a_host_without_a_driver_offers_no_card(monkeypatch) -> None:
    monkeypatch.setattr("lab.gpu.device.describe.probe", lambda: "Nothing was measured: no driver.")
    assert node.cards_here() == ()
