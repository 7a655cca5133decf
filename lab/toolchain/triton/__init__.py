"""Triton functions as sources: a separate process runs the user's Python file and compiles one function of it."""
