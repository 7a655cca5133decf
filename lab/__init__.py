"""A bench for CUDA kernels: what did this change do to the machine code, and did it pay?"""

from lab.base.version import VERSION

__version__ = VERSION

__all__ = ["__version__"]
