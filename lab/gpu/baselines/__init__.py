"""Baselines for variants: cuBLAS, copies, PyTorch and Triton."""
