"""Softmax from PyTorch operations, imported only with PyTorch, whose compilers read the function's source."""

# ruff: noqa: ANN001, ANN201 - TorchScript takes arguments without annotations for tensors
# mypy: ignore-errors
import torch


def softmax_into(x, y):
    """Write the softmax of each row of x to y, both (m, n)."""
    powers = torch.exp(x - torch.amax(x, 1, keepdim=True))
    torch.div(powers, torch.sum(powers, 1, keepdim=True), out=y)
