"""The Python API beyond plain pipeline calls: experiments as mappings, arrays, and Kernel Tuner's interface."""
