"""Baselines by name."""

from __future__ import annotations

import sys

import pytest
from fake_torch import FakeTorch

from lab.gpu.device.backend import BaselineMissingError
from lab.measured.baselines import BASELINES
from lab.operators.base import Inputs
from lab.operators.builtin import operator


@pytest.fixture
def registry(cuda):
    from lab.gpu.baselines import registry as module  # noqa: PLC0415 - PyCUDA is played by now

    return module


def site(registry, cuda, inputs=None, pointers=None):
    def absent():
        raise BaselineMissingError("libcublas was not found")

    given = inputs or Inputs({}, {}, ())
    return registry.BaselineSite(given, pointers or {}, cuda.Stream(), "sm_90", lambda launch: 1.0, absent)


def test_every_baseline_has_a_maker_for_each_of_its_operators(registry):
    pairs = {(name, one) for name, operators in BASELINES.items() for one in operators or (registry.ANY,)}
    assert set(registry.MAKERS) == pairs


def test_an_unknown_name_is_answered_with_the_known_ones(registry, cuda):
    accepted = "cublas, copy, torch, torch-naive, torch-jit, torch-compile, triton"
    with pytest.raises(BaselineMissingError, match=f"there is no baseline 'mkl'; accepted: {accepted}"):
        registry.make("mkl", "gemm", {}, site(registry, cuda))


@pytest.mark.parametrize(
    ("name", "of", "words"),
    [
        ("cublas", "softmax", "the baseline cublas computes gemm, not softmax"),
        (
            "torch",
            "transpose",
            f"the baseline torch computes {', '.join(BASELINES['torch'])}, not transpose",
        ),
        (
            "triton",
            "contraction",
            "the baseline triton computes softmax, layer_norm, rms_norm, masked_softmax, not contraction",
        ),
    ],
)
def test_an_operator_that_a_baseline_does_not_compute_is_named(registry, cuda, name, of, words):
    with pytest.raises(BaselineMissingError) as caught:
        registry.make(name, of, {}, site(registry, cuda))
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("name", "of", "fields", "words"),
    [
        ("cublas", "gemm", {"m": 2, "n": 3, "k": 4}, "libcublas was not found"),
        ("copy", "transpose", {"m": 2, "n": 3}, "the baseline copy needs an operator with one input"),
        ("torch", "softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch", "contraction", {"einsum": "ik,kj->ij", "i": 2, "j": 3, "k": 4}, "torch cannot be imported"),
        ("torch", "gemm", {"m": 2, "n": 3, "k": 4}, "cublas computes the others"),
        ("torch", "layer_norm", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch", "rms_norm", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch-naive", "softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch-jit", "softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch-compile", "softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("torch", "masked_softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("triton", "softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("triton", "layer_norm", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("triton", "rms_norm", {"m": 2, "n": 3}, "torch cannot be imported"),
        ("triton", "masked_softmax", {"m": 2, "n": 3}, "torch cannot be imported"),
    ],
)
def test_each_name_leads_to_its_maker(registry, cuda, monkeypatch, name, of, fields, words):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BaselineMissingError, match=words):
        registry.make(name, of, operator(of).problem(fields), site(registry, cuda))


def test_a_maker_gets_the_problem_the_addresses_and_the_stream(registry, cuda, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    softmax = operator("softmax")
    problem = softmax.problem({"m": 2, "n": 3})
    inputs = softmax.inputs(problem, 0)
    pointers = {name: array.ctypes.data for name, array in inputs.arrays.items()}
    baseline = registry.make("torch", "softmax", problem, site(registry, cuda, inputs, pointers))
    assert baseline.kernel == "torch.softmax"
    assert torch.streams == [cuda.Stream.handle]
    assert inputs.arrays["Y"].reshape(2, 3).sum(axis=1) == pytest.approx([1.0, 1.0])
