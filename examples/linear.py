"""torch.nn.Linear in FP32 by a library's kernels, forward and backward.

    python examples/linear.py [LIBRARY]

LIBRARY is the name of a library that comes with lab (h200_sgemm, unless another is named), or a folder with libraries
of the layouts nn, nt and tn. `replace_linear(model, library)` changes the layers of a model; below, a small one is
compared with the same model as it was. What the program prints are the largest differences, relative to the largest
values.

PyTorch's matrices are row-major. The same numbers, read column-major, are the transposed matrix, which costs nothing:
`x.T` is a view. So y = x W^T + b is computed as y^T = W x^T + b, whose first factor is stored transposed (layout tn).
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.autograd.function import once_differentiable

import lab


def packed(matrix: torch.Tensor) -> torch.Tensor:
    """Return a row-major matrix that starts at a multiple of 16 bytes, as the kernels need it: itself, or a copy."""
    if matrix.is_contiguous() and matrix.data_ptr() % 16 == 0:
        return matrix
    return matrix.clone(memory_format=torch.contiguous_format)


class LinearFunction(torch.autograd.Function):
    """y = x W^T + b, and its derivatives; `library.gemm` is given the stream that PyTorch computes on."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, library: Any
    ) -> torch.Tensor:
        """Return y: rows x outputs."""
        ctx.save_for_backward(x, weight)
        ctx.library, ctx.has_bias = library, bias is not None
        if bias is None:
            y = x.new_empty(x.shape[0], weight.shape[0])
        else:
            y = bias.expand(x.shape[0], -1).clone(memory_format=torch.contiguous_format)  # beta = 1 adds to it
        stream = torch.cuda.current_stream()
        library.gemm(1.0, weight.T, x.T, float(bias is not None), y.T, layout="tn", stream=stream)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the derivatives by x, W and b."""
        x, weight = ctx.saved_tensors
        gradient, stream = packed(gradient), torch.cuda.current_stream()
        by_x = by_weight = by_bias = None
        if ctx.needs_input_grad[0]:
            by_x = torch.empty_like(x)
            ctx.library.gemm(1.0, weight.T, gradient.T, 0.0, by_x.T, layout="nn", stream=stream)
        if ctx.needs_input_grad[1]:
            by_weight = torch.empty_like(weight)
            ctx.library.gemm(1.0, x.T, gradient.T, 0.0, by_weight.T, layout="nt", stream=stream)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            by_bias = gradient.sum(0)
        return by_x, by_weight, by_bias, None


class Linear(torch.nn.Linear):
    """A linear layer whose products are a library's."""

    library: Any

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute one product for all leading dimensions together."""
        rows = packed(x.reshape(-1, self.in_features))
        y = LinearFunction.apply(rows, self.weight, self.bias, self.library)
        return y.view(*x.shape[:-1], self.out_features)


def replace_linear(module: torch.nn.Module, library: Any) -> None:
    """Let a library compute the linear layers of a model; their parameters stay the same objects."""
    for child in module.modules():
        if type(child) is torch.nn.Linear:
            child.__class__ = Linear
            child.library = library


def main() -> None:
    """Compare a model with and without the library."""
    library = lab.dispatch.load(sys.argv[1] if len(sys.argv) > 1 else "h200_sgemm")
    torch.manual_seed(0)
    models = [
        torch.nn.Sequential(torch.nn.Linear(500, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 36, bias=False)).cuda()
        for _ in range(2)
    ]
    models[1].load_state_dict(models[0].state_dict())
    replace_linear(models[1], library)
    x = torch.randn(3, 77, 500, device="cuda")
    results = []
    for model in models:
        given = x.clone().requires_grad_()
        y = model(given)
        y.square().sum().backward()
        results.append({"y": y, "x": given.grad, **{name: p.grad for name, p in model.named_parameters()}})
    worst = 0.0
    for name, expected in results[0].items():
        difference = float((results[1][name] - expected).abs().max() / expected.abs().max())
        worst = max(worst, difference)
        print(f"{name:10} {difference:.1e}")
    if not worst < 1e-4:  # of sums of up to 1024 products in FP32
        sys.exit("the library's results differ")


if __name__ == "__main__":
    main()
