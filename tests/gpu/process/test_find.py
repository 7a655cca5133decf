"""Which cards of a machine are taken; the driver is played."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_device import FakeDevice
from mistakes import coded

from lab.base.errors import UserError
from lab.gpu.device import describe, residents
from lab.gpu.process.find import find_cards

H200 = replace(FakeDevice().describe(), name="NVIDIA H200")
A100 = replace(H200, name="NVIDIA A100-SXM4-80GB")


@pytest.fixture
def machine(monkeypatch):
    """A function that puts GPUs into the machine."""

    def put(*gpus):
        monkeypatch.setattr(residents, "clusters_of", lambda ordinal: ((2, 66 + ordinal),))
        monkeypatch.setattr(describe, "probe", lambda: gpus[0])
        monkeypatch.setattr(describe, "device_count", lambda: len(gpus))
        monkeypatch.setattr(describe, "device_id", lambda ordinal: f"GPU-{ordinal}")
        monkeypatch.setattr(describe, "describe_device", lambda ordinal: gpus[ordinal])

    return put


def taken(**asked):
    return [(card.id, card.visible, card.label) for card in find_cards(measure=True, **asked)[0]]


def test_the_first_card_alone_is_taken_and_its_worker_sees_what_this_process_sees(machine):
    machine(H200, A100)
    assert taken() == [("GPU-0", "", "GPU 0")]
    assert find_cards(measure=False) == ((), "Nothing was measured: --no-gpu was given.")


def test_every_card_of_one_model_is_named_to_its_own_worker(machine):
    machine(H200, H200)
    assert taken(every=True) == [("GPU-0", "GPU-0", "GPU 0"), ("GPU-1", "GPU-1", "GPU 1")]
    machine(H200)
    assert taken(every=True) == [("GPU-0", "", "GPU 0")]


def test_each_card_is_asked_for_its_clusters(machine):
    machine(H200, H200)
    cards, _ = find_cards(measure=True, every=True)
    assert [card.description.clusters for card in cards] == [((2, 66),), ((2, 67),)]
    assert find_cards(measure=True)[0][0].description.clusters == ((2, 66),)


def test_several_models_are_never_mixed(machine):
    machine(H200, A100, A100)
    with pytest.raises(
        UserError, check=coded("mismatch", key="--gpu-model", found="1 x NVIDIA H200, 2 x NVIDIA A100-SXM4-80GB")
    ) as raised:
        find_cards(measure=True, every=True)
    assert raised.value.found == "1 x NVIDIA H200, 2 x NVIDIA A100-SXM4-80GB"
    assert [one[0] for one in taken(every=True, model="a100")] == ["GPU-1", "GPU-2"]
    assert taken(model="A100") == [("GPU-1", "GPU-1", "GPU 1")]
    with pytest.raises(UserError, check=coded("unknown-name", key="--gpu-model", found="B200")):
        find_cards(measure=True, model="B200")
    with pytest.raises(UserError, check=coded("mismatch", key="--gpu-model", found="NVIDIA")):
        find_cards(measure=True, every=True, model="NVIDIA")


def test_a_machine_without_a_gpu_says_why(monkeypatch):
    monkeypatch.setattr(describe, "probe", lambda: "Nothing was measured: there is no NVIDIA driver on this machine.")
    assert find_cards(measure=True, every=True) == (
        (),
        "Nothing was measured: there is no NVIDIA driver on this machine.",
    )
