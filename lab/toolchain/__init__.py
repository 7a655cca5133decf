"""Compilers behind one interface, the disassembler, and a cache of their output."""
