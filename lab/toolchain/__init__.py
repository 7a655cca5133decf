"""Compilers behind one interface, the disassembler, and a cache of what they made."""
