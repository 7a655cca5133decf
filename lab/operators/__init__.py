"""What is computed: inputs, the NumPy reference, tolerances and operation counts, one file an operator."""
