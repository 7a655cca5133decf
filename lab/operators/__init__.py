"""Operators: inputs, NumPy references, tolerances and operation counts, one file per operator."""
