"""The CUDA C++ source reader: kernel names, their parameters, and the macros a source expects."""
