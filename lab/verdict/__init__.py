"""The evidence for a verdict: sampled blocks, the elements that all blocks together write, launch limits.

Modules that other rooms import: all.
"""
