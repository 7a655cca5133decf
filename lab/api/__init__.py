"""The Python API beyond plain calls of the pipeline: experiments as mappings, arrays, and Kernel Tuner's arguments."""
