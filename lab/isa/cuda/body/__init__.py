"""Symbolic reading of a kernel's body: which elements of which array it loads and stores, and under which bounds."""
