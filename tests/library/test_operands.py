from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from library_support import ADDRESS, OnGpu, fortran, small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library import operands
from lab.library.calls import call_form
from lab.library.operands import operand, stream_handle


def made_class(name, module, **members):
    return type(name, (), {"__module__": module, **members})


@pytest.fixture
def torch(monkeypatch):
    """PyTorch as it is read: its tensors have no interface here, which would cost microseconds."""
    module: Any = ModuleType("torch")
    module.recording = False
    module.is_grad_enabled = lambda: module.recording
    dtype = made_class("dtype", "torch", __str__=lambda self: "torch.float32")()
    members = {
        "shape": (5, 7),
        "dtype": dtype,
        "requires_grad": False,
        "index": 0,
        "stride": lambda self: (1, 8),
        "get_device": lambda self: self.index,
        "data_ptr": lambda self: ADDRESS,
    }
    module.Tensor = made_class("Tensor", "torch", **members)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(operands, "_readers", {})
    return module


def test_an_array_with_the_interface_is_read():
    form = ((5, 7), (4, 20), "<f4", True)
    assert operand("A", OnGpu(fortran(5, 7))) == (ADDRESS, form, None, None)
    other = OnGpu(np.zeros((5, 7)), strides=False, stream=9, read_only=True)
    assert operand("A", other) == (ADDRESS, ((5, 7), None, "<f8", False), 9, None)


def test_what_has_none_is_named():
    for value, kind in ((fortran(5, 7), "ndarray"), (None, "NoneType"), ([1.0], "list")):
        with pytest.raises(UserError, check=coded("wrong-type", key="B")) as caught:
            operand("B", value)
        assert caught.value.found == kind


def test_an_interface_that_raises_is_named():
    def refuse(self):
        raise TypeError("no export")

    array = made_class("Tensor", "elsewhere", __cuda_array_interface__=property(refuse))()
    with pytest.raises(UserError, check=coded("unreadable", key="A", found="Tensor")):
        operand("A", array)


def test_a_tensor_is_read_by_its_own_attributes(torch):
    pointer, form, stream, gpu = operand("A", torch.Tensor())
    assert (pointer, stream, gpu) == (ADDRESS, None, 0)
    square = (form[0], form[1], form[2], True)
    with pytest.raises(UserError, check=coded("mismatch", found="A 5 x 7, B 5 x 7, C 5 x 7")):  # each was taken
        call_form((square, square, square), small_library())


def test_a_parameter_is_a_tensor_and_other_subclasses_are_not(torch):
    parameter = type("Parameter", (torch.Tensor,), {"__module__": "torch.nn.parameter"})
    assert operand("A", parameter())[0] == ADDRESS
    distributed = type("DTensor", (torch.Tensor,), {"__module__": "torch.distributed.tensor"})
    with pytest.raises(UserError, check=coded("wrong-type", key="A", found="DTensor")):
        operand("A", distributed())


def test_a_tensor_of_the_host_is_refused(torch):
    tensor = torch.Tensor()
    tensor.index = -1
    with pytest.raises(UserError, check=coded("wrong-type", key="A", found="Tensor")):
        operand("A", tensor)


def test_a_tensor_whose_gradient_would_be_lost_is_refused(torch):
    tensor = torch.Tensor()
    tensor.requires_grad = True
    assert operand("A", tensor)[0] == ADDRESS
    torch.recording = True
    with pytest.raises(UserError, check=coded("wrong-type", key="A")):
        operand("A", tensor)


def test_a_tensor_without_strides_is_refused(torch):
    def refuse():
        raise RuntimeError("sparse tensors do not have strides")

    tensor = torch.Tensor()
    tensor.stride = refuse
    with pytest.raises(UserError, check=coded("unreadable", key="A")):
        operand("A", tensor)


@pytest.mark.parametrize(("current", "told"), [(0, 1), (77, 77)])
def test_an_array_of_cupy_tells_the_stream_it_is_written_on(monkeypatch, current, told):
    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=current))
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(operands, "_readers", {})
    members = {"shape": (5, 7), "strides": (4, 20), "dtype": np.dtype("f4")}
    array = made_class("ndarray", "cupy", data=SimpleNamespace(ptr=ADDRESS, device_id=1), **members)()
    assert operand("A", array) == (ADDRESS, ((5, 7), (4, 20), np.dtype("f4"), True), told, 1)


def test_an_array_of_pycuda_is_read_by_its_attributes():
    members = {"ptr": ADDRESS, "shape": (5, 7), "strides": (4, 20), "dtype": np.dtype("f4")}
    array = made_class("GPUArray", "pycuda.gpuarray", **members)()
    assert operand("A", array) == (ADDRESS, ((5, 7), (4, 20), np.dtype("f4"), True), None, None)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (0, 0),
        (1, 0),
        (2, 2),
        (0x70, 0x70),
        (made_class("Stream", "torch.cuda", cuda_stream=0x70)(), 0x70),
        (made_class("Stream", "pycuda.driver", handle=0x70)(), 0x70),
        (made_class("ExternalStream", "cupy.cuda", __init__=lambda self: setattr(self, "ptr", 0x70))(), 0x70),
        (made_class("Anything", "mine", __cuda_stream__=lambda self: (0, 0x70))(), 0x70),
    ],
)
def test_streams_of_all_libraries_are_understood(stream, handle):
    assert stream_handle(stream) == handle


@pytest.mark.parametrize("stream", ["main", -1, True, 1.5j, made_class("GPUArray", "pycuda", ptr=0x70)()])
def test_what_is_no_stream_is_refused(stream):
    with pytest.raises(UserError, check=coded("wrong-type", key="stream")):
        stream_handle(stream)
