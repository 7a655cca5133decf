"""The baselines that variants are compared with: cuBLAS, copies, PyTorch and Triton."""
