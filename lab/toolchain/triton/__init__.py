"""Triton functions as sources: a process of their own runs the user's Python file and compiles one function of it."""
