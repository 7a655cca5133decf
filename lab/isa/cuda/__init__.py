"""The reader of CUDA C++ source: what its kernels are called, what they take, and which macros they expect."""
