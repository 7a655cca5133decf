"""Tuning files: schema, checks, sizes, and Tensile's parameter names."""
