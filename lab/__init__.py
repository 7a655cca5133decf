"""A bench for CUDA kernels: what did this change do to the machine code, and did it pay?"""

__version__ = "0.1.0"
