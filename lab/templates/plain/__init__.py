"""Kernels as users have them: plain CUDA files, without a declaration at their top."""
