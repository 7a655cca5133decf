"""The PTX machine: executes, counts and checks kernels on NumPy, with no GPU."""
