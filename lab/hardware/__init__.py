"""Hardware knowledge: the table of GPUs, occupancy, shared-memory and sector rules, latencies.

Modules that other rooms import: all.
"""
