"""Softmax in PyTorch's autograd, forward and backward, beside torch.softmax."""

from __future__ import annotations

import pytest

from lab.gpu.autograd import softmax

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 777), (1823, 781), (64, 12672)])
def test_values_and_gradients_are_those_of_pytorch(shape, dtype):
    kind = getattr(torch, dtype)
    x = torch.randn(shape, device="cuda", dtype=kind, requires_grad=True)
    dy = torch.randn(shape, device="cuda", dtype=kind)
    y = softmax(x)
    (dx,) = torch.autograd.grad(y, x, dy)
    wanted = torch.softmax(x.double(), -1)
    unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    assert torch.allclose(y.double(), wanted, rtol=50 * unit, atol=unit / 10)
    y = y.detach().double()
    expected = y * (dy.double() - (y * dy.double()).sum(-1, keepdim=True))
    assert torch.allclose(dx.double(), expected, rtol=50 * unit, atol=unit)


@pytest.mark.filterwarnings("ignore:.*double precision.*")
def test_the_gradient_is_that_of_the_forward_pass():
    """The templates compute in float32, whatever the element type.

    A step of 1e-2 makes the difference quotient wrong by about 1e-5 from rounding, u / eps, and by as much from the
    third derivative, eps^2 / 6; elements of the Jacobian are up to 0.25.
    """
    x = torch.randn((3, 7), device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(softmax, (x,), eps=1e-2, atol=1e-3, rtol=1e-2)
