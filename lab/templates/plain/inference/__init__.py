"""Infers from a kernel's body what a draft says: shapes and directions of arrays, blocks, grid and sizes."""
