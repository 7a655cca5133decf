"""The PTX machine: executes, counts and checks kernels on NumPy, without a GPU."""
