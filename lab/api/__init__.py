"""The Python API beyond plain pipeline calls: experiments as mappings, arrays, and Kernel Tuner's interface.

Modules that other rooms import: `executing`, `given`, `kernel_tuner.tune`, `running`.
"""
